package session_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
	"steward/internal/webhook/send"
)

// relyingParty takes logout tokens at the URI of its client.
type relyingParty struct {
	*providertest.App
	uri string
}

// newRelyingParty returns an application whose client is told about logouts.
func newRelyingParty(f *providertest.Fixture, name string) relyingParty {
	f.T.Helper()
	uri := "https://" + name + ".example.com/backchannel"
	app := f.NewApp(strings.Replace(providertest.Confidential, "{", `{"backchannel_logout_uri": "`+uri+`", `, 1))
	return relyingParty{app, uri}
}

// signIn signs the owner in at the application in a browser, and returns the session's id.
func (p relyingParty) signIn(b *providertest.Browser, scope string) (sid string) {
	p.Fixture.T.Helper()
	code := b.Complete(b.Get(p.AuthorizeURL("scope", scope))).Get("code")
	tokens := p.Redeem(code).Want(http.StatusOK).JSON()
	sid, _ = providertest.Claims(p.Fixture.T, tokens["id_token"])["sid"].(string)
	if sid == "" {
		p.Fixture.T.Fatal("the ID token has no sid")
	}
	return sid
}

// network records the logout tokens that are sent, and answers as a test wants.
type network struct {
	t      *testing.T
	mu     sync.Mutex
	tokens []string
	answer func(uri string) (int, error)
}

// Send answers a request that has a logout token.
func (n *network) Send(_ context.Context, r send.Request) send.Result {
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return send.Result{Error: err.Error()}
	}
	n.mu.Lock()
	n.tokens = append(n.tokens, form.Get("logout_token"))
	answer := n.answer
	n.mu.Unlock()
	if answer == nil {
		return send.Result{Response: &send.Response{Status: http.StatusOK}}
	}
	status, err := answer(r.URL)
	var result send.Result
	if status != 0 {
		result.Response = &send.Response{Status: status}
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

func (n *network) answers(answer func(uri string) (int, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// take returns the tokens that were sent since the last call.
func (n *network) take() (tokens []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	tokens, n.tokens = n.tokens, nil
	return tokens
}

// sessions returns the sessions that the tokens name which were sent since the last call, in order.
func (n *network) sessions() (ids []string) {
	n.t.Helper()
	for _, token := range n.take() {
		ids = append(ids, providertest.Claims(n.t, token)["sid"].(string))
	}
	slices.Sort(ids)
	return ids
}

// connect has the fixture's provider send to a new network.
func connect(f *providertest.Fixture) *network {
	f.T.Helper()
	n := &network{t: f.T}
	p := f.NewProvider()
	p.Sender = n
	f.Serve(p)
	f.Accounts.UserGone = []func(*db.Tx, string) error{session.RemoveAll}
	return n
}

func sendDue(f *providertest.Fixture) {
	f.T.Helper()
	providertest.Must(f.T, f.Provider.SendLogouts(f.T.Context()))
}

// count returns the number of logouts that are stored.
func count(f *providertest.Fixture) (n int) {
	f.T.Helper()
	providertest.Must(f.T, f.DB.Read(f.T.Context()).Row(`SELECT count(*) FROM oidc_logouts`).Scan(&n))
	return n
}
