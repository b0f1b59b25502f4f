package oidc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

// lockState locks a client's state and returns its epoch, or NotFound. Every transaction that adds or
// deletes consents locks it first. Otherwise we might add a consent to an epoch that has ended, and the
// count would be wrong.
func lockState(tx *db.Tx, orgID, clientID string) (epoch int64, err error) {
	err = tx.Row(`UPDATE oidc_client_states SET user_count = user_count WHERE org_id = $1 AND client_id = $2
		RETURNING epoch`, orgID, clientID).Scan(&epoch)
	if errors.Is(err, db.ErrNoRows) {
		return 0, errs.Missing("OAuth client", clientID)
	}
	if err != nil {
		return 0, fmt.Errorf("lock client state: %w", err)
	}
	return epoch, nil
}

func addUsers(tx *db.Tx, orgID, clientID string, n int64) error {
	if _, err := tx.Exec(`UPDATE oidc_client_states SET user_count = user_count + $3 WHERE org_id = $1 AND client_id = $2`,
		orgID, clientID, n); err != nil {
		return fmt.Errorf("count users: %w", err)
	}
	return nil
}

// asUser returns a context whose caller is a user in the client's organization, because that
// organization's audit log records the changes users make to their consents.
func asUser(ctx context.Context, orgID, userID string) context.Context {
	var actor auth.Caller
	if caller := auth.Lookup(ctx); caller != nil && caller.OrgID == orgID {
		actor = *caller
	}
	actor.OrgID = orgID
	actor.UserID = userID
	return auth.With(ctx, &actor)
}

// SaveConsent adds the granted scopes to a user's consent and removes the declined ones. It also
// remembers which scopes were declined, and that the user has seen the client's present version. If it
// removes a scope, the consent gets a new epoch, which revokes all tokens that may have that scope. It
// returns NotFound if the client does not exist.
func (s *Store) SaveConsent(
	ctx context.Context, clientID, userID string, granted, declined []string,
) (Consent, error) {
	r, err := s.Lookup(ctx, clientID)
	if err != nil {
		return Consent{}, err
	}
	var c Consent
	err = s.DB.Write(asUser(ctx, r.OrgID, userID), func(tx *db.Tx) (err error) {
		c, err = s.saveConsent(tx, r, decision{userID, granted, declined})
		if err != nil {
			return err
		}
		return s.Audit.Record(tx, "consent.grant", clientID)
	})
	if err != nil {
		return Consent{}, err
	}
	return c, nil
}

// decision is a user's answer to a client's request for scopes.
type decision struct {
	userID            string
	granted, declined []string
}

func (s *Store) saveConsent(tx *db.Tx, r *Registered, d decision) (Consent, error) {
	orgID, clientID := r.OrgID, r.ID
	epoch, err := lockState(tx, orgID, clientID)
	if err != nil {
		return Consent{}, err
	}
	now := s.now()
	before, err := readConsent(tx, orgID, clientID, d.userID)
	if errors.Is(err, db.ErrNoRows) {
		c := Consent{
			ClientID: clientID, UserID: d.userID, Scopes: d.granted, Declined: mergeScopes(nil, d.declined, nil),
			Epoch: newEpoch(), ClientEpoch: epoch, ClientVersion: r.version, CreatedAt: now, UpdatedAt: now,
		}
		if err := insertConsent(tx, orgID, c); err != nil {
			return Consent{}, err
		}
		return c, addUsers(tx, orgID, clientID, 1)
	}
	if err != nil {
		return Consent{}, err
	}
	c := *before
	c.Scopes = mergeScopes(before.Scopes, d.granted, d.declined)
	c.Declined = mergeScopes(before.Declined, d.declined, d.granted)
	c.ClientVersion = max(before.ClientVersion, r.version)
	c.UpdatedAt = now
	if slices.ContainsFunc(before.Scopes, func(s string) bool { return !slices.Contains(c.Scopes, s) }) {
		c.Epoch = newEpoch()
		if err := s.consentGone(tx, orgID, clientID, d.userID); err != nil {
			return Consent{}, err
		}
		if err := tx.Invalidate(Cache); err != nil {
			return Consent{}, err
		}
	}
	return c, updateConsent(tx, orgID, c)
}

