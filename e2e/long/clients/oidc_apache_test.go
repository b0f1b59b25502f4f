package clients

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

const apacheModules = "/usr/lib/apache2/modules"

// apacheConfig protects one directory. The page there shows claims of the user; it is in HTML with
// server-side includes.
var apacheConfig = template.Must(template.New("apache").Parse(`
ServerRoot "{{.Dir}}"
ServerName 127.0.0.1
Listen {{.Address}}
PidFile "{{.Dir}}/pid"
DefaultRuntimeDir "{{.Dir}}"
ErrorLog "{{.Dir}}/error.log"
LoadModule mpm_event_module {{.Modules}}/mod_mpm_event.so
LoadModule authn_core_module {{.Modules}}/mod_authn_core.so
LoadModule authz_core_module {{.Modules}}/mod_authz_core.so
LoadModule authz_user_module {{.Modules}}/mod_authz_user.so
LoadModule include_module {{.Modules}}/mod_include.so
LoadModule auth_openidc_module {{.Modules}}/mod_auth_openidc.so
ServerLimit 1
StartServers 1
ThreadsPerChild 8
MaxRequestWorkers 8

DocumentRoot "{{.Dir}}/www"
OIDCProviderMetadataURL {{.Issuer}}/.well-known/openid-configuration
OIDCClientID {{.ClientID}}
OIDCClientSecret {{.ClientSecret}}
OIDCRedirectURI http://{{.Address}}/protected/callback
OIDCCryptoPassphrase "a passphrase of this test"
OIDCScope "openid email"
OIDCPKCEMethod S256
OIDCRemoteUserClaim email
<Location /protected>
	AuthType openid-connect
	Require valid-user
	Options +Includes
	SetOutputFilter INCLUDES
</Location>
`))

// apache is a running Apache with mod_auth_openidc, a relying party.
type apache struct {
	app installation.Application
	url string
	cmd *exec.Cmd
	dir string
}

// startApache starts Apache with a client of its own, as a user without privileges. It tries other ports if
// the one that it has chosen is taken meanwhile.
func startApache(s *installation.Steward) *apache {
	s.T.Helper()
	for range 5 {
		if a := tryApache(s); a != nil {
			return a
		}
	}
	s.T.Fatal("Apache finds no free port")
	return nil
}

