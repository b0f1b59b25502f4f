//go:build bench

package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
)

const (
	benchEmail    = "ada@example.com"
	benchPassword = "correct horse battery"
	benchReturn   = "http://127.0.0.1:9/callback"
)

// rp is an application with a signed-in user.
type rp struct {
	t      *testing.T
	s      *process.Steward
	on     server
	id     string
	secret string
	user   *http.Client
}

func startProvider(t *testing.T, database string) *rp {
	s := process.New(t, database)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + benchEmail, "STEWARD_ADMIN_PASSWORD=" + benchPassword}
	s.Start()
	jar, _ := cookiejar.New(nil)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r := &rp{t: t, s: s, on: server{address: strings.TrimPrefix(s.URL, "http://"), pid: s.Cmd.Process.Pid}}
	r.user = &http.Client{Jar: jar, CheckRedirect: stay, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var made struct {
		Client struct{ ID string }
		Secret string `json:"client_secret"`
	}
	req, _ := http.NewRequest("POST", s.URL+"/oidc/clients", bytes.NewReader(newClient))
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	s.Must(json.Unmarshal(r.do(client, req), &made))
	r.id, r.secret = made.Client.ID, made.Secret
	return r
}

var newClient = []byte(`{"name": "Bench", "description": "Bench", "homepage_url": "https://example.com",
	"redirect_uris": ["` + benchReturn + `"], "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
	"scopes": ["openid", "email", "offline_access", "webhook:read"]}`)

func (r *rp) do(c *http.Client, req *http.Request) []byte {
	res, err := c.Do(req)
	if err != nil {
		r.t.Error(err)
		return nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode >= 400 {
		r.t.Errorf("%s %s: %d %s", req.Method, req.URL.Path, res.StatusCode, body)
	}
	if to := res.Header.Get("Location"); to != "" {
		return []byte(to)
	}
	return body
}

// form is a request to an endpoint of the protocol, as bytes.
func (r *rp) form(path string, v url.Values) []byte {
	body := v.Encode()
	basic := base64.StdEncoding.EncodeToString([]byte(r.id + ":" + r.secret))
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: steward\r\nAuthorization: Basic %s\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, basic, len(body), body)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// code gets a code as a browser would; the first time through the pages.
func (r *rp) code() string {
	address := r.s.URL + "/authorize?" + url.Values{
		"client_id": {r.id}, "redirect_uri": {benchReturn}, "response_type": {"code"}, "scope": {"openid email offline_access"},
	}.Encode()
	req, _ := http.NewRequest("GET", address, nil)
	got := string(r.do(r.user, req))
	for !strings.HasPrefix(got, benchReturn) {
		if r.t.Failed() {
			return ""
		}
		if strings.HasPrefix(got, "/") {
			req, _ = http.NewRequest("GET", r.s.URL+got, nil)
			got = string(r.do(r.user, req))
			continue
		}
		v := url.Values{"email": {benchEmail}, "password": {benchPassword}, "action": {"approve"}, "scope": {"openid", "email", "offline_access"}}
		for _, m := range hidden.FindAllStringSubmatch(got, -1) {
			v.Set(m[1], html.UnescapeString(m[2]))
		}
		v["scope"] = []string{"openid", "email", "offline_access"}
		path := "/sign-in"
		if strings.Contains(got, `action="/consent"`) {
			path = "/consent"
		}
		req, _ = http.NewRequest("POST", r.s.URL+path, strings.NewReader(v.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		got = string(r.do(r.user, req))
	}
	u, _ := url.Parse(got)
	return u.Query().Get("code")
}

// redeem turns a code into tokens.
func (r *rp) redeem(code string) (access string) {
	v := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {benchReturn}}
	req, _ := http.NewRequest("POST", r.s.URL+"/oauth/token", strings.NewReader(v.Encode()))
	req.SetBasicAuth(r.id, r.secret)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var tokens struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(r.do(r.user, req), &tokens); err != nil {
		r.t.Error(err)
	}
	return tokens.Access
}

// flows runs whole code flows, of a user who has agreed before: GET /authorize and POST /oauth/token.
func (r *rp) flows(n int, lasts time.Duration) result {
	var done atomic.Int64
	var users sync.WaitGroup
	before, start := process.CPUTime(r.t, r.on.pid), time.Now()
	for range n {
		users.Go(func() {
			for time.Since(start) < lasts && !r.t.Failed() {
				r.redeem(r.code())
				done.Add(1)
			}
		})
	}
	users.Wait()
	count := float64(max(1, done.Load()))
	return result{rate: count / time.Since(start).Seconds(), cpu: (process.CPUTime(r.t, r.on.pid) - before).Seconds() * 1000 / count}
}

// TestProvider measures the provider's endpoints against the reference handler, with the CPU time that each answer takes.
func TestProvider(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		r := startProvider(t, database)
		access := r.redeem(r.code())
		machine := r.form("/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		for _, one := range []struct {
			name string
			most float64 // CPU ms
			send []byte
		}{
			{"client_credentials", 0.5, machine},
			{"introspection", 0.3, r.form("/introspect", url.Values{"token": {access}})},
			{"userinfo", 0.3, request("GET", "/userinfo", access, nil)},
			{"create client", 0, request("POST", "/oidc/clients", r.s.Key, newClient)},
		} {
			for _, conns := range []int{8, 64} {
				ratio, empty, got := versus(3,
					func() result { return load(t, ref, conns, span, always(request("GET", "/", "", nil))) },
					func() result { return load(t, r.on, conns, span, always(one.send)) })
				name := fmt.Sprintf("%s: %s, %d connections", database, one.name, conns)
				if one.most == 0 {
					fmt.Printf("%-58s %8.3f  %.0f/s of %.0f/s, CPU %.3f ms\n", name, ratio, got.rate, empty.rate, got.cpu)
					continue
				}
				report(t, name+" (CPU ms)", got.cpu, one.most, false, "%.0f/s of %.0f/s (%.2f), empty %.3f ms", got.rate, empty.rate, ratio, empty.cpu)
			}
		}
		for _, conns := range []int{8, 64} {
			ratio, empty, got := versus(1,
				func() result { return load(t, ref, conns, span, always(request("GET", "/", "", nil))) },
				func() result { return r.flows(conns, span) })
			name := fmt.Sprintf("%s: code flow, %d connections", database, conns)
			fmt.Printf("%-58s %8.3f  %.0f/s of %.0f/s, CPU %.3f ms\n", name, ratio, got.rate, empty.rate, got.cpu)
		}
	})
}

