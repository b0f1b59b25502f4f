package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// Identity links an account at a provider to a user in an organization.
type Identity struct {
	OrgID, Issuer, Subject string
	UserID                 string
	// Linked reports whether the user linked it while signed in.
	Linked bool
	// Groups has the groups that the provider named when the identity was last used.
	Groups    []string
	CreatedAt stamp.Time
}

// We keep up to maxGroups groups for each identity, with names up to maxGroup bytes.
const (
	maxGroups = 200
	maxGroup  = 256
)

const identityColumns = `org_id, issuer, subject, user_id, linked, created_at`

func scanIdentity(row db.Row) (i Identity, err error) {
	err = row.Scan(&i.OrgID, &i.Issuer, &i.Subject, &i.UserID, &i.Linked, &i.CreatedAt)
	return i, err
}

// Identity returns a subject's identity at an upstream, or NotFound.
func (s *Store) Identity(tx *db.Tx, u Upstream, subject string) (Identity, error) {
	i, err := scanIdentity(tx.Row(`SELECT `+identityColumns+` FROM oidc_identities
		WHERE org_id = $1 AND issuer = $2 AND subject = $3`, u.OrgID, u.Issuer, subject))
	if errors.Is(err, db.ErrNoRows) {
		return Identity{}, errs.New(errs.NotFound, "identity not found")
	}
	if err != nil {
		return Identity{}, fmt.Errorf("get identity: %w", err)
	}
	return i, nil
}

// Identities returns a user's identities in all organizations.
func (s *Store) Identities(ctx context.Context, userID string) ([]Identity, error) {
	list, err := db.Collect(s.DB.Read(ctx), scanIdentity, `SELECT `+identityColumns+` FROM oidc_identities
		WHERE user_id = $1 ORDER BY org_id, issuer, subject LIMIT 1000`, userID)
	if err != nil {
		return nil, fmt.Errorf("list identities: %w", err)
	}
	return list, nil
}

// errTaken refuses an identity that belongs to another user.
var errTaken = errs.New(errs.Conflict, "this account belongs to another user")

// PutIdentity stores that an identity belongs to a user, with its present groups, and if linked is true
// that the user has linked it. It returns Conflict if the identity belongs to another user.
func (s *Store) PutIdentity(tx *db.Tx, i Identity) error {
	n, err := tx.Exec(`INSERT INTO oidc_identities (`+identityColumns+`, group_names)
		VALUES (@org_id, @issuer, @subject, @user_id, @linked, @now, @groups)
		ON CONFLICT (org_id, issuer, subject) DO UPDATE SET linked = oidc_identities.linked OR excluded.linked,
			group_names = excluded.group_names
		WHERE oidc_identities.user_id = excluded.user_id`, db.Args{
		"org_id": i.OrgID, "issuer": i.Issuer, "subject": i.Subject, "user_id": i.UserID, "linked": i.Linked, "now": s.now(),
		"groups": db.ToJSON(keptGroups(i.Groups)),
	})
	if err != nil {
		return fmt.Errorf("insert identity: %w", err)
	}
	if n == 0 {
		return errTaken
	}
	return nil
}

// keptGroups returns the groups to store, sorted.
func keptGroups(groups []string) []string {
	kept := slices.DeleteFunc(slices.Clone(groups), func(name string) bool { return name == "" || len(name) > maxGroup })
	slices.Sort(kept)
	kept = slices.Compact(kept)
	return append([]string{}, kept[:min(len(kept), maxGroups)]...)
}

// Groups returns a user's groups in an organization, sorted. Each provider named them when the user's
// identity there was last used.
func (s *Store) Groups(ctx context.Context, orgID, userID string) ([]string, error) {
	lists, err := db.Collect(s.DB.Read(ctx), func(r db.Row) (groups []string, err error) {
		err = r.Scan(db.FromJSON(&groups))
		return groups, err
	}, `SELECT i.group_names FROM oidc_identities i WHERE i.user_id = $1 AND i.org_id = $2 AND EXISTS (SELECT 1
		FROM oidc_upstreams u WHERE u.org_id = i.org_id AND u.issuer = i.issuer AND u.enabled AND u.groups_claim <> '')
		LIMIT 100`, userID, orgID)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return keptGroups(slices.Concat(lists...)), nil
}

// Known reports whether a user has an identity.
func Known(q db.Querier, userID string) (known bool, err error) {
	if err := q.Row(`SELECT EXISTS (SELECT 1 FROM oidc_identities WHERE user_id = $1)`, userID).Scan(&known); err != nil {
		return false, fmt.Errorf("find identity of user: %w", err)
	}
	return known, nil
}

// RemoveAll removes a user's identities in all organizations.
func RemoveAll(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`DELETE FROM oidc_identities WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("delete identities: %w", err)
	}
	return nil
}

// RemoveIdentities removes a user's identities at an issuer in an organization. It reports whether
// there were any.
func (s *Store) RemoveIdentities(tx *db.Tx, userID, orgID, issuer string) (bool, error) {
	n, err := tx.Exec(`DELETE FROM oidc_identities WHERE user_id = $1 AND org_id = $2 AND issuer = $3`, userID, orgID, issuer)
	if err != nil {
		return false, fmt.Errorf("delete identities: %w", err)
	}
	return n > 0, nil
}
