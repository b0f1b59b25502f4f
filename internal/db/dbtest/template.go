package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
)

// template is a database that tests copy. The first test that needs it makes it.
type template[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (m *template[T]) get(t testing.TB, build func() (T, error)) T {
	t.Helper()
	m.once.Do(func() { m.value, m.err = build() })
	if m.err != nil {
		t.Fatalf("create the template database: %v", m.err)
	}
	return m.value
}

var (
	sqliteFile   template[[]byte]
	postgresName template[string]
)

// sqliteTemplate returns a SQLite file's content with the current schema.
func sqliteTemplate(t testing.TB) []byte {
	t.Helper()
	return sqliteFile.get(t, func() ([]byte, error) {
		if path := os.Getenv("STEWARD_TEST_SQLITE"); path != "" {
			return os.ReadFile(path)
		}
		dir, err := os.MkdirTemp(memory(), "steward-template-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path := filepath.Join(dir, "steward.db")
		if err := NewSQLiteTemplate(path); err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	})
}

// NewSQLiteTemplate creates a SQLite file with the current schema.
func NewSQLiteTemplate(path string) error { return migrate(db.Options{Path: path}) }

// postgresTemplate returns the name of a database on the server with the current schema.
func postgresTemplate(t testing.TB, server string) string {
	t.Helper()
	if name := os.Getenv("STEWARD_TEST_TEMPLATE"); name != "" {
		return name
	}
	return postgresName.get(t, func() (string, error) {
		name := fmt.Sprintf("steward_template_%d", os.Getpid())
		return name, NewTemplate(context.Background(), server, name)
	})
}

// NewTemplate creates a database with the current schema on a server.
func NewTemplate(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	return migrate(db.Options{URL: withDatabase(server, name)})
}

// migrate opens a database, which migrates it, and closes it.
func migrate(o db.Options) error {
	o.Log = quiet
	d, err := db.Open(context.Background(), o)
	if err != nil {
		return err
	}
	return d.Close()
}
