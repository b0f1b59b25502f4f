package object

import (
	"context"

	"steward/internal/db"
	"steward/internal/errs"
)

// RemoveOrg deletes an organization's buckets with everything in them, and reports whether none is left.
// Cleaner removes their rows and bytes later.
func (s *Buckets) RemoveOrg(ctx context.Context, orgID string) (done bool, err error) {
	buckets, err := s.List(ctx, orgID, "")
	if err != nil {
		return false, err
	}
	for _, b := range buckets {
		ref := BucketRef{OrgID: orgID, Region: b.Region, Name: b.Name}
		err := s.DB.Write(ctx, func(tx *db.Tx) error { return s.Delete(tx, ref, false) })
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return false, err
		}
	}
	return true, nil
}
