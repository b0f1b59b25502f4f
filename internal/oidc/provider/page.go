package provider

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"steward/internal/oidc"
)

//go:embed page/*.html page/style.css
var pageFiles embed.FS

var (
	templates = template.Must(template.New("").ParseFS(pageFiles, "page/*.html"))
	style     = func() string {
		text, err := pageFiles.ReadFile("page/style.css")
		if err != nil {
			panic(err) // it is embedded
		}
		return string(text)
	}()
	// styleHash lets the page's own style through, and nothing else.
	styleHash = func() string {
		sum := sha256.Sum256([]byte(style))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}()
)

// page is what every page has.
type page struct {
	CSRF string
	// Problem is told above the form.
	Problem string
}

// Style is the whole style sheet; it stands in the page, so that no second request is needed.
func (*page) Style() template.CSS { return template.CSS(style) }

// The pages, as their templates see them.
type (
	signInView struct {
		page
		Flow  string
		Email string
		// Client is the application that asks; empty when the user wants one of our own pages.
		Client string
	}
	consentView struct {
		page
		Flow, Action string
		Client       string
		Initial      string
		Homepage     string
		Description  string
		Email        string
		Scopes       []scopeView
		Device       bool
		UserCode     string
	}
	scopeView struct {
		oidc.Scope
	}
	signOutView struct {
		page
		Client, Email, Query string
	}
	inviteView struct {
		page
		Email, Org, Path string
	}
	accountView struct {
		page
		Email    string
		Done     string
		Sessions []sessionView
	}
	sessionView struct {
		ID, Agent, Address, Since, Seen string
		Current                         bool
	}
	messageView struct {
		page
		Title, Text string
	}
)

// page makes a handler of a page; what goes wrong is shown on a page, never redirected.
func (p *Provider) page(next func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := next(w, r); err != nil {
			p.showFault(w, r, err)
		}
	}
}

// form makes a handler of a form that only a page of ours may send.
func (p *Provider) form(next func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return p.page(func(w http.ResponseWriter, r *http.Request) error {
		if f := readForm(w, r); f != nil {
			return f
		}
		if err := p.formOK(r); err != nil {
			return &fault{http.StatusForbidden, accessDenied, err.Error()}
		}
		return next(w, r)
	})
}

func (p *Provider) showFault(w http.ResponseWriter, r *http.Request, err error) {
	f := asFault(r, err)
	title := "This did not work"
	if f.status >= http.StatusInternalServerError {
		title = "Something went wrong on our side"
	}
	if f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	p.say(w, r, f.status, title, sentence(f.text))
}

// sentence makes the text of a fault one.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// say shows a page with a message.
func (p *Provider) say(w http.ResponseWriter, r *http.Request, status int, title, text string) error {
	v := messageView{Title: title, Text: text}
	return p.render(w, r, status, "message", &v.page, &v)
}

func (p *Provider) showSignIn(w http.ResponseWriter, r *http.Request, f *flow, v signInView) error {
	status := http.StatusOK
	if v.Problem != "" {
		status = http.StatusBadRequest
	}
	v.Flow = p.sealFlow(f)
	if f.Request != nil {
		c, err := p.asking(r.Context(), url.Values{"client_id": {f.Request.ClientID}})
		if err != nil {
			return err
		}
		v.Client = c.Name
	}
	return p.render(w, r, status, "signin", &v.page, &v)
}

// showConsent shows what a client asks for, in the words of the catalogue.
func (p *Provider) showConsent(w http.ResponseWriter, r *http.Request, v consentView, c *client, user *User, asked []string) error {
	v.Client, v.Description, v.Email = c.Name, c.Description, user.Email
	v.Initial = strings.ToUpper(string([]rune(strings.TrimSpace(c.Name) + "?")[0]))
	if u, err := url.Parse(c.HomepageURL); err == nil {
		v.Homepage = u.Host
	}
	for _, s := range oidc.Scopes() {
		for _, name := range asked {
			if s.Name == name {
				v.Scopes = append(v.Scopes, scopeView{s})
			}
		}
	}
	return p.render(w, r, http.StatusOK, "consent", &v.page, &v)
}

// tooMany shows the sign-in page to somebody who tried too often.
func (p *Provider) tooMany(w http.ResponseWriter, r *http.Request, f *flow, v signInView, wait time.Duration) error {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	v.Problem = "Too many attempts. Wait a minute, then try again."
	v.Flow = p.sealFlow(f)
	return p.render(w, r, http.StatusTooManyRequests, "signin", &v.page, &v)
}

// render writes a page, with the headers that keep it from being framed, cached, or made to load anything. There is no form-action in the
// policy, because browsers apply it to the redirect that follows a form, which here goes to any application.
func (p *Provider) render(w http.ResponseWriter, r *http.Request, status int, name string, base *page, data any) error {
	base.CSRF = p.csrfToken(w, r)
	if data == nil {
		data = base
	}
	var buf bytes.Buffer
	if err := templates.ExecuteTemplate(&buf, name+".html", data); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src "+styleHash+"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	w.Write(buf.Bytes())
	return nil
}
