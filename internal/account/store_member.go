package account

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

const selectMember = `SELECT u.id, u.first_name, u.last_name, u.email, u.photo_url, m.role, m.disabled, m.created_at,
	m.last_seen_at, m.version FROM members m JOIN users u ON u.id = m.user_id `

func scanMember(row db.Row) (m Member, err error) {
	err = row.Scan(&m.ID, &m.FirstName, &m.LastName, &m.Email, &m.PhotoURL, &m.Role, &m.Disabled, &m.JoinedAt,
		&m.LastSeenAt, &m.version)
	return m, err
}

// Members returns an organization's members, longest-standing first, followed by pending ones.
func (s *Store) Members(ctx context.Context, orgID string) ([]Member, error) {
	members, err := db.Collect(s.DB.Read(ctx), scanMember, selectMember+`
		WHERE m.org_id = $1 ORDER BY m.created_at, m.user_id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	pending, err := db.Collect(s.DB.Read(ctx), scanPending, `SELECT `+pendingColumns+` FROM invitations
		WHERE org_id = $1 ORDER BY created_at, id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	return append(members, pending...), nil
}

// HasAddress reports whether an organization has an active member with an address, which is in lower
// case.
func (s *Store) HasAddress(q db.Querier, orgID, email string) (has bool, err error) {
	if err := q.Row(`SELECT EXISTS (SELECT 1 FROM users u JOIN members m ON m.user_id = u.id
		WHERE u.email = $2 AND m.org_id = $1 AND NOT m.disabled)`, orgID, email).Scan(&has); err != nil {
		return false, fmt.Errorf("look for address: %w", err)
	}
	return has, nil
}

// member returns a member, or NotFound.
func member(q db.Querier, orgID, userID string) (Member, error) {
	m, err := scanMember(q.Row(selectMember+`WHERE m.org_id = $1 AND m.user_id = $2`, orgID, userID))
	if errors.Is(err, db.ErrNoRows) {
		return Member{}, errs.Missing("member", userID)
	}
	if err != nil {
		return Member{}, fmt.Errorf("get member: %w", err)
	}
	return m, nil
}

// lockMember locks the user and returns the member. Everyone who changes a membership holds this lock. So
// no change overwrites another, and if two organizations remove a user, one of them sees that it ends the
// last membership.
func lockMember(tx *db.Tx, orgID, userID string) (Member, error) {
	if err := LockUser(tx, userID); err != nil {
		return Member{}, err
	}
	return member(tx, orgID, userID)
}

// errProfile reports an attempt to change a user's own data.
var errProfile = errs.New(errs.Forbidden, "names and photo belong to the user, who changes them on the page /account")

// ChangeMember updates a member or an invitation. It returns Forbidden if someone who is not an owner
// changes or makes an owner, or if a user's names or photo would change. It returns Conflict if the last
// enabled owner would lose the role or be disabled, or if a pending member would be disabled.
func (s *Store) ChangeMember(
	ctx context.Context, caller *auth.Caller, memberID string, match page.IfMatch, p MemberPatch,
) (Member, error) {
	if isInvitation(memberID) {
		return s.changeInvitation(ctx, caller, memberID, match, p)
	}
	var after Member
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := lockMember(tx, caller.OrgID, memberID)
		if err != nil {
			return err
		}
		if err := match.Check(before); err != nil {
			return err
		}
		if after, err = p.apply(before); err != nil {
			return err
		}
		if !after.sameProfile(before) {
			return errProfile
		}
		if err := checkOwners(tx, caller, before, after); err != nil {
			return err
		}
		if err := s.update(tx, caller.OrgID, after); err != nil {
			return err
		}
		if err := s.Audit.Record(tx, "member.update", memberID); err != nil {
			return err
		}
		if before.Disabled == after.Disabled {
			return nil
		}
		return s.enableOrDisable(tx, caller.OrgID, after)
	})
	return after, err
}

// enableOrDisable ends a disabled member's access. It also does so when the member is enabled again: a
// request that was in flight when the member was disabled may have left something behind, which must not
// come to life.
func (s *Store) enableOrDisable(tx *db.Tx, orgID string, m Member) error {
	action := "member.enable"
	if m.Disabled {
		action = "member.disable"
	}
	if err := s.Audit.Record(tx, action, m.ID); err != nil {
		return err
	}
	return s.endAccess(tx, orgID, m.ID)
}

func (s *Store) update(tx *db.Tx, orgID string, m Member) error {
	if _, err := tx.Exec(`UPDATE members SET role = @role, disabled = @disabled, version = @version, updated_at = @now
		WHERE org_id = @org_id AND user_id = @user_id`,
		db.Args{
			"org_id": orgID, "user_id": m.ID, "role": m.Role, "disabled": m.Disabled, "version": m.version,
			"now": s.now(),
		}); err != nil {
		return fmt.Errorf("update member: %w", err)
	}
	return tx.Invalidate(auth.Callers)
}

