package organization

import (
	"context"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// Active caches which organizations have been deleted. A nil Active takes all for active.
type Active struct {
	DB *db.DB

	deletions db.Cache[string, *stamp.Time]
}

// Forget empties the cache. Call it when auth.Callers is invalidated.
func (a *Active) Forget() { a.deletions.Forget() }

// Check returns Forbidden if the organization was deleted.
func (a *Active) Check(ctx context.Context, orgID string) error {
	if a == nil {
		return nil
	}
	at, err := a.deletions.Get(orgID, func() (*stamp.Time, error) { return deletion(a.DB.Read(ctx), orgID) })
	switch {
	case errs.KindOf(err) == errs.NotFound:
		return errs.New(errs.Forbidden, "the organization was deleted and is being removed")
	case err != nil:
		return err
	case at != nil:
		return errs.New(errs.Forbidden, "the organization was deleted at %s; an owner can restore it until %s",
			at, at.Add(account.Grace))
	}
	return nil
}
