package redis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// rewrite writes the keys of a store into a new log, some in each turn, in the order of their hashes.
// Keys before next are in the new log, and what changes them is appended to it too; the others will be
// written as they are when their turn comes. So effects have one key only.
type rewrite struct {
	file  File
	frame []byte
	value []byte
	buf   []byte
	size  int64
	// next is the hash of the next key; all is whether all keys have been written.
	next uint64
	all  bool
	// synced receives the result of making the file durable in the background; nil before that begins.
	synced chan error
}

// The defaults of the fields of a store.
const (
	minRewrite  = 4 << 20
	rewriteStep = 256 << 10
)

// covers reports whether the new log has to have an effect: if its key is there already, or if it has none.
func (r *rewrite) covers(key string, ok bool) bool {
	return !ok || r.all || hashOf(key) < r.next
}

// wantsRewrite reports whether it is time to rewrite the log: when it is larger than a size and twice what it was after
// the last rewriting, or most keys have been deleted since. While nothing may be written, because the disk is almost
// full, it is time when most keys have been deleted, which makes room.
func (s *Store) wantsRewrite() bool {
	l := s.log
	if l.rewrite != nil || l.size <= s.minRewrite {
		return false
	}
	small := s.keys.memory < l.live/8
	if l.size <= 2*l.base && !small {
		return false
	}
	return small || s.options.Writable == nil || s.options.Writable() == nil
}

// startRewrite begins to rewrite the log.
func (l *log) startRewrite() error {
	f, err := l.fs.Create(newName)
	if err != nil {
		return fmt.Errorf("create new log: %w", err)
	}
	l.rewrite = &rewrite{file: f, buf: []byte(magic)}
	return nil
}

// stopRewrite gives a rewriting up.
func (l *log) stopRewrite() {
	if r := l.rewrite; r != nil {
		l.rewrite = nil
		if r.synced != nil {
			<-r.synced
		}
		_ = r.file.Close()
		_ = l.fs.Remove(newName)
	}
}

// continueRewrite continues a rewriting, if there is one or should be. It is called at the end of a turn. It
// returns whether there is more to do at once.
func (s *Store) continueRewrite() bool {
	more, err := s.rewriteSome()
	if err == nil {
		return more
	}
	if errors.Is(err, errRenaming) {
		s.fail(err)
		return true
	}
	s.options.Log.Warn("rewriting the log of a key-value store failed", "error", err)
	s.log.stopRewrite()
	s.log.base = s.log.size // there is no other attempt until the log is twice as large
	s.log.live = s.keys.memory
	return false
}

// rewriteSome writes some keys, or makes the new log durable after the last.
func (s *Store) rewriteSome() (bool, error) {
	if s.wantsRewrite() {
		if err := s.log.startRewrite(); err != nil {
			return false, err
		}
	}
	r := s.log.rewrite
	if r == nil {
		return false, nil
	}
	if !r.all {
		s.writeKeys(r)
	}
	if err := r.flush(); err != nil {
		return false, err
	}
	switch {
	case !r.all:
		return true, nil
	case r.synced == nil:
		r.synced = make(chan error, 1)
		go func() {
			r.synced <- r.file.Sync()
			s.wakeUp()
		}()
		return false, nil
	}
	select {
	case err := <-r.synced:
		r.synced = nil
		if err != nil {
			return false, fmt.Errorf("sync new log: %w", err)
		}
		s.log.live = s.keys.memory
		return false, s.log.finishRewrite()
	default:
		return false, nil
	}
}

// writeKeys writes the next keys.
func (s *Store) writeKeys(r *rewrite) {
	if r.next == 0 && r.size == 0 {
		for _, args := range s.preamble() {
			r.buf = appendFrame(r.buf, appendEffect(nil, args))
		}
	}
	start := len(r.buf)
	for len(r.buf)-start < s.rewriteStep {
		r.next = s.keys.entries.Scan(r.next, &entry{}, 16, func(e *entry) {
			r.value = appendDump(r.value[:0], e.value)
			r.frame = appendRestore(r.frame[:0], e, r.value)
			r.buf = appendFrame(r.buf, r.frame)
		})
		r.frame = emptied(r.frame)
		r.value = emptied(r.value)
		if r.next == 0 {
			r.all = true
			return
		}
	}
}

// appendRestore appends the effect that makes a key what it is, with the dump of its value.
func appendRestore(frame []byte, e *entry, dumped []byte) []byte {
	frame = appendUint(appendHeader(frame), 6)
	frame = appendString(frame, "restore")
	frame = appendString(frame, e.key)
	frame = appendString(frame, formatInt(e.expires))
	frame = append(appendUint(frame, uint64(len(dumped))), dumped...)
	frame = appendString(frame, "replace")
	return appendString(frame, "absttl")
}

// flush writes what is buffered.
func (r *rewrite) flush() error {
	if len(r.buf) == 0 {
		return nil
	}
	if _, err := r.file.WriteAt(r.buf, r.size); err != nil {
		return fmt.Errorf("write new log: %w", err)
	}
	r.size += int64(len(r.buf))
	r.buf = emptied(r.buf)
	return nil
}

// errRenaming is returned if it is not known which of two logs has the name of the log. Both have all that
// was acknowledged, and the store has to be read from the one that has it.
var errRenaming = errors.New("replace log")

// finishRewrite puts the new log in the place of the old one.
func (l *log) finishRewrite() error {
	r := l.rewrite
	if err := r.file.Sync(); err != nil {
		return fmt.Errorf("sync new log: %w", err)
	}
	if err := l.fs.Rename(newName, logName); err != nil {
		return fmt.Errorf("%w: %w", errRenaming, err)
	}
	if err := l.fs.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errRenaming, err)
	}
	old := l.file
	l.rewrite = nil
	l.file = r.file
	l.size = r.size
	l.base = r.size
	_ = old.Close() // nothing in it is needed
	return nil
}

// preamble returns the effects that a log begins with: what is not a key, which are the store's settings and the
// libraries of functions.
func (s *Store) preamble() [][]string {
	effects := s.limits.keptSettings.effects()
	for _, name := range slices.Sorted(maps.Keys(s.scripts.libraries)) {
		effects = append(effects, []string{"function", "load", "replace", s.scripts.libraries[name].text})
	}
	return effects
}
