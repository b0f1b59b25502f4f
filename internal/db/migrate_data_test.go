package db_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// upgraded writes rows into a database of an older version, as that version did, and then opens it as it is done today.
func upgraded(t *testing.T, version int64, write func(t *testing.T, old *sql.DB), check func(t *testing.T, d *db.DB)) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Options(t, dialect)
			old, err := db.OpenOld(t.Context(), o, version)
			must(t, err)
			var newest int64
			must(t, old.QueryRow("SELECT MAX(version_id) FROM goose_db_version").Scan(&newest))
			if newest != version {
				t.Fatalf("this is version %d, not %d", newest, version)
			}
			write(t, old)
			must(t, old.Close())
			d, err := db.Open(t.Context(), o)
			must(t, err)
			defer d.Close()
			check(t, d)
		})
	}
}

// wantRows compares the rows of a query whose columns are made into one text.
func wantRows(t *testing.T, d *db.DB, text string, want ...string) {
	t.Helper()
	got, err := db.Collect(d.Read(t.Context()), scanText, text)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestUpgradeOfLeases: before 0009 a delivery that was being sent had a lease until due_at. It is ready again, in the order of receipts;
// all others are as they were, and nobody has a turn. Since 0015 what is pending has a row in the queue, and since 0018 one key.
func TestUpgradeOfLeases(t *testing.T) {
	upgraded(t, 7, func(t *testing.T, old *sql.DB) {
		for _, row := range [][]any{ // id, status, queue, date, due_at, owner, finished_at
			{"whdv_a_leased", "pending", 2, 100, 30_000, "rep_1", nil},
			{"whdv_b_leased_retry", "pending", 2, 101, 31_000, "rep_2", nil},
			{"whdv_c_waiting", "pending", 2, 102, 50_000, "", nil},
			{"whdv_d_ready", "pending", 1, 103, 103, "", nil},
			{"whdv_e_done", "success", 0, 104, 104, "", 110},
			{"whdv_f_failed", "failed", 0, 105, 105, "", 111},
		} {
			_, err := old.Exec(`INSERT INTO webhook_deliveries (org_id, webhook_id, id, destination_id, receipt_id, status, retries, queue, date,
				due_at, lease_owner, finished_at) VALUES ('org_a', 'wh_of_a_', $1, 'whds_a', 'whrc_a', $2, 0, $3, $4, $5, $6, $7)`, row...)
			must(t, err)
		}
		_, err := old.Exec(`INSERT INTO webhook_turns (destination_id, owner, until) VALUES ('whds_a', 'rep_1', 30000)`)
		must(t, err)
	}, func(t *testing.T, d *db.DB) {
		wantRows(t, d, `SELECT key || ' ' || destination_id || ' ' || receipt_id || ' ' || status || ' ' || date || ' ' ||
			COALESCE(finished_at, 0) || CASE WHEN failed THEN ' failed' ELSE '' END FROM webhook_deliveries ORDER BY key`,
			"of_a_a_leased whds_a whrc_a pending 100 0", "of_a_b_leased_retry whds_a whrc_a pending 101 0",
			"of_a_c_waiting whds_a whrc_a pending 102 0", "of_a_d_ready whds_a whrc_a pending 103 0",
			"of_a_e_done whds_a whrc_a success 104 110", "of_a_f_failed whds_a whrc_a failed 105 111 failed")
		wantRows(t, d, `SELECT org_id || ' ' || key || ' ' || destination_id || ' ' || receipt_key || ' ' || date || ' ' || retries ||
			CASE WHEN ready THEN ' ready ' ELSE ' waits ' END || due_at FROM webhook_queue ORDER BY key`,
			"org_a of_a_a_leased whds_a of_a_a 100 0 ready 100", "org_a of_a_b_leased_retry whds_a of_a_a 101 0 ready 101",
			"org_a of_a_c_waiting whds_a of_a_a 102 0 waits 50000", "org_a of_a_d_ready whds_a of_a_a 103 0 ready 103")
		wantRows(t, d, `SELECT owner FROM webhook_turns`, []string{}...)
	})
}

// TestUpgradeOfReceipts: 0018 gives receipts one key, and leaves them as they were, to the byte.
func TestUpgradeOfReceipts(t *testing.T) {
	upgraded(t, 17, func(t *testing.T, old *sql.DB) {
		for _, hook := range []string{"wh_b", "wh_a"} {
			_, err := old.Exec(`INSERT INTO webhook_receipts (org_id, webhook_id, id, date, method, query, remote_addr, content_type, size,
				headers, body) VALUES ('org_a', $1, 'whrc_1', 7, 'PUT', 'a=1', '::1', 'text/plain', 3, '{"a":"b"}', $2)`, hook, []byte{0, 0xff, hook[3]})
			must(t, err)
		}
	}, func(t *testing.T, d *db.DB) {
		wantRows(t, d, `SELECT key || ' ' || date || ' ' || method || ' ' || query || ' ' || remote_addr || ' ' || content_type || ' ' || size ||
			' ' || headers FROM webhook_receipts ORDER BY key`,
			`a1 7 PUT a=1 ::1 text/plain 3 {"a":"b"}`, `b1 7 PUT a=1 ::1 text/plain 3 {"a":"b"}`)
		var body []byte
		must(t, d.Read(t.Context()).Row(`SELECT body FROM webhook_receipts WHERE key = 'b1'`).Scan(&body))
		if string(body) != "\x00\xffb" {
			t.Errorf("the body is %q", body)
		}
	})
}

// TestUpgradeOfFacets: rows of threads from before 0010 do not know the keys beside them, which is NULL and has them looked up; and the
// sizes of 0011 are what saving the same threads would have added up to: one for each row, by facet, deleted or not.
func TestUpgradeOfFacets(t *testing.T) {
	type listed struct {
		orgID   string
		facet   byte
		deleted bool
		threads int
	}
	all := []listed{{"org_a", 1, false, 3}, {"org_a", 1, true, 2}, {"org_a", 2, false, 1}, {"org_b", 1, false, 4}}
	upgraded(t, 9, func(t *testing.T, old *sql.DB) {
		for _, l := range all {
			for i := range l.threads {
				args := []any{l.orgID, []byte{l.facet}, l.deleted, i, fmt.Sprintf("thrd_%d_%v_%d", l.facet, l.deleted, i)}
				_, err := old.Exec(`INSERT INTO thread_facets (org_id, facet, deleted, created_at, thread_id) VALUES ($1, $2, $3, $4, $5)`, args...)
				must(t, err)
				_, err = old.Exec(`INSERT INTO thread_changes (org_id, facet, deleted, created_at, thread_id, updated_at)
					VALUES ($1, $2, $3, $4, $5, 7)`, args...)
				must(t, err)
			}
		}
	}, func(t *testing.T, d *db.DB) {
		for _, table := range []string{"thread_facets", "thread_changes"} {
			var rows, told int
			must(t, d.Read(t.Context()).Row(`SELECT count(*), count(mates) FROM `+table).Scan(&rows, &told))
			if rows != 10 || told != 0 {
				t.Errorf("%s has %d rows, of which %d know their mates", table, rows, told)
			}
		}
		got, err := db.Collect(d.Read(t.Context()), func(r db.Row) (l listed, err error) {
			var facet []byte
			err = r.Scan(&l.orgID, &facet, &l.deleted, &l.threads)
			l.facet = facet[0]
			return l, err
		}, `SELECT org_id, facet, deleted, CAST(SUM(n) AS BIGINT) FROM thread_sizes
			GROUP BY org_id, facet, deleted ORDER BY org_id, facet, deleted`)
		must(t, err)
		if diff := cmp.Diff(all, got, cmp.AllowUnexported(listed{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestUpgradeOfPlaces: 0014 writes facet, deleted and time of a row into one value, whose order is theirs; the keys beside it stay.
func TestUpgradeOfPlaces(t *testing.T) {
	const least, most = 0x00_00_00_01, 0x00_06_43_ff_00_80_01_7f // times with zeros and high bits in their bytes
	low, high := make([]byte, 16), bytes.Repeat([]byte{0xff}, 16)
	mates := []byte{0, 0xff}
	upgraded(t, 13, func(t *testing.T, old *sql.DB) {
		for i, row := range [][]any{ // facet, deleted, created, updated, mates
			{low, false, least, most, mates},
			{low, true, most, least, nil},
			{high, true, least, most, mates},
			{high, false, least, least, []byte{7}},
		} {
			id := fmt.Sprint("t", i)
			_, err := old.Exec(`INSERT INTO thread_facets (org_id, thread_id, facet, deleted, created_at, mates)
				VALUES ('org_a', $1, $2, $3, $4, $5)`, id, row[0], row[1], row[2], row[4])
			must(t, err)
			_, err = old.Exec(`INSERT INTO thread_changes (org_id, thread_id, facet, deleted, created_at, updated_at, mates)
				VALUES ('org_a', $1, $2, $3, $4, $5, $6)`, append([]any{id}, row...)...)
			must(t, err)
		}
	}, func(t *testing.T, d *db.DB) {
		zeros, ones := strings.Repeat("00", 16), strings.Repeat("ff", 16)
		for table, want := range map[string][]string{
			"thread_facets": {
				zeros + "000000000000000001 t0 00ff", zeros + "01000643ff0080017f t1 NULL",
				ones + "000000000000000001 t3 07", ones + "010000000000000001 t2 00ff",
			},
			"thread_changes": {
				zeros + "00000643ff0080017f t0 00ff", zeros + "010000000000000001 t1 NULL",
				ones + "000000000000000001 t3 07", ones + "01000643ff0080017f t2 00ff",
			},
		} {
			got, err := db.Collect(d.Read(t.Context()), func(r db.Row) (string, error) {
				var place, mates []byte
				var id string
				err := r.Scan(&place, &id, &mates)
				if mates == nil {
					return fmt.Sprintf("%x %s NULL", place, id), err
				}
				return fmt.Sprintf("%x %s %x", place, id, mates), err
			}, `SELECT place, thread_id, mates FROM `+table+` WHERE org_id = 'org_a' ORDER BY place`)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", table, diff)
			}
		}
	})
}

// TestUpgradeOfCounts: 0012 leaves the counts of earlier versions where they are; they are packed later, bit by bit.
func TestUpgradeOfCounts(t *testing.T) {
	upgraded(t, 11, func(t *testing.T, old *sql.DB) {
		for shard := range 2 {
			for _, unit := range []int{60, 3600, 86400} {
				_, err := old.Exec(`INSERT INTO webhook_counts (org_id, unit, bucket, shard, received, delivered, failed)
					VALUES ('org_a', $1, 3, $2, 5, 4, 1)`, unit, shard)
				must(t, err)
			}
		}
	}, func(t *testing.T, d *db.DB) {
		wantRows(t, d, `SELECT unit || ' ' || bucket || ' ' || SUM(received) || ' ' || SUM(delivered) || ' ' || SUM(failed)
			FROM webhook_counts GROUP BY unit, bucket ORDER BY unit`, "60 3 10 8 2", "3600 3 10 8 2", "86400 3 10 8 2")
		wantRows(t, d, `SELECT org_id FROM webhook_days`, []string{}...)
	})
}

// TestUpgradeOfEvalCounts: 0013 counts evals and runs anew, by project, and runs by their eval and by their agent where it is known.
func TestUpgradeOfEvalCounts(t *testing.T) {
	upgraded(t, 12, func(t *testing.T, old *sql.DB) {
		for _, eval := range []string{"e1", "e2"} {
			_, err := old.Exec(`INSERT INTO evals (org_id, id, project_id, agent_identifier, name, devmode, created_at, updated_at, version)
				VALUES ('org_a', $1, 'p1', 'x', 'n', $2, 1, 1, 1)`, eval, false)
			must(t, err)
		}
		for i, run := range [][]any{ // organization, project, eval, agent
			{"org_a", "p1", "e1", "x"},
			{"org_a", "p1", "e1", "x"},
			{"org_a", "p1", "e2", "y"},
			{"org_a", "p2", "e3", nil},
			{"org_b", "p1", "e1", "x"},
		} {
			_, err := old.Exec(`INSERT INTO eval_runs (org_id, project_id, eval_id, agent_identifier, id, devmode, pending, success, session_id,
				created_at, updated_at, written_at, size) VALUES ($1, $2, $3, $4, $5, $6, $6, $6, 's', 1, 1, 1, 0)`,
				append(run, fmt.Sprint("run_", i), true)...)
			must(t, err)
		}
		for slot, n := range []int{1, 2} { // those of org_a's p1, as two slots had them
			_, err := old.Exec(`INSERT INTO eval_counts (org_id, what, project_id, slot, n) VALUES ('org_a', 'run', 'p1', $1, $2)`, slot, n)
			must(t, err)
		}
	}, func(t *testing.T, d *db.DB) {
		wantRows(t, d, `SELECT org_id || ' ' || project_id || ' ' || what || ' ' || key || ' ' || SUM(n) FROM eval_counts
			GROUP BY org_id, project_id, what, key ORDER BY org_id, project_id, what, key`,
			"org_a p1 eval  2", "org_a p1 run  3", "org_a p1 run of agent x 2", "org_a p1 run of agent y 1",
			"org_a p1 run of eval e1 2", "org_a p1 run of eval e2 1", "org_a p2 run  1", "org_a p2 run of eval e3 1",
			"org_b p1 run  1", "org_b p1 run of agent x 1", "org_b p1 run of eval e1 1")
	})
}
