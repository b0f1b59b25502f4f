package installation

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"steward/internal/certificate"
	"steward/internal/db"
	"steward/internal/seal"
)

// Secret is a value that must not appear in logs, in the database, or anywhere else that nobody asked for
// it.
type Secret struct{ Name, Value string }

// MasterKey is PrepareSecrets's master key in hex.
const MasterKey = "8f1c5a0e7b3d49f2a6c8e0b1d2f3a4958f1c5a0e7b3d49f2a6c8e0b1d2f3a495"

const (
	smtpPassword     = "planted-smtp-password"
	headerCredential = "planted-destination-header"
	urlToken         = "planted-token-in-a-query"
	senderCredential = "planted-sender-credential"
	upstreamSecret   = "planted-upstream-secret"
	threadData       = "planted-user-data-of-a-thread"
	sessionData      = "planted-user-data-of-a-session"
	postgresPassword = "planted-postgres-password"
	redisPassword    = "planted-redis-password"
)

// PrepareSecrets returns an installation, not started yet, with secrets in its settings. Nothing listens
// at its mail server's address, so mail stays in the queue.
func PrepareSecrets(t testing.TB, database string, args ...string) *Steward {
	s := Prepare(t, database, args...)
	s.Env = []string{
		"STEWARD_MASTER_KEY=" + MasterKey, "STEWARD_ADMIN_EMAIL=" + AdminEmail, "STEWARD_ADMIN_PASSWORD=" + AdminPassword,
		"STEWARD_SMTP_URL=smtp://steward:" + smtpPassword + "@127.0.0.1:9", "STEWARD_MAIL_FROM=steward@example.com",
		"STEWARD_REGISTRATION=token",
	}
	return s
}

// PlantRegion adds a region to the settings, before the installation starts, and returns its engines'
// passwords. Nothing listens at their addresses.
func (s *Steward) PlantRegion() []Secret {
	s.T.Helper()
	dir := s.T.TempDir()
	stores := filepath.Join(dir, "redis-url")
	s.Must(os.WriteFile(stores, []byte("redis://:"+redisPassword+"@127.0.0.1:9/0"), 0o600))
	config := filepath.Join(dir, "steward.yaml")
	text := fmt.Sprintf("regions:\n- {region: local}\n- {region: far, db: %q, kv_file: %q}\n",
		"postgres://steward:"+postgresPassword+"@127.0.0.1:9/postgres", stores)
	s.Must(os.WriteFile(config, []byte(text), 0o600))
	s.Env = append(s.Env, "STEWARD_CONFIG="+config)
	return []Secret{{"password of PostgreSQL", postgresPassword}, {"password of Redis", redisPassword}}
}

// PlantSecrets makes the installation store every kind of secret, and returns them with the ones in its
// settings. It restarts the installation.
func (s *Steward) PlantSecrets() []Secret {
	s.T.Helper()
	master, err := hex.DecodeString(MasterKey)
	s.Must(err)
	all := []Secret{
		{"root key", s.Key},
		{"master key", string(master)},
		{"master key in hex", MasterKey},
		{"password of the owner", AdminPassword},
		{"password of the mail server", smtpPassword},
	}
	all = append(all, s.plantCertificate(master)...)
	all = append(all, s.plantAccounts()...)
	all = append(all, s.plantProvider()...)
	all = append(all, s.plantWebhook()...)
	all = append(all, s.plantResources()...)
	return append(all, s.plantRuntime()...)
}

// plantCertificate stores an account's and a certificate's private keys, as the ACME client does.
func (s *Steward) plantCertificate(master []byte) []Secret {
	s.T.Helper()
	ring, err := seal.NewRing(master)
	s.Must(err)
	all := []Secret{
		{"key of an ACME account", "planted-key-of-an-account"},
		{"key of a certificate", "planted-key-of-a-certificate"},
	}
	s.Offline(func(ctx context.Context, d *db.DB) {
		store := &certificate.Store{DB: d, Ring: ring, Now: time.Now}
		for i, name := range []string{"acme/planted/planted.key", "certificates/planted/planted.key"} {
			s.Must(store.Store(ctx, name, []byte(all[i].Value)))
		}
	})
	return all
}

// plantAccounts makes keys, links and a second factor.
func (s *Steward) plantAccounts() []Secret {
	s.T.Helper()
	invited := s.Call("POST", "/oidc/org/members", map[string]any{"email": "grace@example.com", "role": "viewer"}).Want(201)
	b, userID := s.Invite("alan@example.com", "member")
	reset := s.Call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).Want(200)
	key := s.Call("POST", "/cli/apikey", map[string]any{"name": "planted"}, "Idempotency-Key", "planted").Want(201)
	for _, link := range []string{invited.Text("link"), reset.Text("link")} {
		s.NewBrowser().Do("GET", link, nil)
	}
	all := []Secret{
		{"password of a member", b.Password},
		{"link of an invitation", lastPart(invited.Text("link"))},
		{"link to reset a password", lastPart(reset.Text("link"))},
		{"API key", key.Text("value")},
	}
	b.EnterConsole()
	all = append(all, s.SetUpAuthenticator(b)...)
	for _, path := range []string{"/", "/console/"} {
		address, err := url.Parse(s.URL + path)
		s.Must(err)
		for _, cookie := range b.HTTP.Jar.Cookies(address) {
			all = append(all, Secret{"cookie " + cookie.Name, cookie.Value})
		}
	}
	return all
}

// lastPart returns the token at the end of a link.
func lastPart(link string) string { return link[strings.LastIndexAny(link, "/=#")+1:] }

var (
	appSecret     = regexp.MustCompile(`aria-labelledby="key">([^<]+)<`)
	recoveryCodes = regexp.MustCompile(`<li>([a-z0-9-]+)</li>`)
)

