package webhook

import (
	"encoding/base64"
	"fmt"
	"strings"

	"steward/internal/auth"
	"steward/internal/webhook/send"
	"steward/internal/webhook/verify"
)

// Request headers often carry credentials, so we seal them in the database and hide the values that
// verify.IsHidden picks from viewers. The column is text: a sealed value in base64, or a plain JSON
// object in rows from versions that did not seal it. It comes before the body, which lists do not
// read.

// headerPurpose binds headers to their webhook: copied to another webhook's receipt, they do not open.
func headerPurpose(webhookID string) string { return "webhook.receipt.headers:" + webhookID }

// sealHeaders seals a JSON object for the headers column.
func (s *Store) sealHeaders(webhookID, text string) string {
	return base64.RawStdEncoding.EncodeToString(s.Ring.Seal(headerPurpose(webhookID), []byte(text)))
}

// openHeaders reverses sealHeaders.
func (s *Store) openHeaders(webhookID, stored string) (string, error) {
	if strings.HasPrefix(stored, "{") { // from an earlier version
		return stored, nil
	}
	sealed, err := base64.RawStdEncoding.DecodeString(stored)
	if err != nil {
		return "", fmt.Errorf("decode headers: %w", err)
	}
	text, err := s.Ring.Open(headerPurpose(webhookID), sealed)
	if err != nil {
		return "", fmt.Errorf("open headers: %w", err)
	}
	return string(text), nil
}

// openListed opens the headers of a listed receipt. Damaged headers show as none, so that one bad
// receipt does not hide the rest of the list.
func (s *Store) openListed(r *Receipt) {
	text, err := s.openHeaders(r.WebhookID, r.headerText)
	if err != nil {
		s.Log.Error("read receipt", "webhook", r.WebhookID, "receipt", r.ID, "error", err)
		text = "{}"
	}
	r.headerText = text
}

// MasksCredentials reports whether the caller sees *** instead of the credentials in receipts' and
// destinations' headers.
func MasksCredentials(c *auth.Caller) bool { return c.Role == auth.Viewer || c.Stale }

// Masked returns the receipt with *** in place of credentials in its headers.
func (r Receipt) Masked() (Receipt, error) {
	fields, err := send.UnmarshalFields(r.headerText)
	if err != nil {
		return r, err
	}
	for i := range fields {
		if verify.IsHidden(fields[i].Name) {
			fields[i].Value = mask
		}
	}
	r.headerText = send.MarshalFields(fields)
	r.Headers = nil
	r.masked = true
	return r, nil
}
