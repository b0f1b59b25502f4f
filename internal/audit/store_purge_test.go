package audit_test

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestPurgeKeepsWhatIsWithinTheRetention writes entries of three organizations over some days: the
// oldest of them are more than a batch.
func TestPurgeKeepsWhatIsWithinTheRetention(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		clock := now
		s := newStore(d)
		s.Now = func() time.Time { return clock }
		s.Retention = 48 * time.Hour
		record := func(orgID string, n int, age time.Duration) {
			clock = now.Add(-age)
			ctx := auth.With(t.Context(), &auth.Caller{OrgID: orgID, UserID: "usr_1"})
			err := d.Write(ctx, func(tx *db.Tx) error {
				for i := range n {
					if err := s.Record(tx, "thing.create", fmt.Sprint(i)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		record("org_1", 1201, 72*time.Hour)
		record("org_1", 3, 48*time.Hour-time.Millisecond)
		record("org_2", 2, 0)
		record("org_3", 1, 48*time.Hour+time.Millisecond)
		clock = now
		for range 2 {
			if err := s.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			for orgID, want := range map[string]int{"org_1": 3, "org_2": 2, "org_3": 0} {
				var n int
				err := d.Read(t.Context()).Row(`SELECT count(*) FROM audit WHERE org_id = $1`, orgID).Scan(&n)
				if err != nil || n != want {
					t.Errorf("%s has %d entries, %v; want %d", orgID, n, err, want)
				}
			}
		}
	})
}
