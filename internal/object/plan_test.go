package object

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

// TestPlans shows that each statement of the lists, the counts and the workers reads one range of the
// index that is meant for it.
func TestPlans(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{})
		b := f.bucket(alice, "photos")
		seed(t, f, b, 20_000)
		const from, to = "k/00005", "k/00006" // one in twenty; PostgreSQL scans the table to read all of it
		for name, test := range map[string]struct {
			text             string
			args             []any
			sqlite, postgres string
		}{
			"get":  {getText, []any{b.ID, "k"}, "PRIMARY KEY (bucket_id=? AND key=?)", "objects_pkey"},
			"list": {listText, []any{db.Args{"bucket_id": b.ID, "from": from, "to": to, "limit": 100, "offset": 0}}, "PRIMARY KEY (bucket_id=? AND key>? AND key<?)", "objects_pkey"},
			"entries": {entriesText(d.Dialect()), []any{db.Args{
				"bucket_id": b.ID, "from": from, "to": to, "limit": 100, "skip": 2, "delimiter": "/", "after": after(""), "end": "0",
			}}, "PRIMARY KEY (bucket_id=? AND key>? AND key<?)", "objects_pkey"},
			"count":   {countRowsText, []any{b.ID, from, to}, "PRIMARY KEY (bucket_id=? AND key>? AND key<?)", "objects_pkey"},
			"expired": {expiredText, []any{b.ID, 5, 100}, "INDEX objects_modified (bucket_id=? AND modified_at<?)", "objects_modified"},
			"garbage": {garbageText, []any{5, 100}, "INDEX blobs_garbage (garbage_at>? AND garbage_at<?)", "blobs_garbage"},
			"edges":   {blocksWithinText, []any{b.ID, from, to}, "PRIMARY KEY (bucket_id=? AND first_key>?)", "object_blocks_pkey"},
			"sum":     {sumBlocksText, []any{b.ID, from, to}, "PRIMARY KEY (bucket_id=? AND first_key>? AND first_key<?)", "object_blocks_pkey"},
			"blobs":   {objectReferencesText, []any{b.ID, "k", 100}, "PRIMARY KEY ((bucket_id,key)>(?,?))", "objects_pkey"},
			"offset":  {blockAtText, []any{b.ID, "k", 100}, "PRIMARY KEY (bucket_id=? AND first_key>?)", "object_blocks_pkey"},
		} {
			plan := explainPlan(t, d, test.text, test.args)
			want := test.postgres
			if d.Dialect() == db.SQLite {
				want = test.sqlite
			}
			for _, wrong := range []string{"Seq Scan", "SCAN o", "TEMP B-TREE", "Sort Key"} {
				if strings.Contains(plan, wrong) {
					t.Errorf("%s: %s in\n%s", name, wrong, plan)
				}
			}
			if !strings.Contains(plan, want) {
				t.Errorf("%s: not by %s:\n%s", name, want, plan)
			}
		}
	})
}

// seed inserts objects with their blocks, as many puts would have.
func seed(t testing.TB, f *fixture, b *Bucket, n int) {
	t.Helper()
	const perBlock = 10 // small ones, since PostgreSQL scans a table of one page
	must(t, f.db.Write(f.context(), func(tx *db.Tx) error {
		var objects db.Bulk[objectRow]
		var blobs db.Bulk[garbageRow]
		var blocks db.Bulk[block]
		for i := range n {
			key := fmt.Sprintf("k/%08d", i)
			objects = append(objects, objectRow{BucketID: b.ID, Key: key, Size: int64(i)})
			blobs = append(blobs, garbageRow{key, stamp.Time(i)})
			if i%perBlock == 0 && i > 0 {
				blocks = append(blocks, block{bucketID: b.ID, firstKey: key, objects: perBlock})
			}
		}
		if err := objects.Send(tx, `INSERT INTO objects (bucket_id, key, size, modified_at, tier, etag, attributes, blobs)
			SELECT v.bucket_id, v.key, v.size, v.size, 'STANDARD', '', 'null', 'null' FROM {v}`); err != nil {
			return err
		}
		if err := blobs.Send(tx, `INSERT INTO blobs (id, garbage_at) SELECT v.id, v.garbage_at FROM {v}`); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE object_blocks SET objects = $2 WHERE bucket_id = $1`, b.ID, perBlock); err != nil {
			return err
		}
		return blocks.Send(tx, `INSERT INTO object_blocks (bucket_id, first_key, objects, bytes)
			SELECT v.bucket_id, v.first_key, v.objects, v.bytes FROM {v}`)
	}))
	if f.db.Dialect() == db.Postgres {
		must(t, f.db.Write(f.context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`ANALYZE objects, object_blocks, blobs`)
			return err
		}))
	}
}

// explainPlan returns the plan of a statement. For PostgreSQL, values replace the parameters.
func explainPlan(t *testing.T, d *db.DB, text string, args []any) string {
	t.Helper()
	prefix := "EXPLAIN QUERY PLAN "
	scan := func(row db.Row) (line string, err error) { return line, row.Scan(new(int), new(int), new(int), &line) }
	if d.Dialect() == db.Postgres {
		prefix = "EXPLAIN "
		scan = func(row db.Row) (line string, err error) { return line, row.Scan(&line) }
		for parameter, value := range parametersOf(args) {
			text = strings.ReplaceAll(text, parameter, literal(value))
		}
		args = nil
	}
	lines, err := db.Collect(d.Read(t.Context()), scan, prefix+text, args...)
	must(t, err)
	return strings.Join(lines, "\n")
}

// parametersOf returns arguments by their parameters in the text, of which none begins with another.
func parametersOf(args []any) map[string]any {
	all := map[string]any{}
	for i, value := range args {
		named, ok := value.(db.Args)
		if !ok {
			all["$"+strconv.Itoa(i+1)] = value
		}
		for name, value := range named {
			all["@"+name] = value
		}
	}
	return all
}

func literal(value any) string {
	if s, ok := value.(string); ok {
		return "'" + s + "'"
	}
	return fmt.Sprint(value)
}
