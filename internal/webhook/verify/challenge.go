package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// MaxChallenge is the longest challenge that we answer, in bytes.
const MaxChallenge = 1 << 10

// maxChallengeBody bounds the bodies in which we look for a challenge.
const maxChallengeBody = 16 << 10

// Challenge returns the response to a request with which the sender asks whether the URL is ours, and
// whether it is one. The request must be verified.
func (v *Verifier) Challenge(r *http.Request, body []byte) (answer string, ok bool) {
	switch {
	case v.isMetaChallenge(r):
		return r.URL.Query().Get("hub.challenge"), true
	case v.settings.Type == Slack:
		if member(body, "type") == "url_verification" {
			return member(body, "challenge"), true
		}
	case v.settings.Challenge == "field":
		if r.URL.RawQuery != "" {
			answer = r.URL.Query().Get(v.settings.ChallengeField)
		}
		if answer == "" {
			answer = member(body, v.settings.ChallengeField)
		}
		return answer, answer != ""
	}
	return "", false
}

// isMetaChallenge reports whether a request is a challenge of Meta, which has a token of its own in
// place of a signature.
func (v *Verifier) isMetaChallenge(r *http.Request) bool {
	return v.settings.Challenge == "meta" && r.Method == http.MethodGet && r.URL.Query().Get("hub.mode") == "subscribe"
}

// member returns a text member of a body that is a JSON object, or "".
func member(body []byte, name string) string {
	if len(body) > maxChallengeBody || !bytes.Contains(body, []byte(name)) {
		return ""
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return ""
	}
	var text string
	if err := json.Unmarshal(members[name], &text); err != nil {
		return ""
	}
	return text
}
