package audit_test

import (
	"testing"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/web"
)

func TestEntryOfUserIsInTheLogOfEachOrganization(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, ctx := newStore(d), requested(t)
		told := map[string]int{}
		s.Recorded = func(_ *db.Tx, orgID string, e audit.Entry) error {
			told[orgID]++
			if e.Target != "usr_1" || e.ID == "" || e.RemoteAddr != "192.0.2.1" {
				t.Errorf("told of %+v", e)
			}
			return nil
		}
		err := d.Write(ctx, func(tx *db.Tx) error {
			for _, m := range [][2]string{{"org_1", "usr_1"}, {"org_2", "usr_1"}, {"org_2", "usr_2"}, {"org_3", "usr_2"}} {
				_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
					VALUES ($1, $2, 'member', 1, 1, 1)`, m[0], m[1])
				if err != nil {
					return err
				}
			}
			if err := s.RecordUser(tx, "user.sign_in", "usr_1", "usr_1"); err != nil {
				return err
			}
			return s.RecordUser(tx, "user.sign_in_failed", "usr_1", "")
		})
		if err != nil {
			t.Fatal(err)
		}
		for org, want := range map[string]int{"org_1": 2, "org_2": 2, "org_3": 0} {
			result, err := s.List(t.Context(), org, audit.Filter{}, page.Paging{Limit: 10})
			if err != nil || len(result.Items) != want {
				t.Fatalf("%s has %+v, %v; want %d entries", org, result.Items, err, want)
			}
			if told[org] != want {
				t.Errorf("%s was told of %d entries, want %d", org, told[org], want)
			}
		}
		got := entries(t, s)
		failed, signedIn := got[0], got[1]
		if failed.Action != "user.sign_in_failed" || failed.UserID != nil || failed.Target != "usr_1" ||
			signedIn.Action != "user.sign_in" || *signedIn.UserID != "usr_1" || signedIn.Target != "usr_1" ||
			signedIn.RequestID != web.Request(ctx).ID || signedIn.RemoteAddr != "192.0.2.1" || signedIn.KeyID != nil {
			t.Errorf("the log is %+v", got)
		}
	})
}
