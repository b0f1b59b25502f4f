//go:build bench

package bench

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
)

const (
	benchEmail    = "ada@example.com"
	benchPassword = "correct horse battery"
	benchRedirect = "http://127.0.0.1:9/callback"
)

// relyingParty is a client of an installation, with a user.
type relyingParty struct {
	*installation
	id     string
	secret string
	user   *http.Client // the user's browser
}

func startProvider(t *testing.T, database string) *relyingParty {
	t.Helper()
	s := process.New(t, database)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + benchEmail, "STEWARD_ADMIN_PASSWORD=" + benchPassword}
	r := &relyingParty{installation: begin(t, s)}
	jar, err := cookiejar.New(nil)
	r.Must(err)
	r.user = &http.Client{
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		Timeout:       client.Timeout,
	}
	var made struct {
		Client struct{ ID string }
		Secret string `json:"client_secret"`
	}
	r.call("POST", "/oidc/clients", json.RawMessage(newClient), &made)
	r.id = made.Client.ID
	r.secret = made.Secret
	return r
}

var newClient = []byte(`{"name": "Bench", "description": "Bench", "homepage_url": "https://example.com",
	"redirect_uris": ["` + benchRedirect + `"], "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
	"scopes": ["openid", "email", "offline_access", "webhook:read"]}`)

// do sends a request of the user and returns the Location of a redirect, or else the body.
func (r *relyingParty) do(method, address string, form url.Values, basic bool) (string, error) {
	req, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if basic {
		req.SetBasicAuth(r.id, r.secret)
	}
	res, err := r.user.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if res.StatusCode >= 400 {
		return "", fmt.Errorf("%s %s: %d %s", method, req.URL.Path, res.StatusCode, body)
	}
	return cmp.Or(res.Header.Get("Location"), string(body)), nil
}

// form returns the bytes of a request to an endpoint of the provider.
func (r *relyingParty) form(path string, v url.Values) []byte {
	body := v.Encode()
	basic := base64.StdEncoding.EncodeToString([]byte(r.id + ":" + r.secret))
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: steward\r\nAuthorization: Basic %s\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, basic, len(body), body)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// code returns an authorization code. The first time, the user signs in and gives consent.
func (r *relyingParty) code() (string, error) {
	got, err := r.do("GET", r.URL+"/authorize?"+url.Values{
		"client_id": {r.id}, "redirect_uri": {benchRedirect}, "response_type": {"code"},
		"scope": {"openid email offline_access"},
	}.Encode(), nil, false)
	for err == nil && !strings.HasPrefix(got, benchRedirect) {
		if strings.HasPrefix(got, "/") {
			got, err = r.do("GET", r.URL+got, nil, false)
		} else {
			got, err = r.submit(got)
		}
	}
	if err != nil {
		return "", err
	}
	u, err := url.Parse(got)
	if err != nil {
		return "", err
	}
	return u.Query().Get("code"), nil
}

