package redis

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// rewrite writes a store's keys into a new log, a few each turn, in the order of their hashes. Keys
// before next are already in the new log, so we append their changes to it too; the others will be
// written as they are when we get to them. This is why an effect may touch only one key.
type rewrite struct {
	file  File
	frame []byte
	value []byte
	buf   []byte
	size  int64
	// next is the next key's hash; all reports whether every key has been written.
	next uint64
	all  bool
	// synced receives the result of the file's sync, which runs in the background; nil before that
	// starts.
	synced chan error
}

// Defaults for the fields in Store.
const (
	minRewrite  = 4 << 20
	rewriteStep = 256 << 10
)

// covers reports whether the new log needs an effect: its key is there already, or it has no key.
func (r *rewrite) covers(key string, ok bool) bool {
	return !ok || r.all || hashOf(key) < r.next
}

// wantsRewrite reports whether it is time to rewrite the log: it is larger than minRewrite, and has
// either doubled since the last rewrite or lost most of its keys. While the disk is almost full and we
// must not write, only the second case counts, because it makes room.
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

func (l *log) startRewrite() error {
	f, err := l.fs.Create(newName)
	if err != nil {
		return fmt.Errorf("create new log: %w", err)
	}
	l.rewrite = &rewrite{file: f, buf: []byte(magic)}
	return nil
}

// stopRewrite gives up on a rewrite.
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

// continueRewrite runs at the end of each turn. It continues a rewrite, or starts one if it is time,
// and reports whether there is more to do at once.
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
	s.log.base = s.log.size // so we wait until the log has doubled
	s.log.live = s.keys.memory
	return false
}

// rewriteSome writes some keys. After the last one it makes the new log durable.
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

// appendRestore appends the effect that recreates a key from its dumped value.
func appendRestore(frame []byte, e *entry, dumped []byte) []byte {
	frame = appendUint(appendHeader(frame), 6)
	frame = appendString(frame, "restore")
	frame = appendString(frame, e.key)
	frame = appendString(frame, formatInt(e.expires))
	frame = append(appendUint(frame, uint64(len(dumped))), dumped...)
	frame = appendString(frame, "replace")
	return appendString(frame, "absttl")
}

// flush writes the buffer.
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

// errRenaming is returned if we do not know which of the two logs now has the log's name. Both have
// everything that was acknowledged, so the store must be read again from whichever has it.
var errRenaming = errors.New("replace log")

// finishRewrite puts the new log in the old one's place.
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

// preamble returns the effects at the start of a log, for everything that is not a key: the store's
// settings and the function libraries.
func (s *Store) preamble() [][]string {
	effects := s.limits.keptSettings.effects()
	for _, name := range slices.Sorted(maps.Keys(s.scripts.libraries)) {
		effects = append(effects, []string{"function", "load", "replace", s.scripts.libraries[name].text})
	}
	return effects
}

// Import creates the store in a directory from commands that touch at most one key and give the same
// result whenever they run, such as PEXPIREAT instead of EXPIRE. fill calls add with each. When Import
// returns nil, the whole store is durable; before that there is none. You can repeat it after a crash.
func Import(dir FS, fill func(add func(args ...string) error) error) error {
	f, err := dir.Create(newName)
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer func() { _ = f.Close() }()
	w := &rewrite{file: f, buf: []byte(magic)}
	if err := fill(w.add); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", err)
	}
	if err := dir.Rename(newName, logName); err != nil {
		return fmt.Errorf("rename log: %w", err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// add appends a command to a new log.
func (r *rewrite) add(args ...string) error {
	r.frame = appendEffect(r.frame[:0], args)
	r.buf = appendFrame(r.buf, r.frame)
	r.frame = emptied(r.frame)
	if len(r.buf) < rewriteStep {
		return nil
	}
	return r.flush()
}

// Exists reports whether a directory has a store.
func Exists(dir FS) (bool, error) {
	f, err := dir.Open(logName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}