// mergeScopes returns before without the removed scopes, followed by the added ones.
func mergeScopes(before, added, removed []string) []string {
	merged := []string{}
	for _, s := range before {
		if !slices.Contains(removed, s) {
			merged = append(merged, s)
		}
	}
	for _, s := range added {
		if !slices.Contains(merged, s) {
			merged = append(merged, s)
		}
	}
	return merged
}

func updateConsent(tx *db.Tx, orgID string, c Consent) error {
	_, err := tx.Exec(`UPDATE oidc_consents SET scopes = @scopes, declined = @declined, epoch = @epoch,
		client_version = @client_version, updated_at = @now
		WHERE org_id = @org_id AND client_id = @client_id AND user_id = @user_id`,
		db.Args{
			"org_id": orgID, "client_id": c.ClientID, "user_id": c.UserID, "scopes": db.ToJSON(c.Scopes),
			"declined": db.ToJSON(c.Declined), "epoch": c.Epoch, "client_version": c.ClientVersion,
			"now": c.UpdatedAt,
		})
	if err != nil {
		return fmt.Errorf("update consent: %w", err)
	}
	return nil
}

// insertConsent stores a new consent. It replaces any unpurged one from an ended epoch.
func insertConsent(tx *db.Tx, orgID string, c Consent) error {
	_, err := tx.Exec(`INSERT INTO oidc_consents (org_id, client_id, user_id, scopes, declined, epoch, client_epoch,
		client_version, created_at, updated_at) VALUES (@org_id, @client_id, @user_id, @scopes, @declined,
		@epoch, @client_epoch, @client_version, @now, @now)
		ON CONFLICT (org_id, client_id, user_id)
		DO UPDATE SET scopes = excluded.scopes, declined = excluded.declined, epoch = excluded.epoch,
		client_epoch = excluded.client_epoch, client_version = excluded.client_version,
		created_at = excluded.created_at, updated_at = excluded.updated_at`,
		db.Args{
			"org_id": orgID, "client_id": c.ClientID, "user_id": c.UserID, "scopes": db.ToJSON(c.Scopes),
			"declined": db.ToJSON(c.Declined), "epoch": c.Epoch, "client_epoch": c.ClientEpoch,
			"client_version": c.ClientVersion, "now": c.CreatedAt,
		})
	if err != nil {
		return fmt.Errorf("insert consent: %w", err)
	}
	return nil
}

// liveConsents joins consents with their clients' states, which leaves out ended epochs.
const liveConsents = `oidc_consents k JOIN oidc_client_states s
	ON s.org_id = k.org_id AND s.client_id = k.client_id AND s.epoch = k.client_epoch`

// Consent returns a user's consent to a client, or nil if there is none.
func (s *Store) Consent(ctx context.Context, clientID, userID string) (*Consent, error) {
	r, err := s.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := readConsent(s.DB.Read(ctx), r.OrgID, clientID, userID)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return c, err
}

// readConsent returns a consent, or db.ErrNoRows.
func readConsent(q db.Querier, orgID, clientID, userID string) (*Consent, error) {
	c := &Consent{ClientID: clientID, UserID: userID}
	if err := q.Row(`SELECT k.scopes, k.declined, k.epoch, k.client_epoch, k.client_version, k.created_at, k.updated_at
		FROM `+liveConsents+` WHERE k.org_id = $1 AND k.client_id = $2 AND k.user_id = $3`, orgID, clientID, userID).
		Scan(db.FromJSON(&c.Scopes), db.FromJSON(&c.Declined), &c.Epoch, &c.ClientEpoch, &c.ClientVersion, &c.CreatedAt, &c.UpdatedAt); err != nil {
		return nil, fmt.Errorf("read consent: %w", err)
	}
	return c, nil
}

func (s *Store) userState(ctx context.Context, orgID string, u clientUser) (userState, error) {
	var state userState
	if err := s.DB.Read(ctx).Row(`SELECT
		COALESCE((SELECT k.epoch FROM `+liveConsents+` WHERE k.org_id = $1 AND k.client_id = $2 AND k.user_id = $3), 0),
		EXISTS (SELECT 1 FROM active_members m WHERE m.org_id = $1 AND m.user_id = $3)`, orgID, u.clientID, u.userID).
		Scan(&state.consent, &state.member); err != nil {
		return userState{}, fmt.Errorf("read user of client: %w", err)
	}
	return state, nil
}