// submit fills in and submits the form of the sign-in or consent page.
func (r *relyingParty) submit(page string) (string, error) {
	form := url.Values{"email": {benchEmail}, "password": {benchPassword}, "action": {"approve"}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	form["scope"] = []string{"openid", "email", "offline_access"}
	path := "/sign-in"
	if strings.Contains(page, `action="/consent"`) {
		path = "/consent"
	}
	return r.do("POST", r.URL+path, form, false)
}

// codeFlow runs a whole code flow and returns the access token.
func (r *relyingParty) codeFlow() (access string, err error) {
	code, err := r.code()
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {benchRedirect}}
	body, err := r.do("POST", r.URL+"/oauth/token", form, true)
	if err != nil {
		return "", err
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	err = json.Unmarshal([]byte(body), &tokens)
	return tokens.Access, err
}

// codeFlows runs code flows of a user who has given consent: GET /authorize and POST /oauth/token.
func (r *relyingParty) codeFlows(n int, duration time.Duration) result {
	return measure(r.t, r.server, n, func(_ int, start time.Time) (times []time.Duration, err error) {
		for time.Since(start) < duration {
			began := time.Now()
			if _, err := r.codeFlow(); err != nil {
				return times, err
			}
			times = append(times, time.Since(began))
		}
		return times, nil
	})
}

// TestProvider compares the endpoints of the provider with the reference handler, and measures the CPU
// time of a response.
func TestProvider(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		r := startProvider(t, database)
		access, err := r.codeFlow()
		r.Must(err)
		machine := r.form("/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		for _, one := range []struct {
			name  string
			limit float64 // CPU ms, 0 for none
			send  []byte
		}{
			{"client_credentials", 0.5, machine},
			{"introspection", 0.1, r.form("/introspect", url.Values{"token": {access}})},
			{"userinfo", 0.1, request("GET", "/userinfo", access, nil)},
			{"create client", 0, request("POST", "/oidc/clients", r.Key, newClient)},
		} {
			for _, conns := range []int{8, 64} {
				ratio, empty, got := compare(3,
					func() result { return load(t, ref, conns, span, always(request("GET", "/", "", nil))) },
					func() result { return load(t, r.server, conns, span, always(one.send)) })
				name := fmt.Sprintf("%s: %s, %d connections", database, one.name, conns)
				if one.limit == 0 {
					fmt.Printf("%-58s %8.3f  %.0f/s of %.0f/s, CPU %.3f ms\n", name, ratio, got.rate, empty.rate, got.cpu)
					continue
				}
				report(name+" (CPU ms)", got.cpu, atMost(one.limit),
					"%.0f/s of %.0f/s (%.2f), empty %.3f ms", got.rate, empty.rate, ratio, empty.cpu)
			}
		}
		for _, conns := range []int{8, 64} {
			ratio, empty, got := compare(1,
				func() result { return load(t, ref, conns, span, always(request("GET", "/", "", nil))) },
				func() result { return r.codeFlows(conns, span) })
			name := fmt.Sprintf("%s: code flow, %d connections", database, conns)
			fmt.Printf("%-58s %8.3f  %.0f/s of %.0f/s, CPU %.3f ms\n", name, ratio, got.rate, empty.rate, got.cpu)
		}
	})
}

// TestRevocation measures the revocation of all users of a client with BENCH_ROWS tokens, and its
// deletion.
func TestRevocation(t *testing.T) {
	rows := rowCount(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		for _, verb := range []string{"/users", ""} {
			var made struct{ Client struct{ ID string } }
			in.call("POST", "/oidc/clients", json.RawMessage(newClient), &made)
			in.fill(rows, func(tx *db.Tx, from, to int) error { return grants(tx, in.orgID, made.Client.ID, from, to) })
			in.call("GET", "/oidc/clients/"+made.Client.ID, nil, new(any))
			start := time.Now()
			in.call("DELETE", "/oidc/clients/"+made.Client.ID+verb, nil, new(any))
			report(fmt.Sprintf("%s: revoke %d tokens by DELETE /oidc/clients/{id}%s, ms", database, rows, verb),
				millis(time.Since(start)), atMost(50), "")
		}
	})
}

// grants inserts users of a client, with a consent and a token each.
func grants(tx *db.Tx, orgID, clientID string, from, to int) error {
	const numbers = `WITH RECURSIVE n(i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2) `
	_, err := tx.Exec(numbers+`INSERT INTO oidc_consents
		(org_id, client_id, user_id, scopes, declined, epoch, client_epoch, created_at, updated_at)
		SELECT $3, $4, 'usr_' || i, '["openid"]', '[]', i + 1, 1, i, i FROM n`, from, to, orgID, clientID)
	if err != nil {
		return fmt.Errorf("insert consents: %w", err)
	}
	_, err = tx.Exec(numbers+`INSERT INTO oidc_grants (id, org_id, client_id, user_id, scopes, client_epoch,
		consent_epoch, auth_time, salt, generation, created_at, expires_at)
		SELECT $4 || i, $3, $4, 'usr_' || i, 'openid', 1, i + 1, i, $5, 1, i, $6 FROM n`,
		from, to, orgID, clientID, []byte("salt"), time.Now().Add(time.Hour).UnixMicro())
	if err != nil {
		return fmt.Errorf("insert grants: %w", err)
	}
	_, err = tx.Exec(`UPDATE oidc_client_states SET user_count = user_count + $3 WHERE org_id = $1 AND client_id = $2`,
		orgID, clientID, to-from)
	if err != nil {
		return fmt.Errorf("count users: %w", err)
	}
	return nil
}
