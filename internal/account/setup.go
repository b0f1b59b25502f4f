package account

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	// setupPeriod divides time into periods. Setup links made in the same period are equal, and expire at
	// the end of the next one: after 12 to 24 hours.
	setupPeriod = 12 * time.Hour
	// setupMark is stored once an installation is set up, and never deleted.
	setupMark = "setup_done"
	// setupPurpose separates setup links' MACs from others.
	setupPurpose = "account.setup"
	// setupPath leads to the setup page. The token follows in the fragment, which browsers do not send,
	// so that no proxy logs it.
	setupPath = "/console/setup#"
)

// Setup lets the owner that the first start has created, who also owns the root key, set an e-mail address
// and a password, or a passkey. The owner uses a link that the server prints. An installation is set up once:
// through such a link, by settings at the first start, or by an owner who was invited with the root key.
//
// We store nothing about a link. Its token is its expiry, and a MAC over expiry and owner under the
// master key, so that all replicas make and accept the same links.
type Setup struct {
	Store *Store
	Ring  *seal.Ring
}

// SetupLink is a link for setting up an installation.
type SetupLink struct {
	Link      string     `json:"link"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

// FirstAccount is the first owner's choice.
type FirstAccount struct{ Email, OrgName string }

// Problem explains in a sentence why the choice is invalid, or returns "".
func (a FirstAccount) Problem() string {
	address, err := mail.ParseAddress(a.Email)
	switch {
	case err != nil || address.Address != a.Email || len(a.Email) > maxEmail:
		return "Enter an email address, such as ada@example.com."
	case !name.Valid(a.OrgName) || utf8.RuneCountInString(a.OrgName) > maxOrgName:
		return "Enter the name of your organization, without control or invisible characters."
	}
	return ""
}

var (
	errSetupLink = errs.New(errs.NotFound, "this link is not valid or has expired")
	errSetUp     = errs.New(errs.Conflict, "this installation is set up; "+
		"steward reset-password makes a link for a user who cannot sign in")
)

// Pending reports whether the installation still has to be set up.
func (s *Setup) Pending(ctx context.Context) (bool, error) {
	_, err := pendingOwner(s.Store.DB.Read(ctx))
	if errs.KindOf(err) == errs.Conflict {
		return false, nil
	}
	return err == nil, err
}

// pendingOwner returns the owner who has to set up the installation. It returns Conflict if that has
// happened, or if somebody can already sign in as an owner.
func pendingOwner(q db.Querier) (First, error) {
	_, done, err := db.Stored(q, setupMark)
	if err != nil {
		return First{}, err
	}
	if done {
		return First{}, errSetUp
	}
	owner, err := firstOwner(q)
	if err != nil {
		return First{}, err
	}
	var addressed bool
	if err := q.Row(`SELECT EXISTS (SELECT 1 FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.role = $2 AND u.email IS NOT NULL)`, owner.OrgID, auth.Owner).Scan(&addressed); err != nil {
		return First{}, fmt.Errorf("find an owner with an address: %w", err)
	}
	if addressed {
		return First{}, errSetUp
	}
	return owner, nil
}

// Link returns the current link, which begins with baseURL. It returns Conflict if the installation is
// set up.
func (s *Setup) Link(ctx context.Context, baseURL string) (SetupLink, error) {
	owner, err := pendingOwner(s.Store.DB.Read(ctx))
	if err != nil {
		return SetupLink{}, err
	}
	expires := stamp.Of(s.Store.Now().Truncate(setupPeriod).Add(2 * setupPeriod))
	return SetupLink{Link: baseURL + setupPath + s.token(owner, expires), ExpiresAt: expires}, nil
}

// Settle marks an installation as set up if somebody can already sign in as an owner, for example after
// an upgrade.
func (s *Setup) Settle(ctx context.Context) error {
	pending, err := s.Pending(ctx)
	if err != nil || pending {
		return err
	}
	return s.Store.DB.Write(ctx, func(tx *db.Tx) error {
		_, _, err := tx.Once(setupMark, s.Store.now().String())
		return err
	})
}

func (s *Setup) token(owner First, expires stamp.Time) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(expires.Std().Unix()))
	return base64.RawURLEncoding.EncodeToString(append(raw, s.mac(owner, raw)...))
}

func (s *Setup) mac(owner First, expires []byte) []byte {
	return s.Ring.MAC(setupPurpose, owner.UserID+" "+string(expires))
}

// Check returns NotFound unless the token belongs to a link that is still valid, and Conflict if the
// installation is set up.
func (s *Setup) Check(ctx context.Context, token string) error {
	_, err := s.owner(s.Store.DB.Read(ctx), token)
	return err
}

// owner returns the owner for a token. It returns the same errors as Check.
func (s *Setup) owner(q db.Querier, token string) (First, error) {
	owner, err := pendingOwner(q)
	if err != nil {
		return First{}, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < 8 {
		return First{}, errSetupLink
	}
	expires, mac := raw[:8], raw[8:]
	if !hmac.Equal(mac, s.mac(owner, expires)) {
		return First{}, errSetupLink
	}
	if s.Store.Now().Unix() >= int64(binary.BigEndian.Uint64(expires)) {
		return First{}, errSetupLink
	}
	return owner, nil
}

// Complete sets the owner's address and password, given the password's hash, and the organization's name.
// It returns the same errors as Check, and Invalid if another user has the address.
func (s *Setup) Complete(tx *db.Tx, token string, a FirstAccount, hash string) (userID string, err error) {
	owner, err := s.owner(tx, token)
	if err != nil {
		return "", err
	}
	_, first, err := tx.Once(setupMark, s.Store.now().String())
	if err != nil {
		return "", err
	}
	if !first {
		return "", errSetUp
	}
	email := strings.ToLower(a.Email)
	var other string
	err = tx.Row(`SELECT id FROM users WHERE email = $1`, email).Scan(&other)
	if err == nil {
		return "", errTaken
	}
	if !errors.Is(err, db.ErrNoRows) {
		return "", fmt.Errorf("find user: %w", err)
	}
	n, err := tx.Exec(`UPDATE users SET email = $2 WHERE id = $1 AND email IS NULL`, owner.UserID, email)
	if err != nil {
		return "", fmt.Errorf("set address: %w", err)
	}
	if n == 0 {
		return "", errSetUp
	}
	if _, err := tx.Exec(`UPDATE orgs SET name = $2 WHERE id = $1`, owner.OrgID, a.OrgName); err != nil {
		return "", fmt.Errorf("update organization: %w", err)
	}
	return owner.UserID, s.Store.SetPassword(tx, owner.UserID, hash)
}

// errTaken reports an address that another user has.
var errTaken = errs.New(errs.Invalid, "this e-mail address belongs to another user")
