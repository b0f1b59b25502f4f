package e2e

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
	app application
	url string
	cmd *exec.Cmd
	dir string
}

// apache starts Apache with a client of its own, as a user without privileges. It tries other ports if
// the one that it has chosen is taken meanwhile.
func (s *steward) apache() *apache {
	s.t.Helper()
	for range 5 {
		if a := s.tryApache(); a != nil {
			return a
		}
	}
	s.t.Fatal("Apache finds no free port")
	return nil
}

// tryApache returns nil if the port is taken.
func (s *steward) tryApache() *apache {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "steward-apache-") // the directory of the test is for its user only
	s.must(err)
	s.t.Cleanup(func() { s.must(os.RemoveAll(dir)) })
	address := porttest.Address(porttest.Free(s.t))
	a := &apache{url: "http://" + address, dir: dir}
	a.app = s.application(object{
		"redirect_uris":             []string{a.url + "/protected/callback"},
		"post_logout_redirect_uris": []string{a.url + "/bye.html"},
	})
	a.configure(s, address)
	a.cmd = exec.Command(apacheBinary(s), "-DFOREGROUND", "-f", filepath.Join(dir, "apache.conf"))
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Credential: unprivileged(s, dir)}
	var output strings.Builder
	a.cmd.Stdout, a.cmd.Stderr = &output, &output
	s.must(a.cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- a.cmd.Wait() }()
	stopped := false
	s.t.Cleanup(func() {
		if !stopped {
			s.must(a.cmd.Process.Signal(syscall.SIGTERM)) // it ends its children
			<-ended
		}
	})
	waittest.True(s.t, "Apache to listen", func() bool {
		select {
		case err := <-ended:
			stopped = true
			if !strings.Contains(output.String(), "could not bind") {
				s.t.Fatalf("Apache does not start: %v: %s%s", err, &output, a.log())
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
func (a *apache) configure(s *steward, address string) {
	s.t.Helper()
	var config strings.Builder
	s.must(apacheConfig.Execute(&config, map[string]string{
		"Dir": a.dir, "Address": address, "Modules": apacheModules, "Issuer": s.URL, "ClientID": a.app.id, "ClientSecret": a.app.secret,
	}))
	s.must(os.MkdirAll(filepath.Join(a.dir, "www", "protected"), 0o755))
	for name, text := range map[string]string{
		"apache.conf":              config.String(),
		"www/protected/index.html": `user <!--#echo var="REMOTE_USER" -->, subject <!--#echo var="OIDC_CLAIM_sub" -->`,
		"www/bye.html":             "Goodbye",
	} {
		s.must(os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644))
	}
}

// log returns the error log.
func (a *apache) log() string {
	text, _ := os.ReadFile(filepath.Join(a.dir, "error.log")) // missing if Apache has not started
	return string(text)
}

// apacheBinary returns the path of Apache.
func apacheBinary(s *steward) string {
	s.t.Helper()
	const binary = "/usr/sbin/apache2"
	for _, path := range []string{binary, apacheModules + "/mod_auth_openidc.so"} {
		if _, err := os.Stat(path); err != nil {
			s.t.Fatalf("mod_auth_openidc is not installed: run `make deps`: %v", err)
		}
	}
	return binary
}

// unprivileged gives a directory to the user that root runs Apache as. It returns nil for other users
// than root, who run it themselves.
func unprivileged(s *steward, dir string) *syscall.Credential {
	s.t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	s.must(err)
	uid, err := strconv.Atoi(nobody.Uid)
	s.must(err)
	gid, err := strconv.Atoi(nobody.Gid)
	s.must(err)
	s.must(os.Chown(dir, uid, gid))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// pageRequests sends requests as browsers send them for pages. Apache does not redirect others.
type pageRequests struct{}

func (pageRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	return http.DefaultTransport.RoundTrip(r)
}

// travel visits an address and follows redirects between sites, up to the page without one.
func (b *browser) travel(address string) page {
	b.s.t.Helper()
	for range 8 {
		p := b.visit(address)
		if p.location == "" {
			return p
		}
		address = p.location
	}
	b.s.t.Fatalf("too many redirects, the last one to %s", address)
	return page{}
}

// TestApacheSignsInAndOut uses Debian's mod_auth_openidc: a protected page has the user sign in here and
// shows who that is; its logout ends the session here too and returns to the page after logout.
func TestApacheSignsInAndOut(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		a, b := s.apache(), s.browser()
		b.http.Transport = pageRequests{}
		protected := a.url + "/protected/index.html"
		asked := b.do("GET", protected, nil)
		if asked.status != http.StatusFound || !strings.HasPrefix(asked.location, s.URL+"/authorize?") {
			t.Fatalf("Apache answers %d with a redirect to %q: %s", asked.status, asked.location, a.log())
		}
		shown := b.travel(protected)
		if shown.status != http.StatusOK || !strings.HasPrefix(shown.body, "user "+adminEmail+", subject usr_") {
			t.Fatalf("the page shows %d: %s\n%s", shown.status, shown.body, a.log())
		}
		if again := b.do("GET", protected, nil); again.body != shown.body {
			t.Errorf("the second visit shows %d: %s", again.status, again.body)
		}

		logout := b.do("GET", a.url+"/protected/callback?logout="+url.QueryEscape(a.url+"/bye.html"), nil)
		end, err := url.Parse(logout.location)
		s.must(err)
		if end.Path != "/end_session" || end.Query().Get("id_token_hint") == "" {
			t.Fatalf("Apache's logout leads to %q: %s", logout.location, a.log())
		}
		back := b.do("GET", logout.location, nil) // with the ID token nobody is asked
		if back.status != http.StatusSeeOther || back.location != a.url+"/bye.html" {
			t.Fatalf("logout answers %d with a redirect to %q: %s", back.status, back.location, back.body)
		}
		if bye := b.do("GET", back.location, nil); bye.body != "Goodbye" {
			t.Errorf("after logout: %d: %s", bye.status, bye.body)
		}

		// Both sessions are over: Apache asks, and so does Steward.
		asked = b.do("GET", protected, nil)
		if !strings.HasPrefix(asked.location, s.URL+"/authorize?") {
			t.Errorf("after logout Apache answers %d: %s", asked.status, asked.body)
		}
		p := s.relyingParty(a.app, "openid")
		p.config.RedirectURL = a.url + "/protected/callback"
		silent := b.do("GET", p.config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none")), nil)
		if !strings.Contains(silent.location, "error=login_required") {
			t.Errorf("the session has not ended: %d, redirect to %q", silent.status, silent.location)
		}
	})
}
