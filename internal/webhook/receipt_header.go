package webhook

import (
	"encoding/base64"
	"fmt"
	"strings"

	"steward/internal/auth"
	"steward/internal/webhook/send"
)

// Request headers often have credentials, so they are sealed where they are stored, and viewers do not see
// those values (hasCredential). The column is text: a sealed value in base64, or the JSON object itself in
// rows of versions that did not seal it. It stands before the body, which lists do not read.

// headerPurpose is bound to the webhook, so that headers that are copied to a receipt of another one do not
// open.
func headerPurpose(webhookID string) string { return "webhook.receipt.headers:" + webhookID }

// sealHeaders returns headers, a JSON object, as they are stored.
func (s *Store) sealHeaders(webhookID, text string) string {
	return base64.RawStdEncoding.EncodeToString(s.Ring.Seal(headerPurpose(webhookID), []byte(text)))
}

// openHeaders returns what was given to sealHeaders.
func (s *Store) openHeaders(webhookID, stored string) (string, error) {
	if strings.HasPrefix(stored, "{") { // of an earlier version
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

// openListed opens the headers of a receipt that is shown among others. It has none if they are damaged,
// so that the others are shown.
func (s *Store) openListed(r *Receipt) {
	text, err := s.openHeaders(r.WebhookID, r.headerText)
	if err != nil {
		s.Log.Error("read receipt", "webhook", r.WebhookID, "receipt", r.ID, "error", err)
		text = "{}"
	}
	r.headerText = text
}

// MasksCredentials reports whether a caller does not see the credentials in headers of receipts and destinations.
func MasksCredentials(c *auth.Caller) bool { return c.Role == auth.Viewer || c.Stale }

// hasCredential reports whether the value of a header is a credential, by its lower-case name.
func hasCredential(name string) bool {
	switch name {
	case "authorization", "cookie", "proxy-authorization":
		return true
	}
	for _, suffix := range []string{"-key", "-token", "-secret", "-signature"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// Masked returns the receipt with *** in place of credentials in its headers.
func (r Receipt) Masked() (Receipt, error) {
	fields, err := send.UnmarshalFields(r.headerText)
	if err != nil {
		return r, err
	}
	for i := range fields {
		if hasCredential(fields[i].Name) {
			fields[i].Value = mask
		}
	}
	r.headerText = send.MarshalFields(fields)
	r.Headers = nil
	r.masked = true
	return r, nil
}
