package account

import (
	"context"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
)

// ChangeOrg updates the caller's organization.
func (s *Store) ChangeOrg(
	ctx context.Context, caller *auth.Caller, match page.IfMatch, p OrgPatch,
) (after Org, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`UPDATE orgs SET name = name WHERE id = $1`, caller.OrgID); err != nil {
			return fmt.Errorf("lock organization: %w", err)
		}
		before, err := org(tx, caller)
		if err != nil {
			return err
		}
		if err := match.Check(before); err != nil {
			return err
		}
		after = p.apply(before)
		var factor *Factor
		var from *auth.Role
		if required := after.RequireMFA; required != nil {
			factor, from = &required.Factor, &required.From
		}
		if _, err := tx.Exec(`UPDATE orgs SET name = $2, mfa_factor = $3, mfa_from = $4, version = $5 WHERE id = $1`,
			after.ID, after.Name, factor, from, after.version); err != nil {
			return fmt.Errorf("update organization: %w", err)
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		return s.Audit.Record(tx, "organization.update", caller.OrgID)
	})
	return after, err
}

// RequiredLevel returns the minimum acr claim for a user's sign-ins, which the user's organizations
// decide: "phr", "mfa", or "" if none requires a second factor.
func (s *Store) RequiredLevel(q db.Querier, userID string) (level string, err error) {
	type required struct {
		RequireMFA
		role auth.Role
	}
	scan := func(row db.Row) (r required, err error) {
		err = row.Scan(&r.Factor, &r.From, &r.role)
		return r, err
	}
	all, err := db.Collect(q, scan, `SELECT o.mfa_factor, o.mfa_from, m.role FROM members m JOIN orgs o ON o.id = m.org_id
		WHERE m.user_id = $1 AND NOT m.disabled AND o.mfa_factor IS NOT NULL AND o.deleted_at IS NULL`, userID)
	if err != nil {
		return "", fmt.Errorf("list required factors: %w", err)
	}
	for _, r := range all {
		if r.covers(r.role) && level != Passkey.level() {
			level = r.Factor.level()
		}
	}
	return level, nil
}

// ClearFactors removes the second factors of a member of the caller's organization. It returns NotFound
// if there is no such member, and Conflict if the member is pending. It returns Forbidden for the caller,
// who can remove their own on the account page, and for a user who belongs to another organization, which
// may require them.
func (s *Store) ClearFactors(ctx context.Context, caller *auth.Caller, memberID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if isInvitation(memberID) {
			if _, err := lockInvitation(tx, caller, memberID); err != nil {
				return err
			}
			return errs.New(errs.Conflict, "this member has not accepted the invitation")
		}
		if memberID == caller.UserID {
			return errs.New(errs.Forbidden, "remove your own second factors on the page /account")
		}
		if _, err := lockMember(tx, caller.OrgID, memberID); err != nil {
			return err
		}
		elsewhere, err := belongsElsewhere(tx, caller.OrgID, memberID)
		if err != nil {
			return err
		}
		if elsewhere {
			return errs.New(errs.Forbidden, "this user belongs to another organization as well; "+
				"the operator of the server can remove the factors with steward reset-password --clear-factors")
		}
		if err := s.clearFactors(tx, memberID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "member.clear_factors", memberID)
	})
}

// belongsElsewhere reports whether a user is also a member of another organization.
func belongsElsewhere(q db.Querier, orgID, userID string) (elsewhere bool, err error) {
	err = q.Row(`SELECT EXISTS (SELECT 1 FROM members WHERE user_id = $1 AND org_id <> $2)`, userID, orgID).
		Scan(&elsewhere)
	if err != nil {
		return false, fmt.Errorf("find other memberships: %w", err)
	}
	return elsewhere, nil
}

func (s *Store) clearFactors(tx *db.Tx, userID string) error {
	for _, remove := range s.FactorsGone {
		if err := remove(tx, userID); err != nil {
			return err
		}
	}
	return nil
}