// Users returns a page of the consents to a client, newest first. It returns NotFound if the client
// does not exist.
func (s *Store) Users(ctx context.Context, orgID, clientID string, p page.Paging) (page.Page[UserConsent], error) {
	q := s.DB.Read(ctx)
	var epoch, total int64
	err := q.Row(`SELECT epoch, user_count FROM oidc_client_states WHERE org_id = $1 AND client_id = $2`,
		orgID, clientID).Scan(&epoch, &total)
	if errors.Is(err, db.ErrNoRows) {
		return page.Page[UserConsent]{}, errs.Missing("OAuth client", clientID)
	}
	if err != nil {
		return page.Page[UserConsent]{}, fmt.Errorf("read client state: %w", err)
	}
	consents := list.Query[UserConsent]{
		Name: "consents", From: list.Text(`oidc_consents`),
		Where:   list.Where(`org_id = ? AND client_id = ? AND client_epoch = ?`, orgID, clientID, epoch),
		Columns: `user_id, scopes, created_at, updated_at`, Scan: scanUserConsent,
		Order: list.ByTime(`created_at`, `user_id`, func(c UserConsent) (stamp.Time, string) { return c.CreatedAt, c.UserID }),
	}
	return consents.Page(q, p, total)
}

func scanUserConsent(row db.Row) (c UserConsent, err error) {
	err = row.Scan(&c.UserID, db.FromJSON(&c.Scopes), &c.CreatedAt, &c.UpdatedAt)
	return c, err
}

// Own returns a page of a user's consents, newest first, for one organization's clients or, if orgID is
// empty, for all.
func (s *Store) Own(ctx context.Context, userID, orgID string, p page.Paging) (page.Page[OwnConsent], error) {
	where := list.Where(`k.user_id = ?`, userID)
	if orgID != "" {
		where = list.Where(`k.user_id = ? AND k.org_id = ?`, userID, orgID)
	}
	consents := list.Query[OwnConsent]{
		Name: "own consents", From: list.Text(liveConsents + ` JOIN oidc_clients c ON c.org_id = k.org_id AND c.id = k.client_id`),
		Where:   where,
		Columns: `k.client_id, k.scopes, k.created_at, k.updated_at, c.name, c.description, c.icon, c.homepage_url`, Scan: scanOwnConsent,
		Order: list.ByTime(`k.created_at`, `k.client_id`, func(c OwnConsent) (stamp.Time, string) { return c.CreatedAt, c.ClientID }),
	}
	return consents.Page(s.DB.Read(ctx), p, page.Unknown)
}

func scanOwnConsent(row db.Row) (c OwnConsent, err error) {
	err = row.Scan(&c.ClientID, db.FromJSON(&c.Scopes), &c.CreatedAt, &c.UpdatedAt, &c.ClientName, &c.ClientDescription, &c.ClientIcon,
		&c.ClientHomepageURL)
	return c, err
}

// RevokeUser deletes a user's consent to a client in the organization, which revokes the tokens based
// on it. It returns NotFound if the client or the consent does not exist.
func (s *Store) RevokeUser(ctx context.Context, orgID, clientID, userID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		deleted, err := s.deleteConsent(tx, orgID, clientID, userID)
		if err != nil {
			return err
		}
		if !deleted {
			return errs.Missing("user", userID)
		}
		if err := tx.Invalidate(Cache); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.revoke_user", clientID+"/"+userID)
	})
}

// RevokeConsent deletes a user's consent to a client in an organization, or in any if orgID is empty.
// It returns NotFound if there is none.
func (s *Store) RevokeConsent(ctx context.Context, clientID, userID, orgID string) error {
	none := errs.Missing("consent for client", clientID)
	r, err := s.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound || err == nil && orgID != "" && r.OrgID != orgID {
		return none
	}
	if err != nil {
		return err
	}
	return s.DB.Write(asUser(ctx, r.OrgID, userID), func(tx *db.Tx) error {
		deleted, err := s.deleteConsent(tx, r.OrgID, clientID, userID)
		if errs.KindOf(err) == errs.NotFound || err == nil && !deleted {
			return none
		}
		if err != nil {
			return err
		}
		if err := tx.Invalidate(Cache); err != nil {
			return err
		}
		return s.Audit.Record(tx, "consent.revoke", clientID)
	})
}

