package db_test

import (
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestSchemasAgree compares tables, columns with type and nullability, and indexes.
func TestSchemasAgree(t *testing.T) {
	onSQLite := sqliteSchema(t)
	if len(onSQLite) < 40 {
		t.Fatalf("only %d columns and indexes were found", len(onSQLite))
	}
	if diff := cmp.Diff(onSQLite, postgresSchema(t)); diff != "" {
		t.Errorf("-sqlite +postgres:\n%s", diff)
	}
}

// sqliteSchema returns the facts about SQLite's schema. The only expression in an index is lower(name).
func sqliteSchema(t *testing.T) []string {
	d := dbtest.Open(t, db.SQLite)
	facts, err := db.Collect(d.Read(t.Context()), db.Value[string], `
		SELECT m.name || '.' || c.name || ' ' || c.type || CASE WHEN c."notnull" OR c.pk > 0 THEN ' NOT NULL' ELSE '' END
		FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'goose%' AND m.name NOT LIKE 'sqlite%'
		UNION ALL
		SELECT m.name || CASE WHEN i."unique" THEN ' unique (' ELSE ' (' END ||
			(SELECT group_concat(COALESCE(x.name, 'lower(name)'), ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno) x) || ')' ||
			CASE WHEN i.partial THEN substr(s.sql, instr(s.sql, ' WHERE ')) ELSE '' END
		FROM sqlite_schema m, pragma_index_list(m.name) i
		LEFT JOIN sqlite_schema s ON s.type = 'index' AND s.name = i.name WHERE m.type = 'table' AND m.name NOT LIKE 'goose%'`)
	must(t, err)
	return normalize(facts)
}

func postgresSchema(t *testing.T) []string {
	d := dbtest.Open(t, db.Postgres)
	facts, err := db.Collect(d.Read(t.Context()), db.Value[string], `
		SELECT table_name || '.' || column_name || ' ' || data_type || CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'goose%'
		UNION ALL
		SELECT tablename || CASE WHEN indexdef LIKE 'CREATE UNIQUE%' THEN ' unique ' ELSE ' ' END ||
			substring(indexdef from '\(.*$')
		FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE 'goose%'`)
	must(t, err)
	return normalize(facts)
}

// included matches the columns that an index of PostgreSQL holds beside its key. SQLite has no such
// columns.
var included = regexp.MustCompile(` INCLUDE \([^)]*\)`)

// normalize maps the types of both engines to the same names. A boolean is an INTEGER on SQLite, so that
// the two are not distinguished.
func normalize(facts []string) []string {
	types := strings.NewReplacer(" bigint", " INTEGER", " double precision", " REAL", " integer", " INTEGER", " boolean", " INTEGER",
		" text", " TEXT", " bytea", " BLOB", ` COLLATE "C"`, "", `"`, "")
	for i, f := range facts {
		fact, where, partial := strings.Cut(types.Replace(included.ReplaceAllString(f, "")), " WHERE ")
		if partial {
			// PostgreSQL adds parentheses and casts to the condition of a partial index. SQLite needs a
			// comparison for a boolean, to read the index alone.
			fact += " WHERE " + strings.NewReplacer("(", "", ")", "", "::TEXT", "", "::text", "", " = true", "").Replace(where)
		}
		facts[i] = fact
	}
	sort.Strings(facts)
	return facts
}

func TestSQLiteTablesAreStrict(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	loose, err := db.Collect(d.Read(t.Context()), db.Value[string],
		`SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict
			AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'`)
	must(t, err)
	if len(loose) > 0 {
		t.Errorf("not STRICT: %v", loose)
	}
}

func TestMigratedDatabaseOpensAgain(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Empty(t, dialect)
			for range 2 {
				d, err := db.Open(t.Context(), o)
				must(t, err)
				must(t, d.Close())
			}
		})
	}
}

// TestNewerSchema opens a database with a schema that a newer binary has written: it is served while its
// migrations only add, and refused after one that needs a newer binary.
func TestNewerSchema(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Empty(t, dialect)
			newer := o
			newer.Migrations = withMigrations(t, map[string]string{"9000_more.sql": "ALTER TABLE meta ADD COLUMN more TEXT NULL;"})
			for _, options := range []db.Options{o, newer, o, newer} {
				d, err := db.Open(t.Context(), options)
				must(t, err)
				must(t, d.Close())
			}
			newer.Migrations = withMigrations(t, map[string]string{
				"9000_more.sql": "ALTER TABLE meta ADD COLUMN more TEXT NULL;",
				"9001_less.sql": "UPDATE oldest_schema SET number = 9000;",
			})
			d, err := db.Open(t.Context(), newer)
			must(t, err)
			must(t, d.Close())
			_, err = db.Open(t.Context(), o)
			if err == nil || !regexp.MustCompile(`version 9001 .* version 9000, .* up to \d+`).MatchString(err.Error()) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestReplicasMigrateAtOnce opens an empty database from several replicas at the same time.
func TestReplicasMigrateAtOnce(t *testing.T) {
	url := dbtest.EmptyPostgres(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			d, err := db.Open(t.Context(), db.Options{URL: url, MaxConns: 3})
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestFileIsPrivate(t *testing.T) {
	o := dbtest.Empty(t, db.SQLite)
	o.Path = filepath.Join(filepath.Dir(o.Path), "a ?#%41.db")
	d, err := db.Open(t.Context(), o)
	must(t, err)
	defer d.Close()
	must(t, d.Write(t.Context(), putting("a")))
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(o.Path + suffix)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", info.Name(), info.Mode())
		}
	}
}

func TestAsynchronousServerIsRefused(t *testing.T) {
	url := dbtest.EmptyPostgres(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(),
		"DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$")
	must(t, err)
	_, err = db.Open(t.Context(), db.Options{URL: url})
	if err == nil || !strings.Contains(err.Error(), "synchronous_commit") {
		t.Errorf("got %v", err)
	}
}
