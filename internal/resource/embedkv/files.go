package embedkv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/nalgeon/redka"
	"github.com/nalgeon/redka/redsrv"
	"github.com/tidwall/redcon"
	_ "modernc.org/sqlite" // the driver with which redka creates its schema

	"steward/internal/durable"
)

// fileName is the name of a store's file in its directory.
const fileName = "store.db"

// redkaOptions has redka set nothing: the connection is configured by connect. The timeout is what
// redka gives to database/sql, whose goroutine would roll back transactions on its own; commands are
// ended by interrupt instead.
func redkaOptions() *redka.Options {
	return &redka.Options{DriverName: "sqlite", Pragma: map[string]string{}, Timeout: 100 * 365 * 24 * time.Hour}
}

// makeTemplate has redka create an empty store. redka.OpenDB is called only here: it starts a goroutine
// that never ends, where OpenReadDB, which does not create a schema, starts none.
func (e *Engine) makeTemplate() error {
	dir, err := os.MkdirTemp(e.Dir, "template-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, fileName)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	red, err := redka.OpenDB(db, db, redkaOptions())
	if err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	if _, err := db.Exec("pragma journal_mode = wal"); err != nil {
		return fmt.Errorf("set journal mode: %w", err)
	}
	if e.parse, err = handlerOf(red); err != nil {
		return err
	}
	if err := red.Close(); err != nil { // writes the log to the file
		return fmt.Errorf("close template: %w", err)
	}
	e.template, err = os.ReadFile(path)
	return err
}

// handlerOf returns redka's handler of commands. Its server keeps it private and listens on an address
// of its own, which leaves no other way to put a gate before it.
func handlerOf(red *redka.DB) (func(redcon.Conn, redcon.Command), error) {
	server := reflect.ValueOf(redsrv.New("tcp", "", red)).Elem().FieldByName("srv")
	if !server.IsValid() || server.Type() != reflect.TypeFor[*redcon.Server]() {
		return nil, errors.New("this version of redka has no redcon server")
	}
	handler := server.Elem().FieldByName("handler")
	if !handler.IsValid() || handler.Type() != reflect.TypeFor[func(redcon.Conn, redcon.Command)]() {
		return nil, errors.New("this version of redcon has no handler")
	}
	return *(*func(redcon.Conn, redcon.Command))(handler.Addr().UnsafePointer()), nil
}

func (e *Engine) dir(id string) string { return filepath.Join(e.Dir, id) }

// createFile makes a copy of the template. It is on disk, with its name, when createFile returns.
func (e *Engine) createFile(id string) error {
	dir := e.dir(id)
	path := filepath.Join(dir, fileName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := durable.WriteFile(path, e.template); err != nil {
		return err
	}
	return durable.SyncDir(e.Dir)
}

// remove closes a store and removes its directory.
func (e *Engine) remove(ctx context.Context, id string) error {
	if err := e.pool.drop(ctx, id); err != nil {
		return err
	}
	if err := os.RemoveAll(e.dir(id)); err != nil {
		return err
	}
	return durable.SyncDir(e.Dir)
}
