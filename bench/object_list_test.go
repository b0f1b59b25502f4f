//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"steward/internal/db"
)

const (
	// blockSize is the number of objects in a block of the fixture: blocks are split at 2,000.
	blockSize = 1500
	// otherBuckets is the number of further buckets, each with one object of 1 MB.
	otherBuckets = 999
	// usageDays is the number of days with usage.
	usageDays = 180
)

// TestObjectLists measures pages of objects, statistics and analytics, with BENCH_OBJECTS objects in
// one bucket of a thousand.
func TestObjectLists(t *testing.T) {
	objects := envInt(t, "BENCH_OBJECTS", 1_000_000)
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		b := in.bucket()
		in.fill(objects, func(tx *db.Tx, from, to int) error { return insertObjects(tx, b.Name, from, to, objects) })
		list := "/storage/objects/" + b.Name
		last := objects - 100
		exact := func(a answer) bool { return a.Total == int64(objects) && len(a.Objects) == 100 }
		below := func(n int64) func(answer) bool { return func(a answer) bool { return a.Total == n } }
		for _, m := range []timed{
			{"first page of 100", list + "?limit=100", 5, exact},
			{"middle page of 100, by offset", fmt.Sprintf("%s?limit=100&offset=%d", list, objects/2), 20, exact},
			{"last page of 100, by offset", fmt.Sprintf("%s?limit=100&offset=%d", list, last), 20, exact},
			{"prefix of a tenth, its middle by offset", fmt.Sprintf("%s?limit=100&prefix=d3/&offset=%d", list, objects/20), 20, below(int64(objects / 10))},
			{"prefix of a hundred", list + "?limit=100&prefix=d3/00001", 20, below(100)},
			{"folders with their counts", "/storage/folders/" + b.Name, 20, func(a answer) bool { return len(a.Folders) == 10 }},
			{"statistics", "/storage/stats/" + b.Name, 2, func(a answer) bool { return a.ObjectCount == int64(objects) }},
			{"analytics of 180 days, 1,000 buckets", "/storage/analytics", 20, func(a answer) bool {
				return len(a.Buckets) == otherBuckets+1 && len(a.Daily) == usageDays
			}},
		} {
			m.measure(in, ref)
		}
	})
}

// answer has what the measured routes have in their answers.
type answer struct {
	Objects     []json.RawMessage
	Folders     []json.RawMessage
	Buckets     []json.RawMessage
	Daily       []json.RawMessage
	Total       int64
	ObjectCount int64 `json:"object_count"`
}

// timed is a request with the most milliseconds that its p99 should take, and what its answer must be.
type timed struct {
	name, path string
	most       float64
	right      func(answer) bool
}

func (m timed) measure(in *installation, ref server) {
	in.t.Helper()
	var got answer
	in.call("GET", m.path, nil, &got)
	if !m.right(got) {
		in.t.Errorf("%s: %d objects of %d, %d folders, %d buckets, %d days, %d counted", m.path, len(got.Objects), got.Total,
			len(got.Folders), len(got.Buckets), len(got.Daily), got.ObjectCount)
	}
	empty := load(in.t, ref, pageConns, 500*time.Millisecond, always(request("GET", "/", "", nil)))
	r := load(in.t, in.server, pageConns, span, always(request("GET", m.path, in.Key, nil)))
	report(fmt.Sprintf("%s: objects: %s, p99 ms", in.engine(), m.name), millis(r.quantile(0.99)), atMost(m.most),
		"p50 %s, %.0f/s, CPU %.3f ms (empty: p99 %s)", ms(r.quantile(0.5)), r.rate, r.cpu, ms(empty.quantile(0.99)))
}

