package libsql

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"zombiezen.com/go/sqlite"

	"steward/internal/id"
	"steward/internal/resource"
)

// TestInterruptionBeforeTheStartIsKept ends the context of a statement before it starts, in a way that
// the library does not notice: SQLite asks while it runs.
func TestInterruptionBeforeTheStartIsKept(t *testing.T) {
	e := &Engine{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	must(t, e.Open())
	p := &resource.Provisioned{ID: id.New(id.Database)}
	must(t, e.Create(t.Context(), p))
	path, err := e.path(p.ID)
	must(t, err)
	c, err := connect(newDatabase(e, p, path))
	must(t, err)
	defer func() { must(t, c.close()) }()
	st, _, err := c.prepare(t.Context(), "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 1000) SELECT count(*) FROM c")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	must(t, c.turn.begin(ctx))
	cancel()
	if _, err := st.Step(); sqlite.ErrCode(err) != sqlite.ResultInterrupt {
		t.Errorf("the statement was not interrupted: %v", err)
	}
	c.turn.end()
	if more, err := st.Step(); err != nil || !more {
		t.Errorf("a statement of the engine itself: %v %v", more, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
