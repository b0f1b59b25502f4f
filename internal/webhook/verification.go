package webhook

import (
	"encoding/json"
	"fmt"

	"steward/internal/db"
	"steward/internal/webhook/verify"
)

// We store how a webhook's requests are verified in two columns: the settings with masks, which is all
// that the API reads, and the sealed secrets, which only ingest and updates open.

const verificationPurpose = "webhook.verification"

// schemaOfVerification is the migration that added verification.
const schemaOfVerification = 47

// verificationColumns are the two columns. They are nil if requests are not verified.
type verificationColumns struct {
	shown   *string
	secrets []byte
}

// shownVerification decodes the settings with masks.
func shownVerification(text *string) (*verify.Settings, error) {
	if text == nil {
		return nil, nil
	}
	var v verify.Settings
	if err := json.Unmarshal([]byte(*text), &v); err != nil {
		return nil, fmt.Errorf("decode verification: %w", err)
	}
	return &v, nil
}

// verificationColumns returns a new webhook's or update's columns. It returns Conflict while a process
// of an earlier version lives, which would not verify requests.
func (s *Store) verificationColumns(tx *db.Tx, w Webhook) (c verificationColumns, err error) {
	if w.Verification == nil {
		return c, nil
	}
	if err := db.RequireSchema(tx, s.Now(), schemaOfVerification, "verification"); err != nil {
		return c, err
	}
	shown, err := json.Marshal(w.Verification)
	if err != nil {
		return c, fmt.Errorf("encode verification: %w", err)
	}
	secrets, err := json.Marshal(w.secrets)
	if err != nil {
		return c, fmt.Errorf("encode secrets: %w", err)
	}
	text := string(shown)
	return verificationColumns{shown: &text, secrets: s.Ring.Seal(verificationPurpose, secrets)}, nil
}

// updateVerification changes how a webhook's requests are verified; nil ends it.
func (s *Store) updateVerification(tx *db.Tx, w *Webhook, v *verify.Settings) error {
	if v != nil {
		stored, err := s.storedSecrets(tx, *w, v)
		if err != nil {
			return err
		}
		joined, err := v.Join(stored)
		if err != nil {
			return err
		}
		v = &joined
	}
	w.setVerification(v)
	c, err := s.verificationColumns(tx, *w)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE webhooks SET verification = $3, verification_secrets = $4 WHERE org_id = $1 AND id = $2`,
		w.orgID, w.ID, c.shown, c.secrets); err != nil {
		return fmt.Errorf("update verification: %w", err)
	}
	return tx.Invalidate(tokensChanged)
}

// storedSecrets returns a webhook's secrets if an update needs them.
func (s *Store) storedSecrets(tx *db.Tx, w Webhook, v *verify.Settings) (stored verify.Secrets, err error) {
	if !v.HasMask() || w.Verification == nil {
		return stored, nil
	}
	var sealed []byte
	if err := tx.Row(`SELECT verification_secrets FROM webhooks WHERE org_id = $1 AND id = $2`, w.orgID, w.ID).Scan(&sealed); err != nil {
		return stored, fmt.Errorf("read secrets: %w", err)
	}
	return s.openSecrets(sealed)
}

func (s *Store) openSecrets(sealed []byte) (secrets verify.Secrets, err error) {
	text, err := s.Ring.Open(verificationPurpose, sealed)
	if err != nil {
		return secrets, fmt.Errorf("open secrets: %w", err)
	}
	if err := json.Unmarshal(text, &secrets); err != nil {
		return secrets, fmt.Errorf("decode secrets: %w", err)
	}
	return secrets, nil
}

// verifier returns a webhook's verifier, or nil if it has none.
func (s *Store) verifier(c verificationColumns) (*verify.Verifier, error) {
	v, err := shownVerification(c.shown)
	if err != nil || v == nil {
		return nil, err
	}
	secrets, err := s.openSecrets(c.secrets)
	if err != nil {
		return nil, err
	}
	v.Secrets = secrets.Secrets
	v.ChallengeToken = secrets.ChallengeToken
	return verify.New(*v)
}
