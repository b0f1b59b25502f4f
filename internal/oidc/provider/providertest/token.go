package providertest

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// Header returns a token's header.
func Header(t *testing.T, token string) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	Must(t, err)
	Must(t, json.Unmarshal(raw, &out))
	return out
}

// Claims returns a token's claims.
func Claims(t *testing.T, token any) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token.(string), ".")[1])
	Must(t, err)
	Must(t, json.Unmarshal(raw, &out))
	return out
}