// tryApache returns nil if the port is taken.
func tryApache(s *installation.Steward) *apache {
	s.T.Helper()
	dir, err := os.MkdirTemp("", "steward-apache-") // the directory of the test is for its user only
	s.Must(err)
	s.T.Cleanup(func() { s.Must(os.RemoveAll(dir)) })
	address := porttest.Address(porttest.Free(s.T))
	a := &apache{url: "http://" + address, dir: dir}
	a.app = s.NewApplication(object{
		"redirect_uris":             []string{a.url + "/protected/callback"},
		"post_logout_redirect_uris": []string{a.url + "/bye.html"},
		"backchannel_logout_uri":    a.url + "/protected/callback?logout=backchannel",
	})
	a.configure(s, address)
	a.cmd = exec.Command(apacheBinary(s), "-DFOREGROUND", "-f", filepath.Join(dir, "apache.conf"))
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Credential: unprivileged(s, dir)}
	var output strings.Builder
	a.cmd.Stdout, a.cmd.Stderr = &output, &output
	s.Must(a.cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- a.cmd.Wait() }()
	stopped := false
	s.T.Cleanup(func() {
		if !stopped {
			s.Must(a.cmd.Process.Signal(syscall.SIGTERM)) // it ends its children
			<-ended
		}
	})
	waittest.True(s.T, "Apache to listen", func() bool {
		select {
		case err := <-ended:
			stopped = true
			if !strings.Contains(output.String(), "could not bind") {
				s.T.Fatalf("Apache does not start: %v: %s%s", err, &output, a.log())
			}
			return true
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if stopped {
		return nil
	}
	return a
}

// configure writes the configuration and the pages.
func (a *apache) configure(s *installation.Steward, address string) {
	s.T.Helper()
	var config strings.Builder
	s.Must(apacheConfig.Execute(&config, map[string]string{
		"Dir": a.dir, "Address": address, "Modules": apacheModules, "Issuer": s.URL, "ClientID": a.app.ID, "ClientSecret": a.app.Secret,
	}))
	s.Must(os.MkdirAll(filepath.Join(a.dir, "www", "protected"), 0o755))
	for name, text := range map[string]string{
		"apache.conf":              config.String(),
		"www/protected/index.html": `user <!--#echo var="REMOTE_USER" -->, subject <!--#echo var="OIDC_CLAIM_sub" -->`,
		"www/bye.html":             "Goodbye",
	} {
		s.Must(os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644))
	}
}

// log returns the error log.
func (a *apache) log() string {
	text, _ := os.ReadFile(filepath.Join(a.dir, "error.log")) // missing if Apache has not started
	return string(text)
}

// apacheBinary returns the path of Apache.
func apacheBinary(s *installation.Steward) string {
	s.T.Helper()
	const binary = "/usr/sbin/apache2"
	for _, path := range []string{binary, apacheModules + "/mod_auth_openidc.so"} {
		if _, err := os.Stat(path); err != nil {
			s.T.Fatalf("mod_auth_openidc is not installed: run `make deps`: %v", err)
		}
	}
	return binary
}

// unprivileged gives a directory to the user that root runs Apache as. It returns nil for other users
// than root, who run it themselves.
func unprivileged(s *installation.Steward, dir string) *syscall.Credential {
	s.T.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	s.Must(err)
	uid, err := strconv.Atoi(nobody.Uid)
	s.Must(err)
	gid, err := strconv.Atoi(nobody.Gid)
	s.Must(err)
	s.Must(os.Chown(dir, uid, gid))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// pageRequests sends requests as browsers send them for pages. Apache does not redirect others.
type pageRequests struct{}

func (pageRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	return http.DefaultTransport.RoundTrip(r)
}

// followSites visits an address and follows redirects between sites, up to the page without one.
func followSites(b *installation.Browser, address string) installation.Page {
	b.Steward.T.Helper()
	for range 8 {
		p := b.Visit(address)
		if p.Location == "" {
			return p
		}
		address = p.Location
	}
	b.Steward.T.Fatalf("too many redirects, the last one to %s", address)
	return installation.Page{}
}

// TestApacheSignsInAndOut uses Debian's mod_auth_openidc: a protected page has the user sign in here and
// shows who that is; its logout ends the session here too and returns to the page after logout.
func TestApacheSignsInAndOut(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		a, b := startApache(s), s.NewBrowser()
		b.HTTP.Transport = pageRequests{}
		protected := a.url + "/protected/index.html"
		asked := b.Do("GET", protected, nil)
		if asked.Status != http.StatusFound || !strings.HasPrefix(asked.Location, s.URL+"/authorize?") {
			t.Fatalf("Apache answers %d with a redirect to %q: %s", asked.Status, asked.Location, a.log())
		}
		shown := followSites(b, protected)
		if shown.Status != http.StatusOK || !strings.HasPrefix(shown.Body, "user "+installation.AdminEmail+", subject usr_") {
			t.Fatalf("the page shows %d: %s\n%s", shown.Status, shown.Body, a.log())
		}
		if again := b.Do("GET", protected, nil); again.Body != shown.Body {
			t.Errorf("the second visit shows %d: %s", again.Status, again.Body)
		}

		logout := b.Do("GET", a.url+"/protected/callback?logout="+url.QueryEscape(a.url+"/bye.html"), nil)
		end, err := url.Parse(logout.Location)
		s.Must(err)
		if end.Path != "/end_session" || end.Query().Get("id_token_hint") == "" {
			t.Fatalf("Apache's logout leads to %q: %s", logout.Location, a.log())
		}
		back := b.Do("GET", logout.Location, nil) // with the ID token nobody is asked
		if back.Status != http.StatusSeeOther || back.Location != a.url+"/bye.html" {
			t.Fatalf("logout answers %d with a redirect to %q: %s", back.Status, back.Location, back.Body)
		}
		if bye := b.Do("GET", back.Location, nil); bye.Body != "Goodbye" {
			t.Errorf("after logout: %d: %s", bye.Status, bye.Body)
		}

		// Both sessions are over: Apache asks, and so does Steward.
		asked = b.Do("GET", protected, nil)
		if !strings.HasPrefix(asked.Location, s.URL+"/authorize?") {
			t.Errorf("after logout Apache answers %d: %s", asked.Status, asked.Body)
		}
		p := s.NewRelyingParty(a.app, "openid")
		p.Config.RedirectURL = a.url + "/protected/callback"
		silent := b.Do("GET", p.Config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none")), nil)
		if !strings.Contains(silent.Location, "error=login_required") {
			t.Errorf("the session has not ended: %d, redirect to %q", silent.Status, silent.Location)
		}
	})
}

// TestApacheIsSignedOutByBackChannel signs out on the account page, in a browser that never returns to Apache before
// that has got its logout token.
func TestApacheIsSignedOutByBackChannel(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		a, b := startApache(s), s.NewBrowser()
		b.HTTP.Transport = pageRequests{}
		protected := a.url + "/protected/index.html"
		if shown := followSites(b, protected); !strings.HasPrefix(shown.Body, "user "+installation.AdminEmail) {
			t.Fatalf("the page shows %d: %s\n%s", shown.Status, shown.Body, a.log())
		}
		asks := b.Do("GET", s.URL+"/end_session", nil)
		if out := b.Submit(asks, nil); !strings.Contains(out.Body, "You are signed out") {
			t.Fatalf("the sign-out shows %d: %s", out.Status, out.Body)
		}
		waittest.True(t, "Apache to end the session", func() bool {
			return strings.HasPrefix(b.Do("GET", protected, nil).Location, s.URL+"/authorize?")
		})
	})
}
