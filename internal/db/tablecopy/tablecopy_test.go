package tablecopy_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/db/tablecopy"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryTableIsCopiedOrExcluded fails for a new table that nobody has decided about.
func TestEveryTableIsCopiedOrExcluded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		tables, err := db.Tables(d.Read(t.Context()))
		must(t, err)
		excluded := tablecopy.Excluded()
		for _, table := range tables {
			if reason := excluded[table]; (reason != "") == slices.Contains(tablecopy.Tables(), table) {
				t.Errorf("%s must be in Tables or, with a reason, in Excluded", table)
			}
		}
		if got, want := len(tables), len(tablecopy.Tables())+len(excluded); got != want {
			t.Errorf("the schema has %d tables, and %d are listed", got, want)
		}
	})
}

// fixture returns a database with rows in every table that the first version had.
func fixture(t *testing.T) *db.DB {
	t.Helper()
	file, err := os.Open("../../../e2e/long/operations/testdata/datadir-abd5c4b-sqlite.tar.gz")
	must(t, err)
	defer func() { _ = file.Close() }()
	compressed, err := gzip.NewReader(file)
	must(t, err)
	dir := t.TempDir()
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if filepath.Dir(header.Name) == "." {
			content, err := io.ReadAll(archive)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, header.Name), content, 0o600))
		}
	}
	d, err := db.Open(t.Context(), db.Options{Path: filepath.Join(dir, "steward.db")})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// copyAll copies all tables and returns the sum of each.
func copyAll(t *testing.T, from, to *db.DB) map[string]tablecopy.Sum {
	t.Helper()
	sums := map[string]tablecopy.Sum{}
	must(t, from.Snapshot(db.ForCopy(t.Context()), func(q db.Querier) error {
		for _, name := range tablecopy.Tables() {
			table, err := tablecopy.Open(q, name)
			must(t, err)
			target, err := tablecopy.Open(to.Read(t.Context()), name)
			must(t, err)
			target, err = target.With(table.Names())
			must(t, err)
			var sum tablecopy.Sum
			var rows [][]any
			must(t, table.Read(q, func(line []byte) error {
				sum.Add(line)
				row, err := target.Decode(line)
				rows = append(rows, row)
				return err
			}))
			must(t, to.Write(t.Context(), func(tx *db.Tx) error { return target.Insert(tx, rows) }))
			sums[name] = sum
		}
		return nil
	}))
	return sums
}

// TestRowsSurviveBothDatabases copies all rows from SQLite to PostgreSQL and back.
func TestRowsSurviveBothDatabases(t *testing.T) {
	first := fixture(t)
	must(t, first.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2)`, "odd \" text \u2028 \U0001f600 \x7f", "<&>\n\\\t"); err != nil {
			return err
		}
		for i, score := range []float64{1, 0.1, -1.5e-300, 1e21} {
			if _, err := tx.Exec(`UPDATE eval_runs SET score = $1 WHERE id = (SELECT id FROM eval_runs WHERE score IS NULL
				ORDER BY id LIMIT 1) AND $2 >= 0`, score, i); err != nil {
				return err
			}
		}
		return nil
	}))
	middle := dbtest.Open(t, db.Postgres)
	last := dbtest.Open(t, db.SQLite)
	one := copyAll(t, first, middle)
	two := copyAll(t, middle, last)
	rows := int64(0)
	for _, name := range tablecopy.Tables() {
		table, err := tablecopy.Open(last.Read(t.Context()), name)
		must(t, err)
		three, err := table.SumOf(last.Read(t.Context()))
		must(t, err)
		if one[name] != two[name] || one[name] != three {
			t.Errorf("%s: %+v, %+v, %+v", name, one[name], two[name], three)
		}
		rows += three.Rows
	}
	if rows < 100 {
		t.Errorf("only %d rows were copied", rows)
	}
}

func TestPagesReadEachRowOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const n = 4500
		table, err := tablecopy.Open(d.Read(t.Context()), "thread_term_counts")
		must(t, err)
		var rows [][]any
		for i := range int64(n) {
			rows = append(rows, []any{fmt.Sprint("org", i%7), []byte(fmt.Sprint(i)), i, int64(0)})
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return table.Insert(tx, rows) }))
		seen := map[string]bool{}
		must(t, table.Read(d.Read(t.Context()), func(line []byte) error {
			seen[string(line)] = true
			return nil
		}))
		sum, err := table.SumOf(d.Read(t.Context()))
		must(t, err)
		if len(seen) != n || sum.Rows != n {
			t.Errorf("%d different rows of %d, want %d", len(seen), sum.Rows, n)
		}
	})
}

func TestWrongLinesAreRefused(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	table, err := tablecopy.Open(d.Read(t.Context()), "blobs")
	must(t, err)
	for _, line := range []string{``, `{}`, `["a"]`, `["a",1,2]`, `[1,1]`, `["a","b"]`, `["a",1.5]`, `["a",{"b":"AA=="}]`, `["a",1]x`} {
		if row, err := table.Decode([]byte(line)); err == nil {
			t.Errorf("%s is %v", line, row)
		}
	}
	if _, err := table.With([]string{"id", "none"}); err == nil {
		t.Error("a missing column was accepted")
	}
}

func TestNumbersOfCommitsContinue(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const far = int64(1) << 40
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return tx.ContinueAfter(far) }))
		next, err := db.NextNumber(d.Read(t.Context()))
		must(t, err)
		if next <= far {
			t.Errorf("the next number is %d, want one above %d", next, far)
		}
	})
}
