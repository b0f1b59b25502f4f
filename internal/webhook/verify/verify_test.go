package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/errs"
)

// vector is a request that a provider's documentation shows, or one that we computed as it says with
// another tool (openssl dgst -hmac).
type vector struct {
	settings Settings
	headers  map[string]string
	body     string
	at       int64 // when it was signed, or 0
}

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&" +
	"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F" +
	"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

func vectors() map[string]vector {
	of := func(t Type, secret string) Settings { return Settings{Type: t, Secrets: []string{secret}} }
	hmacSettings := of(HMAC, "generic-secret")
	hmacSettings.Header = "X-Signature"
	hmacSettings.Prefix = "v1:"
	hmacSettings.Algorithm = "sha512"
	hmacSettings.Encoding = "base64"
	hmacSettings.Signed = "{header:X-Id}|{timestamp}|{body}"
	hmacSettings.TimestampHeader = "X-Timestamp"
	plain := of(HMAC, "generic-secret")
	plain.Header = "X-Signature"
	plain.Algorithm = "sha1"
	basic := of(Basic, "pass:word")
	basic.Username = "shop"
	header := of(Header, "a-secret")
	header.Header = "Authorization"
	header.Prefix = "Bearer "
	return map[string]vector{
		"standard": { // the specification's example
			of(Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
			map[string]string{
				"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
				"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			},
			`{"test": 2432232314}`, 1614265330,
		},
		"standard, several signatures": {
			of(Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
			map[string]string{
				"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
				"webhook-signature": "v1a,AAAA v1,bm90IHRoaXMgb25lIGJ1dCBhbm90aGVyIHNpZ25hdHU= v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			},
			`{"test": 2432232314}`, 1614265330,
		},
		"svix": {
			of(Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
			map[string]string{
				"svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp": "1614265330",
				"svix-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			},
			`{"test": 2432232314}`, 1614265330,
		},
		"stripe": { // computed
			of(Stripe, "whsec_test_secret"),
			map[string]string{"Stripe-Signature": "t=1614265330,v1=42b3d2b2181207b6b299df380bf37599bb895dc182467ba12e046b1916c4cd19,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"},
			`{"id":"evt_1","object":"event"}`, 1614265330,
		},
		"github": { // "Testing the webhook payload validation"
			of(GitHub, "It's a Secret to Everybody"),
			map[string]string{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
			"Hello, World!", 0,
		},
		"shopify": { // computed
			of(Shopify, "hush"), map[string]string{"X-Shopify-Hmac-SHA256": "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I="}, `{"id":820982911946154508}`, 0,
		},
		"slack": { // "Verifying requests from Slack"
			of(Slack, "8f742231b10e8888abcd99yyyzzz85a5"),
			map[string]string{
				"X-Slack-Request-Timestamp": "1531420618",
				"X-Slack-Signature":         "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
			},
			slackBody, 1531420618,
		},
		"hmac": { // computed
			hmacSettings, map[string]string{"X-Id": "evt-1", "X-Timestamp": "1614265330000", "X-Signature": "v1:2rOTUYgpLfqmA+jA5YdldwH3WmDZ7wppeaUp2rCgeLJ+12/pP5gTN0jY2+HBp7QO+Gi1lBDdxCA2uTATVSYivw=="}, "the body", 1614265330,
		},
		"hmac of the body": { // computed
			plain, map[string]string{"X-Signature": "71456590ba6805e645fd8ea9a5ffdda63af53f9b"}, "the body", 0,
		},
		"basic": {
			basic, map[string]string{"Authorization": "Basic c2hvcDpwYXNzOndvcmQ="}, "", 0,
		},
		"header": {
			header, map[string]string{"Authorization": "Bearer a-secret"}, "", 0,
		},
	}
}

func (v vector) request(t testing.TB) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(v.body))
	for name, value := range v.headers {
		r.Header.Set(name, value)
	}
	return r
}

func (v vector) now() time.Time {
	if v.at == 0 {
		return time.Unix(1e9, 0)
	}
	return time.Unix(v.at, 0)
}

func verifier(t testing.TB, s Settings) *Verifier {
	t.Helper()
	var faults errs.Faults
	s.Check(&faults)
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	v, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVectors(t *testing.T) {
	for name, v := range vectors() {
		t.Run(name, func(t *testing.T) {
			if got := verifier(t, v.settings).Verify(v.request(t), []byte(v.body), v.now()); got != "" {
				t.Errorf("rejected: %s", got)
			}
			rotated := v.settings
			rotated.Secrets = []string{"whsec_bmV3IGJ1dCBsb25nIGVub3VnaCBmb3IgYSBrZXk=", v.settings.Secrets[0]}
			if got := verifier(t, rotated).Verify(v.request(t), []byte(v.body), v.now()); got != "" {
				t.Errorf("rejected with a second secret: %s", got)
			}
		})
	}
}

// TestForgeries changes a good request in every way that matters.
func TestForgeries(t *testing.T) {
	for name, v := range vectors() {
		t.Run(name, func(t *testing.T) {
			isCredential := v.settings.Type == Basic || v.settings.Type == Header
			check := func(what string, s Settings, r *http.Request, body string, now time.Time, want ...Reason) {
				t.Helper()
				got := verifier(t, s).Verify(r, []byte(body), now)
				for _, w := range want {
					if got == w {
						return
					}
				}
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
			other := v.settings
			other.Secrets = []string{"whsec_bmV3IGJ1dCBsb25nIGVub3VnaCBmb3IgYSBrZXk="}
			check("another secret", other, v.request(t), v.body, v.now(), WrongSignature, WrongCredentials)
			check("no header", v.settings, vector{body: v.body}.request(t), v.body, v.now(), MissingSignature, MissingCredentials)
			if isCredential {
				for _, value := range []string{"", "Basic", "Basic !", "Bearer", "Bearer a-secre", "Basic c2hvcDpwYXNzOndvcg==", "Basic U2hvcDpwYXNzOndvcmQ="} {
					r := v.request(t)
					r.Header.Set("Authorization", value)
					check(value, v.settings, r, v.body, v.now(), MissingCredentials, WrongCredentials)
				}
				r := v.request(t)
				r.Header.Add("Authorization", "another")
				if v.settings.Type == Header {
					check("twice", v.settings, r, v.body, v.now(), MissingCredentials)
				}
				return
			}
			check("another body", v.settings, v.request(t), v.body+" ", v.now(), WrongSignature)
			if v.at == 0 {
				return
			}
			for _, off := range []time.Duration{-301 * time.Second, 301 * time.Second, 200 * 365 * 24 * time.Hour} {
				check("the timestamp is off", v.settings, v.request(t), v.body, v.now().Add(off), BadTimestamp)
			}
			for _, off := range []time.Duration{-300 * time.Second, 300 * time.Second} {
				check("within the tolerance", v.settings, v.request(t), v.body, v.now().Add(off), "")
			}
			strict := v.settings
			strict.Tolerance = new(int64(1))
			check("a small tolerance", strict, v.request(t), v.body, v.now().Add(2*time.Second), BadTimestamp)
			for header := range v.headers {
				r := v.request(t)
				r.Header.Set(header, strings.Replace(r.Header.Get(header), "16142", "16141", 1)+"0")
				check("changed "+header, v.settings, r, v.body, v.now(), WrongSignature, BadTimestamp)
				if strings.HasSuffix(strings.ToLower(header), "signature") {
					continue // each is tried
				}
				r = v.request(t)
				r.Header.Add(header, "0")
				check("repeated "+header, v.settings, r, v.body, v.now(), WrongSignature, BadTimestamp)
				r.Header.Del(header)
				check("without "+header, v.settings, r, v.body, v.now(), WrongSignature, BadTimestamp)
			}
		})
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		settings Settings
		fault    string
	}{
		"type":                {Settings{Type: "x", Secrets: []string{"s"}}, "type"},
		"no secret":           {Settings{Type: GitHub}, "secrets"},
		"three":               {Settings{Type: GitHub, Secrets: []string{"a", "b", "c"}}, "secrets"},
		"empty":               {Settings{Type: GitHub, Secrets: []string{""}}, "secrets[0]"},
		"control":             {Settings{Type: GitHub, Secrets: []string{"a", "b\n"}}, "secrets[1]"},
		"not base64":          {Settings{Type: Standard, Secrets: []string{"whsec_x"}}, "secrets[0]"},
		"foreign field":       {Settings{Type: GitHub, Secrets: []string{"s"}, Header: "x"}, "header"},
		"tolerance":           {Settings{Type: Shopify, Secrets: []string{"s"}, Tolerance: new(int64(5))}, "tolerance_seconds"},
		"no header":           {Settings{Type: HMAC, Secrets: []string{"s"}}, "header"},
		"no body":             {Settings{Type: HMAC, Secrets: []string{"s"}, Header: "x", Signed: "{header:y}"}, "signed"},
		"unknown part":        {Settings{Type: HMAC, Secrets: []string{"s"}, Header: "x", Signed: "{body}{url}"}, "signed"},
		"open part":           {Settings{Type: HMAC, Secrets: []string{"s"}, Header: "x", Signed: "{body}{"}, "signed"},
		"no timestamp":        {Settings{Type: HMAC, Secrets: []string{"s"}, Header: "x", Signed: "{timestamp}{body}"}, "timestamp_header"},
		"unused timestamp":    {Settings{Type: HMAC, Secrets: []string{"s"}, Header: "x", TimestampHeader: "y"}, "timestamp_header"},
		"a visible header":    {Settings{Type: Header, Secrets: []string{"s"}, Header: "X-Auth"}, "header"},
		"no user":             {Settings{Type: Basic, Secrets: []string{"s"}}, "username"},
		"meta without token":  {Settings{Type: GitHub, Secrets: []string{"s"}, Challenge: "meta"}, "challenge_token"},
		"field without name":  {Settings{Type: GitHub, Secrets: []string{"s"}, Challenge: "field"}, "challenge_field"},
		"token without meta":  {Settings{Type: GitHub, Secrets: []string{"s"}, ChallengeToken: "t"}, "challenge_token"},
		"field without field": {Settings{Type: GitHub, Secrets: []string{"s"}, ChallengeField: "t"}, "challenge_field"},
	} {
		t.Run(name, func(t *testing.T) {
			var faults errs.Faults
			test.settings.Check(&faults)
			if err := faults.Err(); err == nil || !faults.Has("body.verification."+test.fault) {
				t.Errorf("got %v, want a fault at %s", err, test.fault)
			}
		})
	}
}

func TestMasksKeepSecrets(t *testing.T) {
	stored := Secrets{Secrets: []string{"new", "old"}, ChallengeToken: "token"}
	for name, test := range map[string]struct{ sent, want string }{
		"both stay":        {"*** ***", "new old"},
		"one goes":         {"***", "new"},
		"one more":         {"newer ***", "newer new"},
		"others":           {"a b", "a b"},
		"more than stored": {"*** *** ***", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := Settings{Type: GitHub, Secrets: strings.Fields(test.sent), Challenge: "meta", ChallengeToken: Mask}
			got, err := s.Join(stored)
			if test.want == "" {
				if errs.KindOf(err) != errs.Invalid {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if err != nil || strings.Join(got.Secrets, " ") != test.want || got.ChallengeToken != "token" {
				t.Fatalf("got %v, %v", got, err)
			}
			if strings.Join(s.Secrets, " ") != test.sent {
				t.Errorf("it changed the settings to %v", s)
			}
		})
	}
	_, err := Settings{Type: GitHub, Secrets: []string{Mask}}.Join(Secrets{})
	if errs.KindOf(err) != errs.Invalid {
		t.Errorf("without stored secrets: %v", err)
	}
}

func TestChallenges(t *testing.T) {
	slack := Settings{Type: Slack, Secrets: []string{"s"}}
	meta := Settings{Type: GitHub, Secrets: []string{"s"}, Challenge: "meta", ChallengeToken: "token"}
	field := Settings{Type: GitHub, Secrets: []string{"s"}, Challenge: "field", ChallengeField: "echo"}
	for name, test := range map[string]struct {
		settings           Settings
		method, path, body string
		want               string
		ok                 bool
	}{
		"slack":           {slack, "POST", "/", `{"type": "url_verification", "challenge": "abc"}`, "abc", true},
		"slack event":     {slack, "POST", "/", `{"type": "event_callback", "challenge": "abc"}`, "", false},
		"slack form":      {slack, "POST", "/", slackBody, "", false},
		"meta":            {meta, "GET", "/?hub.mode=subscribe&hub.challenge=115&hub.verify_token=token", "", "115", true},
		"meta event":      {meta, "POST", "/?hub.mode=subscribe&hub.challenge=115", "", "", false},
		"field in query":  {field, "GET", "/?echo=abc", "", "abc", true},
		"field in body":   {field, "POST", "/", `{"echo": "abc"}`, "abc", true},
		"no text":         {field, "POST", "/", `{"echo": {"a": 1}}`, "", false},
		"no field":        {field, "POST", "/", `{"a": {"echo": "b"}}`, "", false},
		"body is large":   {field, "POST", "/", `{"echo": "abc", "more": "` + strings.Repeat("x", 20<<10) + `"}`, "", false},
		"no such setting": {Settings{Type: GitHub, Secrets: []string{"s"}}, "GET", "/?echo=abc", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader(test.body))
			got, ok := verifier(t, test.settings).Challenge(r, []byte(test.body))
			if got != test.want || ok != test.ok {
				t.Errorf("got %q, %v", got, ok)
			}
		})
	}
}

// TestMetaChallengeNeedsItsToken: only that request has a token in place of a signature.
func TestMetaChallengeNeedsItsToken(t *testing.T) {
	v := verifier(t, Settings{Type: GitHub, Secrets: []string{"s"}, Challenge: "meta", ChallengeToken: "token"})
	for target, want := range map[string]Reason{
		"/?hub.mode=subscribe&hub.verify_token=token":   "",
		"/?hub.mode=subscribe&hub.verify_token=toke":    WrongToken,
		"/?hub.mode=subscribe":                          WrongToken,
		"/?hub.mode=unsubscribe&hub.verify_token=token": MissingSignature,
		"/?hub.verify_token=token":                      MissingSignature,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", target, nil)
		if got := v.Verify(r, nil, time.Now()); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/?hub.mode=subscribe&hub.verify_token=token", nil)
	if got := v.Verify(r, nil, time.Now()); got != MissingSignature {
		t.Errorf("a POST with the token: got %q", got)
	}
}

func BenchmarkVerify(b *testing.B) {
	body := []byte(strings.Repeat("x", 2<<10))
	mac := hmac.New(sha256.New, []byte("s"))
	mac.Write(body)
	v := verifier(b, Settings{Type: GitHub, Secrets: []string{"s"}})
	r := httptest.NewRequestWithContext(b.Context(), "POST", "/", nil)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	for b.Loop() {
		if v.Verify(r, body, time.Time{}) != "" {
			b.Fatal("rejected")
		}
	}
}
