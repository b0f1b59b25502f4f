package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Factors stores authenticator apps and recovery codes.
type Factors struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Installation is the name that apps show for this server, next to the user's email address.
	Installation string
}

// secretPurpose binds sealed secrets to this package.
const secretPurpose = "oidc.factor.secret"

var (
	// ErrCode means that a code is wrong, or no longer right.
	ErrCode = errors.New("wrong code")
	// ErrHasAuthenticator means that a user already has an authenticator app.
	ErrHasAuthenticator = errors.New("the user has an authenticator app")
)

// AuthenticatorApp describes a user's authenticator app.
type AuthenticatorApp struct {
	Since stamp.Time
	// RecoveryCodes counts the codes that are left.
	RecoveryCodes int
}

// AuthenticatorOf returns a user's authenticator app, or nil.
func AuthenticatorOf(q db.Querier, userID string) (*AuthenticatorApp, error) {
	var a AuthenticatorApp
	err := q.Row(`SELECT created_at, (SELECT count(*) FROM oidc_recovery_codes c WHERE c.user_id = a.user_id)
		FROM oidc_authenticators a WHERE user_id = $1`, userID).Scan(&a.Since, &a.RecoveryCodes)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get authenticator app: %w", err)
	}
	return &a, nil
}

// Add adds a setup's app if code is its current code, and returns new recovery codes. It returns
// ErrCode if the code is wrong, and ErrHasAuthenticator if the user has an app.
func (s *Factors) Add(tx *db.Tx, userID string, setup AuthenticatorSetup, code string) (recovery []string, err error) {
	step, err := matchingStep(setup.Secret, normalizeCode(code), s.Now(), 0)
	if err != nil {
		return nil, err
	}
	if step == 0 {
		return nil, ErrCode
	}
	n, err := tx.Exec(`INSERT INTO oidc_authenticators (user_id, secret, last_step, failures, retry_at, created_at)
		VALUES ($1, $2, $3, 0, 0, $4) ON CONFLICT (user_id) DO NOTHING`,
		userID, s.Ring.Seal(secretPurpose, []byte(setup.Secret)), step, stamp.Of(s.Now()))
	if err != nil {
		return nil, fmt.Errorf("insert authenticator app: %w", err)
	}
	if n == 0 {
		return nil, ErrHasAuthenticator
	}
	return ReplaceRecoveryCodes(tx, userID)
}

// ReplaceRecoveryCodes replaces a user's recovery codes and returns the new ones.
func ReplaceRecoveryCodes(tx *db.Tx, userID string) ([]string, error) {
	if _, err := tx.Exec(`DELETE FROM oidc_recovery_codes WHERE user_id = $1`, userID); err != nil {
		return nil, fmt.Errorf("delete recovery codes: %w", err)
	}
	codes := make([]string, RecoveryCodes)
	for i := range codes {
		text := strings.ToLower(rand.Text()[:recoverySize])
		var groups []string
		for i := 0; i < recoverySize; i += recoveryGroup {
			groups = append(groups, text[i:i+recoveryGroup])
		}
		codes[i] = strings.Join(groups, "-")
	}
	for _, code := range codes {
		if _, err := tx.Exec(`INSERT INTO oidc_recovery_codes (user_id, code_hash) VALUES ($1, $2)`,
			userID, seal.Hash(normalizeCode(code))); err != nil {
			return nil, fmt.Errorf("insert recovery code: %w", err)
		}
	}
	return codes, nil
}

// RemoveAuthenticator removes a user's authenticator app and recovery codes, if there are any.
func RemoveAuthenticator(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`DELETE FROM oidc_authenticators WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("delete authenticator app: %w", err)
	}
	if _, err := tx.Exec(`DELETE FROM oidc_recovery_codes WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("delete recovery codes: %w", err)
	}
	return nil
}

// UseRecoveryCode uses up a user's recovery code. It returns ErrCode if the user has no such code.
func (s *Factors) UseRecoveryCode(ctx context.Context, userID, code string) error {
	n, err := s.DB.Exec(ctx, `DELETE FROM oidc_recovery_codes WHERE user_id = $1 AND code_hash = $2`,
		userID, seal.Hash(normalizeCode(code)))
	if err != nil {
		return fmt.Errorf("use recovery code: %w", err)
	}
	if n == 0 {
		return ErrCode
	}
	return nil
}

// UseCode uses up a code from the user's authenticator app. It returns ErrCode if the code is wrong or
// was used, or if the user has no app. After too many wrong codes it checks none and returns the time
// to wait.
func (s *Factors) UseCode(ctx context.Context, userID, code string) (wait time.Duration, err error) {
	var result error
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		wait, result = 0, nil
		a, err := lockAuthenticator(tx, userID)
		if errors.Is(err, db.ErrNoRows) {
			result = ErrCode
			return nil
		}
		if err != nil {
			return err
		}
		now := s.Now()
		if wait = a.retryAt.Sub(stamp.Of(now)); wait > 0 {
			return nil
		}
		wait = 0
		secret, err := s.Ring.Open(secretPurpose, a.secret)
		if err != nil {
			return fmt.Errorf("open the secret of an authenticator app: %w", err)
		}
		step, err := matchingStep(string(secret), normalizeCode(code), now, a.lastStep)
		if err != nil {
			return err
		}
		if step == 0 {
			result = ErrCode
		}
		return a.tried(step, now).save(tx)
	})
	if err != nil {
		return 0, err
	}
	return wait, result
}

type authenticator struct {
	userID             string
	secret             []byte
	lastStep, failures int64
	retryAt            stamp.Time
}

// tried returns the row after checking a code that matched a step, or was wrong if step is 0.
func (a authenticator) tried(step int64, now time.Time) authenticator {
	if step == 0 {
		a.failures++
		a.retryAt = stamp.Of(now).Add(codePause(a.failures))
		return a
	}
	a.lastStep = step
	a.failures = 0
	return a
}

// lockAuthenticator locks and returns the row of a user's app, so that no two requests use a code.
func lockAuthenticator(tx *db.Tx, userID string) (authenticator, error) {
	a := authenticator{userID: userID}
	if err := tx.Row(`UPDATE oidc_authenticators SET failures = failures WHERE user_id = $1
		RETURNING secret, last_step, failures, retry_at`, userID).
		Scan(&a.secret, &a.lastStep, &a.failures, &a.retryAt); err != nil {
		return a, fmt.Errorf("lock authenticator app: %w", err)
	}
	return a, nil
}

func (a authenticator) save(tx *db.Tx) error {
	if _, err := tx.Exec(`UPDATE oidc_authenticators SET last_step = $2, failures = $3, retry_at = $4
		WHERE user_id = $1`, a.userID, a.lastStep, a.failures, a.retryAt); err != nil {
		return fmt.Errorf("update authenticator app: %w", err)
	}
	return nil
}
