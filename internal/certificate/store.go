package certificate

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store keeps the ACME client's data in the database, sealed, so that all replicas share it. Names look
// like paths. It implements certmagic.Storage. Its locks are leases: a replica that dies loses them, and
// one that lost a lock cannot change anything until it has unlocked it.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// A lock outlives its process by TTL; 0 means 30 seconds.
	TTL time.Duration

	// mu guards held. Changes hold it for reading until they are done: if a lock were unlocked meanwhile,
	// it would look lost.
	mu   sync.RWMutex
	held map[string]*lock
}

// lock is a lock that this process holds.
type lock struct {
	lease *job.Lease
	stop  context.CancelFunc // stops renewing it
}

const (
	defaultTTL = 30 * time.Second
	// While another process holds a lock, we try to get it every lockPoll.
	lockPoll = time.Second
	// maxValue caps a value, in bytes. A certificate chain takes a few KiB.
	maxValue = 1 << 20
)

// purpose ties a sealed value to its name.
func purpose(name string) string { return "certificate:" + name }

// Lock acquires a lock. It waits until nobody holds it or ctx ends.
func (s *Store) Lock(ctx context.Context, name string) error {
	ttl := s.TTL
	if ttl == 0 {
		ttl = defaultTTL
	}
	lease := &job.Lease{DB: s.DB, Now: s.Now, Name: "certificate " + name, Owner: id.New("lock"), TTL: ttl}
	for {
		acquired, err := lease.Acquire(ctx)
		if err != nil {
			return err
		}
		if acquired {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
	renewing, stop := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]*lock{}
	}
	s.held[name] = &lock{lease: lease, stop: stop}
	go renew(renewing, lease)
	return nil
}

// renew renews a lease until ctx ends. It simply retries failures, because the lease is only lost once
// another process has acquired it.
func renew(ctx context.Context, lease *job.Lease) {
	ticker := time.NewTicker(lease.TTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, _ = lease.Renew(ctx)
	}
}

// RenewLockLease is called before each attempt to do the work that a lock protects. If the lock was lost,
// it acquires it again or fails.
func (s *Store) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.RLock()
	l := s.held[name]
	s.mu.RUnlock()
	if l == nil {
		return fmt.Errorf("renew %s: the lock is not held", name)
	}
	acquired, err := l.lease.Acquire(ctx)
	if err == nil && !acquired {
		err = fmt.Errorf("renew %s: another process has taken the lock", name)
	}
	return err
}

// releaseAll releases a stopping process's locks, so that others need not wait until they expire. The work
// that they protected cannot store anything any more.
func (s *Store) releaseAll(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, lease := range s.leases() {
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Unlock releases a lock.
func (s *Store) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.stop()
	return l.lease.Release(ctx)
}

// leases returns the leases of all locks that this process holds. The caller holds mu.
func (s *Store) leases() []*job.Lease {
	all := make([]*job.Lease, 0, len(s.held))
	for _, l := range s.held {
		all = append(all, l.lease)
	}
	return all
}

// Store stores a value. It fails if this process has lost a lock: another process may be storing another
// certificate with its key, and we must not mix the two.
func (s *Store) Store(ctx context.Context, name string, value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("store %s: the value has %d bytes, which is too large", name, len(value))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	args := db.Args{"name": name, "value": s.Ring.Seal(purpose(name), value), "now": stamp.Of(s.Now())}
	stored, err := s.DB.Exec(ctx, `INSERT INTO certificates (name, value, modified_at)
		SELECT @name, @value, @now WHERE `+job.Held(s.leases(), args)+`
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, modified_at = excluded.modified_at`, args)
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	if stored == 0 {
		return fmt.Errorf("store %s: another process has taken the lock", name)
	}
	return nil
}

// Load returns a value, or fs.ErrNotExist.
func (s *Store) Load(ctx context.Context, name string) ([]byte, error) {
	rows, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (sealed []byte, err error) {
		err = row.Scan(&sealed)
		return sealed, err
	}, `SELECT value FROM certificates WHERE name = $1`, name)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("load %s: %w", name, fs.ErrNotExist)
	}
	value, err := s.Ring.Open(purpose(name), rows[0])
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return value, nil
}

// Delete deletes a value and everything below it. It deletes nothing if this process has lost a lock.
func (s *Store) Delete(ctx context.Context, name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	args := db.Args{"name": name, "dir": directory(name)}
	if _, err := s.DB.Exec(ctx, `DELETE FROM certificates WHERE (name = @name OR substr(name, 1, length(@dir)) = @dir)
		AND `+job.Held(s.leases(), args), args); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// directory returns the prefix that all names below a name have.
func directory(name string) string {
	if name == "" {
		return ""
	}
	return name + "/"
}

// Exists reports whether a name, or anything below it, has a value.
func (s *Store) Exists(ctx context.Context, name string) bool {
	_, err := s.Stat(ctx, name)
	return err == nil
}

// Stat returns when a value was stored, or fs.ErrNotExist. A name with values below it is a directory.
func (s *Store) Stat(ctx context.Context, name string) (certmagic.KeyInfo, error) {
	entries, err := s.entries(ctx, name)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	if len(entries) == 0 {
		return certmagic.KeyInfo{}, fmt.Errorf("stat %s: %w", name, fs.ErrNotExist)
	}
	if entries[0].name != name {
		return certmagic.KeyInfo{Key: name}, nil
	}
	return certmagic.KeyInfo{Key: name, Modified: entries[0].modifiedAt.Std(), IsTerminal: true}, nil
}

// List returns the names below a name. If it is not recursive, it cuts them after their next part.
func (s *Store) List(ctx context.Context, name string, recursive bool) ([]string, error) {
	entries, err := s.entries(ctx, name)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		below, ok := strings.CutPrefix(e.name, directory(name))
		if !ok {
			continue
		}
		if !recursive {
			below, _, _ = strings.Cut(below, "/")
		}
		names[path.Join(name, below)] = true
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("list %s: %w", name, fs.ErrNotExist)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// entry is a value without its content.
type entry struct {
	name       string
	modifiedAt stamp.Time
}

// entries returns a name's value and all values below it, in order. Each domain has only a few.
func (s *Store) entries(ctx context.Context, name string) ([]entry, error) {
	args := db.Args{"name": name, "dir": directory(name)}
	list, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (e entry, err error) {
		err = row.Scan(&e.name, &e.modifiedAt)
		return e, err
	}, `SELECT name, modified_at FROM certificates WHERE name = @name OR substr(name, 1, length(@dir)) = @dir ORDER BY name`, args)
	if err != nil {
		return nil, fmt.Errorf("list certificates: %w", err)
	}
	return list, nil
}