// deleteConsent deletes a consent and reports whether there was one. It returns NotFound if the client
// does not exist.
func (s *Store) deleteConsent(tx *db.Tx, orgID, clientID, userID string) (deleted bool, err error) {
	epoch, err := lockState(tx, orgID, clientID)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(`DELETE FROM oidc_consents
		WHERE org_id = $1 AND client_id = $2 AND user_id = $3 AND client_epoch = $4`, orgID, clientID, userID, epoch)
	if err != nil {
		return false, fmt.Errorf("delete consent: %w", err)
	}
	if n == 0 {
		return false, nil
	}
	if err := s.consentGone(tx, orgID, clientID, userID); err != nil {
		return false, err
	}
	return true, addUsers(tx, orgID, clientID, -1)
}

// RevokeAll revokes all consents to a client, and its users' tokens, by starting a new epoch. Tokens
// from client_credentials have no user and stay valid. Purge deletes the old epoch's consents.
func (s *Store) RevokeAll(ctx context.Context, orgID, clientID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		epoch, err := lockState(tx, orgID, clientID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE oidc_client_states SET epoch = epoch + 1, user_count = 0
			WHERE org_id = $1 AND client_id = $2`, orgID, clientID); err != nil {
			return fmt.Errorf("start client epoch: %w", err)
		}
		if err := s.consentGone(tx, orgID, clientID, ""); err != nil {
			return err
		}
		if err := addPurge(tx, purge{orgID: orgID, clientID: clientID, epoch: epoch}); err != nil {
			return err
		}
		if err := tx.Invalidate(Cache); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.revoke_all", clientID)
	})
}

// ForgetMember deletes the consents to the organization's clients when a user leaves it or is disabled
// there. That revokes the tokens based on them.
func (s *Store) ForgetMember(tx *db.Tx, orgID, userID string) error {
	clients, err := db.Collect(tx, db.Value[string], `SELECT client_id FROM oidc_consents
		WHERE user_id = $2 AND org_id = $1 ORDER BY client_id`, orgID, userID)
	if err != nil {
		return fmt.Errorf("list consents of member: %w", err)
	}
	for _, clientID := range clients {
		_, err := s.deleteConsent(tx, orgID, clientID, userID)
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return err
		}
	}
	return tx.Invalidate(Cache)
}

// Consent records the scopes that a user allows a client. Every code and token based on it carries both
// epochs.
type Consent struct {
	ClientID string
	UserID   string
	Scopes   []string
	// Declined has the scopes that the user was asked for and did not allow.
	Declined    []string
	Epoch       int64
	ClientEpoch int64
	// ClientVersion is the client's version when the user last consented.
	ClientVersion int64
	CreatedAt     stamp.Time
	UpdatedAt     stamp.Time
}

// UserConsent is an entry in the list of a client's users.
type UserConsent struct {
	_ struct{} `goName:"OAuthClientUser"`

	UserID    string     `json:"user_id" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	Scopes    []string   `json:"scopes" example:"openid,profile,thread:read"`
	CreatedAt stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time `json:"updated_at" format:"date-time"`
}

// OwnConsent is an entry in the list of the user's own consents.
type OwnConsent struct {
	_ struct{} `goName:"Consent"`

	ClientID          string     `json:"client_id" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Scopes            []string   `json:"scopes" example:"openid,profile,thread:read"`
	CreatedAt         stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt         stamp.Time `json:"updated_at" format:"date-time"`
	ClientName        string     `json:"client_name" example:"Helpdesk"`
	ClientDescription string     `json:"client_description" example:"Answers questions of customers"`
	ClientIcon        *string    `json:"client_icon" example:"https://helpdesk.example.com/icon.png"`
	ClientHomepageURL string     `json:"client_homepage_url" example:"https://helpdesk.example.com"`
}

// Deleted is the response to a deletion or a revocation.
type Deleted struct {
	Deleted bool `json:"deleted"`
}

// newEpoch returns a random epoch for a consent. We only compare epochs for equality, so we need not
// remember earlier consents. An epoch fits into a JSON number (53 bits) and is never 0.
func newEpoch() int64 { return 1 + rand.Int64N(1<<53-1) }
