package libsql

import (
	"io"
	"log/slog"
	"testing"

	"zombiezen.com/go/sqlite"

	"steward/internal/id"
	"steward/internal/resource"
)

// TestInterruptionBeforeTheStartIsKept interrupts a connection before its statement starts, in a way
// that the library does not notice itself. SQLite forgets that unless the guard is active.
func TestInterruptionBeforeTheStartIsKept(t *testing.T) {
	e := &Engine{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	must(t, e.Open())
	p := &resource.Provisioned{ID: id.New(id.Database)}
	must(t, e.Create(t.Context(), p))
	path, err := e.path(p.ID)
	must(t, err)
	c, err := connect(newDatabase(e, p.ID, path))
	must(t, err)
	defer func() { must(t, c.close()) }()
	st, _, err := c.prepare("WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 1000) SELECT count(*) FROM c")
	must(t, err)
	interrupted := map[bool]int{} // by whether the guard was active
	for i := range 400 {
		guarded := i%2 == 0
		if guarded {
			_, err := c.guard.Step()
			must(t, err)
		}
		done := make(chan struct{})
		c.SetInterrupt(done)
		close(done)
		c.SetInterrupt(nil) // the library may have interrupted before, or has not
		if _, err := st.Step(); sqlite.ErrCode(err) == sqlite.ResultInterrupt {
			interrupted[guarded]++
		}
		_ = st.Reset()
		_ = c.guard.Reset()
	}
	if interrupted[true] == 0 || interrupted[false] != 0 {
		t.Errorf("%d interruptions with the guard, %d without", interrupted[true], interrupted[false])
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
