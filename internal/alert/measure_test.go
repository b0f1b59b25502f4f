package alert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
	"steward/internal/webhook/stats"
)

// measured returns what a kind of alert finds in an organization.
func (f *fixture) measured(orgID string, k Kind, p Params) Verdict {
	f.t.Helper()
	p.fill(kinds[k])
	v, err := f.evaluator.measure(f.t.Context(), Alert{orgID: orgID, Kind: k, Params: p})
	must(f.t, err)
	if v.Failing != (v.Summary != "") {
		f.t.Errorf("%+v", v)
	}
	return v
}

func TestMeasurements(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		now := stamp.Of(f.clock())
		want := func(k Kind, p Params, failing bool, parts ...string) {
			t.Helper()
			if v := f.measured("org_a", k, p); v.Failing != failing {
				t.Errorf("%s: %+v, want %t", k, v, failing)
			} else {
				for _, part := range parts {
					if !strings.Contains(v.Summary, part) {
						t.Errorf("%s: %q has no %q", k, v.Summary, part)
					}
				}
			}
			if k != DiskLow && k != BackupFailed && f.measured("org_b", k, p).Failing {
				t.Errorf("%s fires in another organization", k)
			}
		}
		for k := range kinds {
			if k != DiskLow { // on SQLite, this machine's disk is measured
				want(k, Params{}, false)
			}
		}

		f.exec(`INSERT INTO webhook_queue (key, org_id, destination_id, receipt_key, date, retries, due_at, size)
			VALUES ('k', 'org_a', $1, 'r', 0, 0, $2, 0)`, "whds"+hookA[2:], now.Add(-14*time.Minute))
		want(DeliveryOverdue, Params{}, false)
		want(DeliveryOverdue, Params{Minutes: new(int64(14))}, true, "08:16 UTC")
		want(DeliveryOverdue, Params{Minutes: new(int64(14)), WebhookID: hookB}, false)

		for i := range 10 {
			f.exec(`INSERT INTO webhook_rejected (key, date, reason, method, query, remote_addr, content_type, size, headers, truncated, body)
				VALUES ($1, 0, 'x', '', '', '', '', 0, '', false, $2)`, hookA[3:]+ulidAt(now.Add(-59*time.Minute), i), []byte{})
		}
		want(RequestsRejected, Params{}, true, "At least 10")
		want(RequestsRejected, Params{Count: new(int64(11))}, false)
		want(RequestsRejected, Params{Minutes: new(int64(30))}, false)
		want(RequestsRejected, Params{WebhookID: hookA}, true)
		want(RequestsRejected, Params{WebhookID: hookB}, false)

		must(t, f.db.Write(t.Context(), func(tx *db.Tx) error {
			return stats.Add(tx, stats.Events{OrgID: "org_a", WebhookID: hookA, At: now.Add(-30 * time.Minute), Count: stats.Count{Delivered: 94, Failed: 6}})
		}))
		want(DeliveryPassRate, Params{}, true, "94.0% of 100 attempts")
		want(DeliveryPassRate, Params{Percent: new(int64(94))}, false)
		want(DeliveryPassRate, Params{Count: new(int64(101))}, false)
		want(DeliveryPassRate, Params{Minutes: new(int64(10))}, false)
		want(DeliveryPassRate, Params{WebhookID: hookB}, false)

		for i := range 20 {
			f.exec(`INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, devmode, pending, success, passed, created_at, updated_at,
				written_at, version, size) VALUES ('org_a', $1, 'p', 's', 'e', false, $2, true, $3, $4, 0, 0, 1, 0)`,
				fmt.Sprint("run", i), i == 0, i > 9, now.Add(-time.Minute))
		}
		want(RunPassRate, Params{}, false) // 19 have ended
		want(RunPassRate, Params{Count: new(int64(19))}, true, "52.6% of 19")
		want(RunPassRate, Params{Count: new(int64(19)), EvalID: "e"}, true)
		want(RunPassRate, Params{Count: new(int64(19)), EvalID: "other"}, false)
		want(RunPassRate, Params{Count: new(int64(19)), Percent: new(int64(50))}, false)

		f.backup.LastError = "permission denied"
		want(BackupFailed, Params{}, true, "permission denied")

		if f.db.Dialect() == db.Postgres {
			f.exec(`INSERT INTO processes (id, seen_at, disk_free) VALUES ('rep_2', $1, 9), ('rep_3', $2, 1)`, now, now.Add(-time.Hour))
			want(DiskLow, Params{}, true, "Only 9%")
			want(DiskLow, Params{Percent: new(int64(9))}, false)
		} else if free, err := f.evaluator.Processes.DiskFree(t.Context()); err != nil || free == nil || *free > 100 {
			t.Errorf("%v, %v", free, err)
		} else if *free < 100 {
			want(DiskLow, Params{Percent: new(*free + 1)}, true)
		}
	})
}

// ulidAt returns a ULID in lower case for a time.
func ulidAt(at stamp.Time, n int) string {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	var text [10]byte
	ms := int64(at) / 1000
	for i := range text {
		text[9-i] = alphabet[ms&31]
		ms >>= 5
	}
	return string(text[:]) + fmt.Sprintf("%016d", n)
}
