package libsql_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/errs"
	"steward/internal/resource/libsql"
	"steward/internal/waittest"
)

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestUsageIsCounted also checks that heavy use is logged, and that nothing is kept of a deleted
// database.
func TestUsageIsCounted(t *testing.T) {
	var log buffer
	var later atomic.Int64
	s := startEngine(t, &libsql.Engine{
		Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Now:    func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
		Limits: libsql.Limits{Statement: 2 * time.Second, Heavy: time.Second},
	})
	heavy, quiet := s.createOf("org_heavy"), s.createOf("org_quiet")
	for _, d := range []*database{heavy, quiet} {
		d.exec("SELECT 1")
		d.exec("SELECT 2")
	}
	heavy.fails(endless, "SQLITE_INTERRUPT", "took too long")
	for _, u := range s.Usage() {
		want := int64(2)
		if u.ID == heavy.p.ID {
			want = 3
		}
		if u.Operations != want || u.In < 100 || u.Out < 100 || u.Time <= 0 || u.Org == "" || u.Disk == 0 {
			t.Errorf("%+v", u)
		}
	}
	later.Store(int64(2 * time.Minute))
	waittest.True(t, "the line", func() bool { return strings.Contains(log.String(), "\n") })
	for _, part := range []string{"heavy use of a database", "organization=org_heavy", "database=" + heavy.p.ID, "statements=", "seconds="} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %q: %s", part, log.String())
		}
	}
	if strings.Contains(log.String(), quiet.p.ID) {
		t.Errorf("a quiet database is logged: %s", log.String())
	}
	for _, d := range []*database{heavy, quiet} {
		s.must(s.Delete(t.Context(), d.p))
	}
	if left := s.Usage(); len(left) != 0 {
		t.Errorf("%+v of deleted databases", left)
	}
}

// TestQueryTellsThatItTookTooLong: the caller of Query limits its time, as the API does.
func TestQueryTellsThatItTookTooLong(t *testing.T) {
	d := newDatabase(t)
	ctx, end := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := d.Query(ctx, d.p, endless, nil, 10)
		result <- err
	}()
	waittest.True(t, "the statement to run", func() bool { return d.Running() == 1 })
	end(context.DeadlineExceeded)
	err := waittest.Receive(t, "the end of the statement", result)
	if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("%v", err)
	}
}