// TestRevocation measures what it takes to revoke all users of a client with a million tokens, and to delete it.
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
			report(t, fmt.Sprintf("%s: revoke %d tokens by DELETE /oidc/clients/{id}%s, ms", database, rows, verb),
				millis(time.Since(start)), 50, false, "")
		}
	})
}

// grants gives a client users with a consent and a token each.
func grants(tx *db.Tx, orgID, clientID string, from, to int) error {
	const numbers = `WITH RECURSIVE n(i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2) `
	_, err1 := tx.Exec(numbers+`INSERT INTO oidc_consents (org_id, client_id, user_id, scopes, epoch, client_epoch, created_at, updated_at)
		SELECT $3, $4, 'usr_' || i, '["openid"]', i + 1, 1, i, i FROM n`, from, to, orgID, clientID)
	_, err2 := tx.Exec(numbers+`INSERT INTO oidc_grants (id, org_id, client_id, user_id, scopes, client_epoch, consent_epoch, auth_time, salt,
		generation, created_at, expires_at) SELECT $4 || i, $3, $4, 'usr_' || i, 'openid', 1, i + 1, i, $5, 1, i, $6 FROM n`,
		from, to, orgID, clientID, []byte("salt"), time.Now().Add(time.Hour).UnixMicro())
	_, err3 := tx.Exec(`UPDATE oidc_client_states SET user_count = user_count + $3 WHERE org_id = $1 AND client_id = $2`,
		orgID, clientID, to-from)
	return errors.Join(err1, err2, err3)
}
