package providertest

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// Header returns the header of a token.
func Header(t *testing.T, token string) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	Must(t, err)
	Must(t, json.Unmarshal(raw, &out))
	return out
}

// Claims returns the claims of a token.
func Claims(t *testing.T, token any) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token.(string), ".")[1])
	Must(t, err)
	Must(t, json.Unmarshal(raw, &out))
	return out
}
