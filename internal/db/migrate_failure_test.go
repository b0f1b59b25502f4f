package db_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// withMigrations returns the migrations and others, by their names.
func withMigrations(t *testing.T, others map[string]string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := filepath.Glob("migrations/*.sql")
	must(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		files[filepath.Base(name)] = &fstest.MapFile{Data: text}
	}
	for name, text := range others {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// filled opens a new database, writes rows, and closes it.
func filled(t *testing.T, o db.Options) {
	t.Helper()
	d, err := db.Open(t.Context(), o)
	must(t, err)
	for i := range 100 {
		must(t, d.Write(t.Context(), putting(fmt.Sprint(i))))
	}
	must(t, d.Close())
}

// contents returns the files of the directory of a SQLite database, or the rows and columns of a
// PostgreSQL database. The index of the write-ahead log, which every process builds again, and an empty
// log are not among them.
func contents(t *testing.T, o db.Options) map[string]string {
	t.Helper()
	if o.URL != "" {
		return postgresContents(t, o)
	}
	found := map[string]string{}
	names, err := filepath.Glob(o.Path + "*")
	must(t, err)
	for _, name := range names {
		content, err := os.ReadFile(name)
		must(t, err)
		if strings.HasSuffix(name, "-shm") || len(content) == 0 {
			continue
		}
		found[filepath.Base(name)] = string(content)
	}
	return found
}

func postgresContents(t *testing.T, o db.Options) map[string]string {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{URL: o.URL})
	must(t, err)
	defer d.Close()
	found := map[string]string{}
	for name, query := range map[string]string{
		"meta": `SELECT key || '=' || value FROM meta ORDER BY 1`, "versions": `SELECT version_id::text FROM goose_db_version ORDER BY id`,
		"columns": `SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1`,
	} {
		rows, err := db.Collect(d.Read(t.Context()), db.Value[string], query)
		must(t, err)
		found[name] = strings.Join(rows, "\n")
	}
	return found
}

func TestMigrationThatFailsChangesNothing(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Empty(t, dialect)
			filled(t, o)
			before := contents(t, o)
			newer := o
			newer.Migrations = withMigrations(t, map[string]string{
				"9001_good.sql": "-- +goose Up\nALTER TABLE meta ADD COLUMN more TEXT NULL; UPDATE meta SET value = 'changed';",
				"9002_bad.sql":  "CREATE TABLE other (a TEXT NOT NULL); INSERT INTO other VALUES ('a'); INSERT INTO nowhere VALUES (1);",
			})
			for range 2 {
				_, err := db.Open(t.Context(), newer)
				if err == nil || !strings.Contains(err.Error(), "9002_bad.sql") || !strings.Contains(err.Error(), "Nothing was changed") {
					t.Errorf("got %v", err)
				}
			}
			if diff := cmp.Diff(before, contents(t, o)); diff != "" {
				t.Errorf("the failed migration has changed something:\n%.2000s", diff)
			}
			filledBefore(t, o)
			newer.Migrations = withMigrations(t, map[string]string{
				"9001_good.sql": "ALTER TABLE meta ADD COLUMN more TEXT NULL;", "9002_mended.sql": "UPDATE meta SET more = 'm';",
			})
			d, err := db.Open(t.Context(), newer)
			must(t, err)
			defer d.Close()
			var n int
			must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM meta WHERE more = 'm'`).Scan(&n))
			if n < 100 {
				t.Errorf("%d rows were migrated", n)
			}
		})
	}
}

// filledBefore checks that a database opens with the rows of filled.
func filledBefore(t *testing.T, o db.Options) {
	t.Helper()
	d, err := db.Open(t.Context(), o)
	must(t, err)
	var n int
	must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM meta`).Scan(&n))
	if n < 100 {
		t.Errorf("%d rows are left", n)
	}
	must(t, d.Close())
}

// TestMigrationThatFailsKeepsTheLogOfAKilledProcess copies the files of an open database, as a killed
// process leaves them.
func TestMigrationThatFailsKeepsTheLogOfAKilledProcess(t *testing.T) {
	o := dbtest.Empty(t, db.SQLite)
	d, err := db.Open(t.Context(), o)
	must(t, err)
	for i := range 100 {
		must(t, d.Write(t.Context(), putting(fmt.Sprint(i))))
	}
	killed := db.Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: o.Log}
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(o.Path + suffix)
		must(t, err)
		must(t, os.WriteFile(killed.Path+suffix, content, 0o600))
	}
	must(t, d.Close())
	before := contents(t, killed)
	if len(before[filepath.Base(killed.Path)+"-wal"]) == 0 {
		t.Fatal("there is no log")
	}
	killed.Migrations = withMigrations(t, map[string]string{"9001_bad.sql": "UPDATE meta SET value = ''; SELECT nothing;"})
	if _, err := db.Open(t.Context(), killed); err == nil || !strings.Contains(err.Error(), "9001_bad.sql") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, contents(t, killed)); diff != "" {
		t.Errorf("the failed migration has changed something:\n%.2000s", diff)
	}
	killed.Migrations = nil
	filledBefore(t, killed)
}

// TestDamagedDatabaseIsNotMigrated overwrites pages of the file: of its tables, and of its schema.
func TestDamagedDatabaseIsNotMigrated(t *testing.T) {
	filling := dbtest.Empty(t, db.SQLite)
	filled(t, filling)
	whole, err := os.ReadFile(filling.Path)
	must(t, err)
	for _, page := range []int{0, 1, 3, 20, 60, len(whole)/4096 - 1} {
		o := dbtest.Empty(t, db.SQLite)
		broken := bytes.Clone(whole)
		copy(broken[page*4096:], bytes.Repeat([]byte("broken"), 600))
		must(t, os.WriteFile(o.Path, broken, 0o600))
		before := contents(t, o)
		o.Migrations = withMigrations(t, map[string]string{"9001_more.sql": "CREATE TABLE more (a TEXT NOT NULL) STRICT;"})
		_, err = db.Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "the database is damaged and is not migrated") || !strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("page %d: got %v", page, err)
		}
		if diff := cmp.Diff(before, contents(t, o)); diff != "" {
			t.Errorf("page %d: the refused migration has changed something:\n%.2000s", page, diff)
		}
	}
}

func TestMigrationNeedsSpace(t *testing.T) {
	o := dbtest.Empty(t, db.SQLite)
	o.Reserve = 1 << 60
	filled(t, o) // a new file needs little
	before := contents(t, o)
	o.Migrations = withMigrations(t, map[string]string{"9001_more.sql": "CREATE TABLE more (a TEXT NOT NULL) STRICT;"})
	if _, err := db.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "free some space and start again") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, contents(t, o)); diff != "" {
		t.Errorf("the refused migration has changed something:\n%.2000s", diff)
	}
}
