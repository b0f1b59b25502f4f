// Package disk tells how much space is left on a file system.
package disk

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"steward/internal/errs"
)

// Reserve is the number of free bytes that are kept by default, for what must work on a full disk:
// deleting things, and the database's own log.
const Reserve = 256 << 20

// Free returns the number of bytes that can still be written to the file system of a directory.
func Free(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

// FreePercent returns how much of the file system of a directory is free, in percent.
func FreePercent(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return int64(float64(stat.Bavail) / float64(max(stat.Blocks, 1)) * 100), nil
}

// Space knows whether the file system of a directory is almost full. It is safe for concurrent use, and
// cheap enough to be asked for every request.
type Space struct {
	Dir     string
	Reserve int64
	// Reusable returns the number of bytes within a file that are free to be used again, which count as
	// free. It is called only if less than the reserve is free without them, and may be nil.
	Reusable func() (int64, error)
	// checked is when the free space was last read, in nanoseconds since 1970.
	checked atomic.Int64
	low     atomic.Bool
}

// age is for how long the free space that was read is used.
const age = 50 * time.Millisecond

// Low reports whether less than the reserve is free. A file system that cannot be read is not low.
func (s *Space) Low(now time.Time) bool {
	last := s.checked.Load()
	if now.UnixNano()-last > int64(age) && s.checked.CompareAndSwap(last, now.UnixNano()) {
		free, err := s.free()
		s.low.Store(err == nil && free < s.Reserve)
	}
	return s.low.Load()
}

func (s *Space) free() (int64, error) {
	free, err := Free(s.Dir)
	if err != nil || free >= s.Reserve || s.Reusable == nil {
		return free, err
	}
	reusable, err := s.Reusable()
	return free + reusable, err
}

// Room returns Unavailable if less than the reserve is free, so that something else could be added only
// at its expense. A nil Space always has room.
func (s *Space) Room() error {
	if s != nil && s.Low(time.Now()) {
		return errs.Unavailablef(nil, "the disk of the server is almost full: delete something, or free some space")
	}
	return nil
}
