package db_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

// wide has a field of each type that stores scan into.
type wide struct {
	N     int64
	Text  string
	Maybe *string
	Bytes []byte
	Body  []byte // from text
	Flag  bool
	At    stamp.Time
	Then  *stamp.Time
	Count *int
}

func (w *wide) columns() []any {
	return []any{&w.N, &w.Text, &w.Maybe, &w.Bytes, &w.Body, &w.Flag, &w.At, &w.Then, &w.Count}
}

const wideColumns = "n, text, maybe, bytes, body, flag, at, later, count"

var wideTables = map[db.Dialect]string{
	db.SQLite: `CREATE TABLE wide (n INTEGER, text TEXT, maybe TEXT, bytes BLOB, body TEXT, flag INTEGER, at INTEGER,
		later INTEGER, count INTEGER)`,
	db.Postgres: `CREATE TABLE wide (n BIGINT, text TEXT, maybe TEXT, bytes BYTEA, body TEXT, flag BOOLEAN, at BIGINT,
		later BIGINT, count BIGINT)`,
}

// TestScanReturnsWhatWasWritten writes random rows and reads them again, together and one by one.
func TestScanReturnsWhatWasWritten(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(wideTables[d.Dialect()]); return err }))
		rapid.Check(t, func(rt *rapid.T) {
			want := rapid.SliceOfN(rapid.Custom(drawWide), 0, 40).Draw(rt, "rows")
			if err := d.Write(t.Context(), func(tx *db.Tx) error { return rewrite(tx, want) }); err != nil {
				rt.Fatal(err)
			}
			got, err := db.Collect(d.Read(t.Context()), func(row db.Row) (w wide, err error) {
				return w, row.Scan(w.columns()...)
			}, "SELECT "+wideColumns+" FROM wide ORDER BY n")
			if err != nil {
				rt.Fatal(err)
			}
			for i := range want {
				if i >= len(got) || show(got[i]) != show(want[i]) {
					rt.Fatalf("row %d of %d differs: want %s", i, len(got), show(want[i]))
				}
				var one wide
				err := d.Read(t.Context()).Row("SELECT "+wideColumns+" FROM wide WHERE n = $1", i).Scan(one.columns()...)
				if err != nil || show(one) != show(want[i]) {
					rt.Fatalf("row %d alone: got %s, %v", i, show(one), err)
				}
			}
		})
	})
}

func drawWide(t *rapid.T) wide {
	special := []string{"", "same", strings.Repeat("long", 5000)}
	text := rapid.OneOf(rapid.StringMatching(`[a-z]{0,30}`), rapid.SampledFrom(special))
	blob := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 30), rapid.SampledFrom([][]byte{nil, {}, {0}}))
	at := rapid.Map(rapid.Int64(), func(n int64) stamp.Time { return stamp.Time(n) })
	return wide{
		Text:  text.Draw(t, "text"),
		Maybe: rapid.Ptr(text, true).Draw(t, "maybe"),
		Bytes: blob.Draw(t, "bytes"),
		Body:  []byte(text.Draw(t, "body")),
		Flag:  rapid.Bool().Draw(t, "flag"),
		At:    at.Draw(t, "at"),
		Then:  rapid.Ptr(at, true).Draw(t, "later"),
		Count: rapid.Ptr(rapid.Int(), true).Draw(t, "count"),
	}
}

func rewrite(tx *db.Tx, rows []wide) error {
	if _, err := tx.Exec("DELETE FROM wide"); err != nil {
		return err
	}
	for i := range rows {
		w := &rows[i]
		w.N = int64(i)
		err := tx.Send("INSERT INTO wide VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			w.N, w.Text, w.Maybe, w.Bytes, string(w.Body), w.Flag, w.At, w.Then, w.Count)
		if err != nil {
			return err
		}
	}
	return nil
}

// show formats a row so that nil and empty differ.
func show(w wide) string {
	text := func(s *string) string {
		if s == nil {
			return "nil"
		}
		return fmt.Sprintf("%q", *s)
	}
	number := func(n any) string { return fmt.Sprint(n) }
	then, count := "nil", "nil"
	if w.Then != nil {
		then = number(*w.Then)
	}
	if w.Count != nil {
		count = number(*w.Count)
	}
	return fmt.Sprintf("%d %q %s %#v %#v %v %d %s %s",
		w.N, w.Text, text(w.Maybe), w.Bytes, w.Body, w.Flag, int64(w.At), then, count)
}