// SetUpAuthenticator sets up an authenticator app for the signed-in user. It returns the app's key and
// the recovery codes.
func (s *Steward) SetUpAuthenticator(b *Browser) []Secret {
	s.T.Helper()
	p := b.Do("GET", s.URL+"/account/authenticator", nil)
	m := appSecret.FindStringSubmatch(p.Body)
	if m == nil {
		s.T.Fatalf("no authenticator app can be set up (%d, %s): %s", p.Status, p.Location, p.Body)
	}
	code, err := totp.GenerateCode(m[1], time.Now())
	s.Must(err)
	p = b.Submit(p, map[string]string{"code": code})
	all := []Secret{{"key of an authenticator app", m[1]}}
	codes := recoveryCodes.FindAllStringSubmatch(p.Body, -1)
	if len(codes) == 0 {
		s.T.Fatalf("the app was not set up (%d): %s", p.Status, p.Body)
	}
	for _, code := range codes {
		all = append(all, Secret{"recovery code", code[1]})
	}
	return all
}

// plantProvider makes a client with tokens, and an upstream.
func (s *Steward) plantProvider() []Secret {
	s.T.Helper()
	a := s.NewApplication(map[string]any{"grant_types": EveryGrant, "scopes": []string{"openid", "offline_access", "webhook:read"}})
	token, _ := s.NewRelyingParty(a, "openid", "offline_access", "webhook:read").SignIn(s.NewBrowser())
	upstream := s.Call("POST", "/oidc/upstream", map[string]any{
		"name": "Planted", "issuer": "http://127.0.0.1:9", "client_id": "steward", "client_secret": upstreamSecret,
	}).Want(201)
	s.NewBrowser().Do("GET", upstream.Text("sign_in_url"), nil) // nothing listens at the issuer's address
	registration := s.Call("POST", "/oidc/registration-token", map[string]any{"name": "planted"}).Want(201).Text("token")
	registered := s.As(registration).Call("POST", "/register", map[string]any{
		"redirect_uris": []string{RedirectURI}, "client_name": "Planted", "token_endpoint_auth_method": "client_secret_basic",
	}).Want(201)
	return []Secret{
		{"registration token", registration},
		{"registration access token", registered.Text("registration_access_token")},
		{"secret of a client that registered itself", registered.Text("client_secret")},
		{"client secret", a.Secret},
		{"access token", token.AccessToken},
		{"refresh token", token.RefreshToken},
		{"client secret of an upstream", upstreamSecret},
	}
}

// plantWebhook creates a destination where nothing listens, and sends it an event.
func (s *Steward) plantWebhook() []Secret {
	s.T.Helper()
	h := s.NewHook("planted")
	_, secret := s.NewDestination(h, "http://127.0.0.1:9/?token="+urlToken, "headers", map[string]string{"X-Planted": headerCredential})
	s.Ingest(h, "{}", "X-Api-Key", senderCredential)
	return []Secret{
		{"token of a webhook", lastPart(h.Path)},
		{"secret of a destination", secret},
		{"header of a destination", headerCredential},
		{"query of a destination", urlToken},
		{"header of a receipt", senderCredential},
	}
}

func (s *Steward) plantResources() []Secret {
	s.T.Helper()
	kv := s.NewKVStore("planted")
	address, err := url.Parse(kv.Address)
	s.Must(err)
	password, _ := address.User.Password()
	return []Secret{
		{"secret key of a bucket", s.NewBucket("planted").Secret},
		{"token of a database", s.NewDatabase("planted").Token},
		{"password of a key-value store", password},
	}
}

func (s *Steward) plantRuntime() []Secret {
	s.T.Helper()
	s.Call("PUT", "/thread/planted", map[string]any{"project_id": "p1", "user_data": `{"k":"` + threadData + `"}`}).Want(200)
	s.Call("POST", "/session", SessionRequest(s, "planted", "planted", "p1")).Want(201)
	s.Call("PUT", "/session", map[string]any{"id": "planted", "threadId": "planted", "statusCode": 200, "agentIds": []string{}, "userData": `{"k":"` + sessionData + `"}`}).Want(200)
	return []Secret{{"user data of a thread", threadData}, {"user data of a session", sessionData}}
}

// FindSecrets returns the names of the secrets that a text contains, plain or encoded.
func FindSecrets(text []byte, secrets []Secret) []string {
	var found []string
	for _, secret := range secrets {
		for _, form := range forms(secret.Value) {
			if bytes.Contains(text, []byte(form)) {
				found = append(found, secret.Name)
				break
			}
		}
	}
	return found
}

func forms(value string) []string {
	quoted, err := json.Marshal(value)
	if err != nil {
		panic(err) // every string can be encoded
	}
	all := []string{value, hex.EncodeToString([]byte(value)), url.QueryEscape(value), string(quoted[1 : len(quoted)-1])}
	for offset := range 3 {
		all = append(all, within(base64.RawStdEncoding, value, offset), within(base64.RawURLEncoding, value, offset))
	}
	return all
}

// within returns the part of value's encoding that does not depend on its surroundings, if the value
// begins at offset bytes, modulo 3. A character encodes 6 bits, so the characters at the edges mix in
// neighboring bytes.
func within(encoding *base64.Encoding, value string, offset int) string {
	encoded := encoding.EncodeToString(append(make([]byte, offset), value...))
	return encoded[(offset*8+5)/6 : (offset+len(value))*8/6]
}

// Metrics returns the output of the metrics listener.
func (s *Steward) Metrics() []byte {
	s.T.Helper()
	res, err := http.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
	s.Must(err)
	got, err := ReadResponse(s.T, res)
	s.Must(err)
	return got.Want(200).Body
}