// RemoveMember removes a user from the caller's organization, with everything that belongs to them there,
// or revokes an invitation. It returns the same errors as ChangeMember.
func (s *Store) RemoveMember(ctx context.Context, caller *auth.Caller, memberID string, match page.IfMatch) error {
	if isInvitation(memberID) {
		return s.DB.Write(ctx, func(tx *db.Tx) error {
			m, err := lockInvitation(tx, caller, memberID)
			if err != nil {
				return err
			}
			if err := match.Check(m); err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM invitations WHERE org_id = $1 AND id = $2`, caller.OrgID, memberID); err != nil {
				return fmt.Errorf("delete invitation: %w", err)
			}
			return s.Audit.Record(tx, "member.revoke", memberID)
		})
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		m, err := lockMember(tx, caller.OrgID, memberID)
		if err != nil {
			return err
		}
		if err := match.Check(m); err != nil {
			return err
		}
		if err := checkOwners(tx, caller, m, Member{}); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM members WHERE org_id = $1 AND user_id = $2`, caller.OrgID, memberID); err != nil {
			return fmt.Errorf("delete member: %w", err)
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		if err := s.Audit.Record(tx, "member.delete", memberID); err != nil {
			return err
		}
		return s.endAccess(tx, caller.OrgID, memberID)
	})
}

// endAccess removes a user's belongings in an organization. If the user has no enabled membership left,
// it also ends the user's sessions.
func (s *Store) endAccess(tx *db.Tx, orgID, userID string) error {
	for _, gone := range s.MemberGone {
		if err := gone(tx, orgID, userID); err != nil {
			return err
		}
	}
	var enabled bool
	if err := tx.Row(`SELECT EXISTS (SELECT 1 FROM members WHERE user_id = $1 AND NOT disabled)`, userID).
		Scan(&enabled); err != nil {
		return fmt.Errorf("find enabled memberships: %w", err)
	}
	if enabled {
		return nil
	}
	for _, gone := range s.UserGone {
		if err := gone(tx, userID); err != nil {
			return err
		}
	}
	return nil
}

// errOwners refuses a caller who is not an owner.
var errOwners = errs.New(errs.Forbidden, "only an owner can change owners")

// checkOwners checks a change to a member; after is empty if the member is removed. Only owners can
// change owners or make new ones (Forbidden), and the last enabled owner must stay (Conflict).
func checkOwners(tx *db.Tx, caller *auth.Caller, before, after Member) error {
	if before.Role != auth.Owner && after.Role != auth.Owner {
		return nil
	}
	if caller.Role != auth.Owner {
		return errOwners
	}
	if !before.owns() || after.owns() {
		return nil
	}
	// Without the lock, two owners could remove each other at the same time.
	if err := LockOrg(tx, caller.OrgID); err != nil {
		return err
	}
	var owners int
	if err := tx.Row(`SELECT count(*) FROM members WHERE org_id = $1 AND role = $2 AND NOT disabled`,
		caller.OrgID, auth.Owner).Scan(&owners); err != nil {
		return fmt.Errorf("count owners: %w", err)
	}
	if owners < 2 {
		return errs.New(errs.Conflict, "an organization must keep at least one owner who is not disabled")
	}
	return nil
}

// SearchMembers finds an organization's members, including pending ones, by id, e-mail address or words
// in their name. It reads all members, since they are few enough to be listed.
func (s *Store) SearchMembers(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	all, err := s.Members(ctx, caller.OrgID)
	if err != nil {
		return nil, err
	}
	var found []db.Named
	for _, m := range all {
		if len(found) < limit && m.matches(text) {
			found = append(found, db.Named{ID: m.ID, Name: m.label()})
		}
	}
	return found, nil
}

// Membership is a user's organization, with the user's role there.
type Membership struct {
	OrgID, OrgName string
	Role           auth.Role
}

// maxMemberships caps the organizations that we list for a user.
const maxMemberships = 100

// Memberships returns, by name, the organizations where a user is an enabled member. It leaves out
// deleted ones.
func (s *Store) Memberships(ctx context.Context, userID string) ([]Membership, error) {
	scan := func(row db.Row) (m Membership, err error) {
		err = row.Scan(&m.OrgID, &m.OrgName, &m.Role)
		return m, err
	}
	list, err := db.Collect(s.DB.Read(ctx), scan, `SELECT o.id, o.name, m.role
		FROM members m JOIN orgs o ON o.id = m.org_id WHERE m.user_id = $1 AND NOT m.disabled AND o.deleted_at IS NULL
		ORDER BY o.name, o.id LIMIT $2`,
		userID, maxMemberships)
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return list, nil
}

// touch writes the times when members were last seen. If another replica has written a later time, it
// keeps that.
func (s *Store) touch(ctx context.Context, keys []membershipKey, at map[membershipKey]stamp.Time) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, key := range keys {
			if _, err := tx.Exec(`UPDATE members SET last_seen_at = $3
				WHERE org_id = $1 AND user_id = $2 AND (last_seen_at IS NULL OR last_seen_at < $3)`,
				key.orgID, key.userID, at[key]); err != nil {
				return fmt.Errorf("update when a member was seen: %w", err)
			}
		}
		return nil
	})
}
