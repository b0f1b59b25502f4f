package organization

import (
	"context"
	"log/slog"
)

// Step removes a part of an organization. It reports whether that part is gone; if not, the next run
// calls it again.
type Step func(ctx context.Context, orgID string) (done bool, err error)

// Remover removes deleted organizations after the grace period.
type Remover struct {
	Store *Store
	// Steps come from packages that have more than rows, or rows without an organization. They run first.
	Steps []Step
	// Tables have rows that belong to an organization and need no step.
	Tables []Table
	Log    *slog.Logger
}

// Run removes the organizations that are due. One that cannot be removed completely waits for the next
// run and does not delay the others.
func (r *Remover) Run(ctx context.Context) error {
	orgIDs, err := r.Store.begin(ctx)
	if err != nil {
		return err
	}
	for _, orgID := range orgIDs {
		done, err := r.remove(ctx, orgID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.Log.Warn("a deleted organization is not removed completely yet", "organization", orgID, "error", err)
		case done:
			r.Log.Info("a deleted organization was removed", "organization", orgID)
		}
	}
	return nil
}

// remove removes an organization. It reports whether nothing is left.
func (r *Remover) remove(ctx context.Context, orgID string) (done bool, err error) {
	for _, step := range r.Steps {
		if done, err := step(ctx, orgID); err != nil || !done {
			return false, err
		}
	}
	for _, table := range r.Tables {
		if done, err := r.Store.clear(ctx, table, orgID); err != nil || !done {
			return false, err
		}
	}
	if err := r.Store.removeMembers(ctx, orgID); err != nil {
		return false, err
	}
	return true, r.Store.finish(ctx, orgID)
}
