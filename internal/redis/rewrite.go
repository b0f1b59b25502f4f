package redis

import (
	"errors"
	"fmt"
)

// rewrite writes the keys of a store into a new log, some in each turn, in the order of their hashes.
// Keys before next are in the new log, and what changes them is appended to it too; the others will be
// written as they are when their turn comes. So effects have one key only.
type rewrite struct {
	file  File
	frame []byte
	buf   []byte
	size  int64
	// next is the hash of the next key; all is whether all keys have been written.
	next uint64
	all  bool
	// synced receives the result of making the file durable in the background; nil before that begins.
	synced chan error
}

// A rewriting begins when the log is larger than minRewrite and twice what it was after the last one. A
// turn writes about rewriteStep bytes.
const (
	minRewrite  = 1 << 20
	rewriteStep = 256 << 10
)

// covers reports whether the key of an effect is in the new log already.
func (r *rewrite) covers(args []string) bool {
	return len(args) < 2 || r.all || hashOf(args[1]) < r.next
}

// wantsRewrite reports whether it is time to rewrite the log.
func (l *log) wantsRewrite() bool {
	return l.rewrite == nil && l.size > minRewrite && l.size > 2*l.base
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

// rewriteSome continues a rewriting, if there is one or should be. It is called at the end of a turn. It
// returns whether there is more to do at once.
func (s *Store) rewriteSome() (bool, error) {
	if s.log.wantsRewrite() {
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
	for len(r.buf)-start < rewriteStep {
		r.next = scanTree(s.keys.entries, &entry{hash: r.next}, 16, func(e *entry) {
			args := []string{"restore", e.key, formatInt(e.expires), string(dump(e.value)), "replace", "absttl"}
			r.frame = appendEffect(r.frame[:0], args)
			r.buf = appendFrame(r.buf, r.frame)
		})
		r.frame = emptied(r.frame)
		if r.next == 0 {
			r.all = true
			return
		}
	}
}

// flush writes what is buffered.
func (r *rewrite) flush() error {
	if _, err := r.file.WriteAt(r.buf, r.size); err != nil {
		return fmt.Errorf("write new log: %w", err)
	}
	r.size += int64(len(r.buf))
	r.buf = emptied(r.buf)
	return nil
}

// finishRewrite puts the new log in the place of the old one.
func (l *log) finishRewrite() error {
	r := l.rewrite
	l.rewrite = nil
	err := errors.Join(r.file.Sync(), l.fs.Rename(newName, logName), l.fs.Sync())
	if err != nil {
		return errors.Join(fmt.Errorf("replace log: %w", err), r.file.Close())
	}
	old := l.file
	l.file = r.file
	l.size = r.size
	l.base = r.size
	return old.Close()
}

// preamble returns the effects that a log begins with: what is not a key.
func (s *Store) preamble() [][]string { return nil }
