package resource

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/errs"
)

// fileEngine is an engine of databases and key-value stores with a file for each resource, which
// holds its password. So its state outlives the process, and tests can compare it with the rows.
type fileEngine struct {
	dir    string
	name   string
	remote bool

	mu sync.Mutex
	// fail is called before each call of an engine; its error is that of the call.
	fail func(verb string, p *Provisioned) error
	// late, if true, has a call that fails take effect first.
	late bool
}

func (e *fileEngine) Name() string { return e.name }
func (e *fileEngine) Local() bool  { return !e.remote }

func (e *fileEngine) Check(context.Context) error {
	return e.call("check", &Provisioned{}, func() error { return nil })
}

func (e *fileEngine) path(id string) string { return filepath.Join(e.dir, id) }

// call runs do unless fail says otherwise.
func (e *fileEngine) call(verb string, p *Provisioned, do func() error) error {
	e.mu.Lock()
	fail := e.fail
	late := e.late
	e.mu.Unlock()
	if fail != nil {
		if err := fail(verb, p); err != nil {
			if late {
				_ = do()
			}
			return err
		}
	}
	return do()
}

func (e *fileEngine) set(fail func(verb string, p *Provisioned) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = fail
}

func (e *fileEngine) Create(ctx context.Context, p *Provisioned) error {
	return e.call("create", p, func() error { return e.write(ctx, p) })
}

// Rotate does not create what is missing, as a database does not.
func (e *fileEngine) Rotate(ctx context.Context, p *Provisioned) error {
	return e.call("rotate", p, func() error {
		if _, err := os.Stat(e.path(p.ID)); err != nil {
			return err
		}
		return e.write(ctx, p)
	})
}

// write replaces the file.
func (e *fileEngine) write(ctx context.Context, p *Provisioned) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	temporary := e.path(p.ID) + ".new"
	if err := os.WriteFile(temporary, []byte(p.Password), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, e.path(p.ID))
}

func (e *fileEngine) Delete(_ context.Context, p *Provisioned) error {
	return e.call("delete", p, func() error {
		if err := os.Remove(e.path(p.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (e *fileEngine) Connection(p *Provisioned) Connection {
	return Connection{URL: "file://" + p.ID + ":" + p.Password, Env: map[string]string{"URL": p.Password}}
}

// Tables returns one table, named as the database is.
func (e *fileEngine) Tables(_ context.Context, p *Provisioned) ([]Table, error) {
	return []Table{{Schema: "main", Name: p.Name, Type: "table", Columns: []Column{{Name: "a", Type: "integer", PrimaryKey: true}}}}, nil
}

// Query returns the arguments as one row, or Invalid without any.
func (e *fileEngine) Query(_ context.Context, _ *Provisioned, query string, args []any, limit int) (Rows, error) {
	if len(args) == 0 {
		return Rows{}, errs.New(errs.Invalid, "no arguments for %s", query)
	}
	rows := Rows{Columns: make([]string, len(args)), Rows: [][]any{args}, Truncated: limit < 1}
	for i := range args {
		rows.Columns[i] = string(rune('a' + i))
	}
	return rows, nil
}

// Keys returns one key, which says what was asked for.
func (e *fileEngine) Keys(_ context.Context, p *Provisioned, q KeyQuery) (Keys, error) {
	text, err := json.Marshal([]any{p.Name, q.Prefix, q.Cursor, q.Limit, q.Values})
	return Keys{Keys: []Key{{Key: string(text), Type: "string"}}}, err
}

// Eval replies what scripts reply about a string whose value is its key.
func (e *fileEngine) Eval(_ context.Context, p *Provisioned, script Script) (any, error) {
	err := e.call("eval", p, func() error { return nil })
	if script.Text == removeScript {
		return int64(1), err
	}
	return []any{"string", int64(1000), int64(len(script.Key)), "", script.Key}, err
}

// files returns the passwords that the engine accepts, by id.
func (e *fileEngine) files(t testing.TB) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".new") {
			continue // of a process that was killed; nobody reads it
		}
		password, err := os.ReadFile(e.path(entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(password)
	}
	return found
}