const (
	// objectSeq are the numbers from $2 to $3 with their keys: ten folders of as many objects each, in
	// order. $4 is the number of all.
	objectSeq = `WITH RECURSIVE seq (i) AS (
			SELECT CAST($2 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i + 1 < CAST($3 AS BIGINT)),
		keys (i, key) AS (SELECT i, 'd' || CAST(i * 10 / CAST($4 AS BIGINT) AS TEXT) || '/'
			|| substr(CAST(10000000 + i % (CAST($4 AS BIGINT) / 10) AS TEXT), 2) || '.json' FROM seq) `
	inBlock          = `CASE WHEN k.i + $5 < $4 THEN CAST($5 AS BIGINT) ELSE $4 - k.i END`
	ofBucket         = ` FROM keys k JOIN buckets b ON b.name = $1 `
	insertObjectRows = `INSERT INTO objects (bucket_id, key, size, modified_at, tier, etag, content_type, attributes, blobs) ` + objectSeq + `
		SELECT b.id, k.key, 1000, b.created_at, 'STANDARD', 'd41d8cd98f00b204e9800998ecf8427e', 'application/json', '{}',
			'[["' || CAST(100000000 + k.i AS TEXT) || 'abcdefghijklmnopq",1000]]'` + ofBucket
	insertObjectBlobs = `INSERT INTO blobs (id) ` + objectSeq + `
		SELECT CAST(100000000 + k.i AS TEXT) || 'abcdefghijklmnopq'` + ofBucket
	insertBlocks = `INSERT INTO object_blocks (bucket_id, first_key, objects, bytes) ` + objectSeq + `
		SELECT b.id, CASE k.i WHEN 0 THEN '' ELSE k.key END, ` + inBlock + `, 1000 * ` + inBlock + ofBucket + ` WHERE k.i % CAST($5 AS BIGINT) = 0`
)

// insertObjects inserts objects of 1,000 bytes with their blobs and blocks; the last call also the
// other buckets and the sums.
func insertObjects(tx *db.Tx, name string, from, to, objects int) error {
	if from == 0 { // the first block of an empty bucket
		if _, err := tx.Exec(`DELETE FROM object_blocks WHERE bucket_id = (SELECT id FROM buckets WHERE name = $1)`, name); err != nil {
			return err
		}
	}
	for _, text := range []string{insertObjectRows, insertObjectBlobs} {
		if _, err := tx.Exec(text, name, from, to, objects); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(insertBlocks, name, from, to, objects, blockSize); err != nil {
		return err
	}
	if to < objects {
		return nil
	}
	return insertSums(tx, name, objects)
}

// insertSums inserts the other buckets, and the totals and usage of all.
func insertSums(tx *db.Tx, name string, objects int) error {
	const others = `WITH RECURSIVE seq (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM seq WHERE i < $2) `
	const other = `'other-' || CAST(s.i AS TEXT)`
	if _, err := tx.Exec(`INSERT INTO buckets (name, id, org_id, region, access_key, secret, internal, created_by, created_at, updated_at, version) `+
		others+`SELECT `+other+`, `+other+`, org_id, region, `+other+`, secret, internal, created_by, created_at, updated_at, version
		FROM seq s JOIN buckets b ON b.name = $1`, name, otherBuckets); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO bucket_states (bucket_id) SELECT id FROM buckets WHERE name <> $1`, name); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO bucket_totals (org_id, bucket_id, tier, objects, bytes) SELECT org_id, id, 'STANDARD',
		CASE name WHEN $1 THEN CAST($2 AS BIGINT) ELSE 1 END, CASE name WHEN $1 THEN CAST($2 AS BIGINT) ELSE 1000 END * 1000 FROM buckets`,
		name, objects); err != nil {
		return err
	}
	today := time.Now().Unix() / 86400
	_, err := tx.Exec(`INSERT INTO object_usage (org_id, day, tier, objects, bytes) `+others+`
		SELECT b.org_id, CAST($3 AS BIGINT) - s.i + 1, t.tier, 10, 10000 FROM seq s JOIN buckets b ON b.name = $1
		CROSS JOIN (SELECT 'STANDARD' AS tier UNION SELECT 'INFREQUENT_ACCESS' UNION SELECT 'ARCHIVE') t`, name, usageDays, today)
	return err
}
