package session_test

import (
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rp "github.com/coreos/go-oidc/v3/oidc"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
	"steward/internal/page"
	"steward/internal/waittest"
)

// TestLogoutTokenIsVerifiedByGoOIDC signs out of an application with offline access, and reads the token as a
// relying party does.
func TestLogoutTokenIsVerifiedByGoOIDC(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		p, b := newRelyingParty(f, "shop"), f.Browser()
		sid := p.signIn(b, "openid offline_access")
		sendDue(f)
		if got := n.take(); len(got) != 0 {
			t.Fatalf("%d tokens were sent while the session lives", len(got))
		}
		b.Submit(b.LogOut("client_id", p.ID)).Want(http.StatusOK)
		n.answers(func(string) (int, error) { return http.StatusInternalServerError, errors.New("no") })
		sendDue(f)
		n.answers(nil)
		f.Clock.Add(time.Minute)
		sendDue(f)
		tokens := n.take()
		if len(tokens) != 2 {
			t.Fatalf("got %d tokens, want one of each attempt", len(tokens))
		}
		provider, err := rp.NewProvider(t.Context(), f.URL)
		providertest.Must(t, err)
		verifier := provider.Verifier(&rp.Config{ClientID: p.ID, Now: f.Clock.Now})
		jtis := map[any]bool{}
		for _, token := range tokens {
			_, err := verifier.Verify(t.Context(), token)
			providertest.Must(t, err)
			if got := providertest.Header(t, token)["typ"]; got != "logout+jwt" {
				t.Errorf("got typ %v", got)
			}
			claims := providertest.Claims(t, token)
			jtis[claims["jti"]] = true
			event := claims["events"].(map[string]any)["http://schemas.openid.net/event/backchannel-logout"]
			_, hasNonce := claims["nonce"]
			if claims["sid"] != sid || claims["sub"] != f.UserID || event == nil || hasNonce ||
				claims["exp"].(float64)-claims["iat"].(float64) != 120 {
				t.Errorf("got %v", claims)
			}
		}
		if len(jtis) != 2 {
			t.Error("two tokens have the same jti")
		}
		f.Clock.Add(3 * time.Minute)
		if _, err := verifier.Verify(t.Context(), tokens[1]); err == nil {
			t.Error("the token has not expired")
		}
		// It is neither a hint of who is signed in, nor an access token.
		p.signIn(b, "openid")
		if page := b.LogOut("id_token_hint", tokens[1]); !strings.Contains(page.Body, "/end_session/confirm") {
			t.Errorf("a logout token is taken for an ID token: %s", page.Body)
		}
		f.Userinfo(tokens[1]).WantError(http.StatusUnauthorized, oauth.InvalidToken)
		if n := count(f); n != 1 {
			t.Errorf("%d logouts are stored, want that of the session", n)
		}
	})
}

// TestEveryEndOfASessionTellsItsClients has two sessions with the application, of which some end.
func TestEveryEndOfASessionTellsItsClients(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		p := newRelyingParty(f, "shop")
		other := f.NewApp(providertest.Confidential) // which is not told
		f.NewUser("other@example.com", "another password")
		account := func(b *providertest.Browser, path string, pairs ...string) {
			_, _, form := b.Get(f.URL + "/account").Want(http.StatusOK).Form()
			values := providertest.EndSession(append(pairs, "csrf", form.Get("csrf"))...)
			b.Do("POST", f.URL+path, values).Want(http.StatusOK)
		}
		const here, there = 0, 1
		for _, c := range []struct {
			name string
			end  func(b *providertest.Browser, sids [2]string)
			want []int
		}{
			{"sign-out", func(b *providertest.Browser, sids [2]string) {
				account(b, "/account/sessions", "session", sids[here])
			}, []int{here}},
			{"end of another session", func(b *providertest.Browser, sids [2]string) {
				_, _, form := b.Get(f.URL + "/account").Form()
				b.Do("POST", f.URL+"/account/sessions", url.Values{"csrf": form["csrf"], "session": {sids[there]}}).
					Want(http.StatusSeeOther)
			}, []int{there}},
			{"sign-out everywhere", func(b *providertest.Browser, _ [2]string) {
				account(b, "/account/sign-out")
			}, []int{here, there}},
			{"another user in the same browser", func(b *providertest.Browser, _ [2]string) {
				b.CompleteAs(b.Get(p.AuthorizeURL("prompt", "login", "scope", "openid")), "other@example.com", "another password")
			}, []int{here}},
			{"the console", func(_ *providertest.Browser, sids [2]string) {
				r, err := http.NewRequestWithContext(f.Ctx, http.MethodPost, f.URL, nil)
				providertest.Must(t, err)
				providertest.Must(t, f.Provider.SignOut(discard{}, r, sids[there]))
			}, []int{there}},
			{"change of the password", func(b *providertest.Browser, _ [2]string) {
				account(b, "/account/password", "password", providertest.OwnerPassword, "new_password", providertest.OwnerPassword)
			}, []int{there}},
			{"reset", func(*providertest.Browser, [2]string) {
				var token string
				providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) (err error) {
					token, _, err = f.Accounts.NewReset(tx, f.UserID)
					return err
				}))
				fresh := f.Browser()
				fresh.Submit(fresh.Get(f.URL+"/reset/"+token), "password", providertest.OwnerPassword).Want(http.StatusSeeOther)
			}, []int{here, there}},
			{"removal of the user", func(*providertest.Browser, [2]string) {
				providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
					return f.Accounts.UserGone[0](tx, f.UserID)
				}))
			}, []int{here, there}},
		} {
			var sids [2]string
			browsers := [2]*providertest.Browser{f.Browser(), f.Browser()}
			for i, b := range browsers {
				sids[i] = p.signIn(b, "openid")
				b.Complete(b.Get(other.AuthorizeURL("scope", "openid")))
			}
			c.end(browsers[here], sids)
			sendDue(f)
			var want []string
			for _, i := range c.want {
				want = append(want, sids[i])
			}
			slices.Sort(want)
			if got := n.sessions(); !slices.Equal(got, want) {
				t.Errorf("%s: clients were told about %v, want %v", c.name, got, want)
			}
			providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error { return session.RemoveAll(tx, f.UserID) }))
			sendDue(f)
			n.take()
		}
	})
}

// discard is a response that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// endSessions signs in and out of an application a number of times, and returns the sessions.
func endSessions(p relyingParty, number int) (sids []string) {
	p.Fixture.T.Helper()
	for range number {
		sids = append(sids, p.signIn(p.Fixture.Browser(), "openid"))
	}
	providertest.Must(p.Fixture.T, p.Fixture.DB.Write(p.Fixture.Ctx, func(tx *db.Tx) error {
		return session.RemoveAll(tx, p.Fixture.UserID)
	}))
	slices.Sort(sids)
	return sids
}

// TestLogoutSurvivesACrash has the process die before a token is sent, and after it was sent but before that is
// stored.
func TestLogoutSurvivesACrash(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		connect(f)
		sids := endSessions(newRelyingParty(f, "shop"), 1)
		restarted := connect(f)
		restarted.answers(func(string) (int, error) { runtime.Goexit(); return 0, nil })
		sendDue(f)
		if got := restarted.sessions(); !slices.Equal(got, sids) {
			t.Fatalf("told about %v after the first crash, want %v", got, sids)
		}
		n := connect(f)
		sendDue(f)
		if got := n.take(); len(got) != 0 {
			t.Error("another process sends what is leased")
		}
		f.Clock.Add(3 * time.Minute)
		sendDue(f)
		if got := n.sessions(); !slices.Equal(got, sids) {
			t.Fatalf("told about %v after the second crash, want %v", got, sids)
		}
		if count(f) != 0 {
			t.Error("the logout is still stored")
		}
	})
}

// TestReplicasSendOnce has two processes look for logouts at the same time.
func TestReplicasSendOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		sids := endSessions(newRelyingParty(f, "shop"), 12)
		var replicas sync.WaitGroup
		for range 2 {
			p := f.NewProvider()
			p.Sender = n
			providertest.Must(t, p.Open(t.Context()))
			replicas.Go(func() {
				if err := p.SendLogouts(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		replicas.Wait()
		sendDue(f)
		if got := n.sessions(); !slices.Equal(got, sids) {
			t.Errorf("told about %d sessions, want %d once: %v", len(got), len(sids), got)
		}
	})
}

// TestDeadClientDelaysNobody has a client that does not answer while another one is told.
func TestDeadClientDelaysNobody(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		dead, alive := newRelyingParty(f, "dead"), newRelyingParty(f, "alive")
		asked, told, release := make(chan bool, 10), make(chan bool, 10), make(chan bool)
		n.answers(func(uri string) (int, error) {
			if uri == alive.uri {
				told <- true
				return http.StatusNoContent, nil
			}
			asked <- true
			<-release
			return 0, errors.New("the destination does not answer")
		})
		endSessions(dead, 3)
		var sending sync.WaitGroup
		sending.Go(func() { _ = f.Provider.SendLogouts(t.Context()) })
		waittest.Receive(t, "attempt at the dead client", asked)
		for range 2 {
			endSessions(alive, 1)
			sending.Go(func() { _ = f.Provider.SendLogouts(t.Context()) })
			waittest.Receive(t, "logout at the other client", told)
		}
		close(release)
		sending.Wait()
		if len(asked) != 0 {
			t.Error("the dead client has got more than one token at a time")
		}
		sendDue(f)
		if len(asked) != 0 {
			t.Error("the client is tried again without a pause")
		}
	})
}

// TestFailedLogoutIsRetriedForADay has one client refuse its tokens, and another one not be reached.
func TestFailedLogoutIsRetriedForADay(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		refusing, unreachable := newRelyingParty(f, "refusing"), newRelyingParty(f, "unreachable")
		attempts := map[string]int{}
		n.answers(func(uri string) (int, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			attempts[uri]++
			if uri == refusing.uri {
				return http.StatusBadRequest, errors.New("the destination answered 400")
			}
			return 0, errors.New("the destination does not answer")
		})
		endSessions(refusing, 1)
		endSessions(unreachable, 2)
		for range 4 * 26 {
			sendDue(f)
			f.Clock.Add(15 * time.Minute)
		}
		if got := attempts[refusing.uri]; got < 15 || got > 40 {
			t.Errorf("%d attempts at a client that refuses", got)
		}
		if got := attempts[unreachable.uri]; got < 15 || got > 80 {
			t.Errorf("%d attempts at a client that is not reached", got)
		}
		if count(f) != 0 {
			t.Error("the logouts are not given up")
		}
	})
}

// TestOneRefusedLogoutDoesNotHoldBackOthers has a client refuse one of its sessions.
func TestOneRefusedLogoutDoesNotHoldBackOthers(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		first := true
		n.answers(func(string) (int, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if first {
				first = false
				return http.StatusBadRequest, errors.New("the destination answered 400")
			}
			return http.StatusOK, nil
		})
		sids := endSessions(newRelyingParty(f, "shop"), 8)
		sendDue(f)
		if got := n.sessions(); !slices.Equal(got, sids) || count(f) != 1 {
			t.Errorf("told about %d sessions, %d are left", len(got), count(f))
		}
	})
}

// TestQueueOfAClientIsBounded has more sessions end than may wait.
func TestQueueOfAClientIsBounded(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		connect(f)
		sids := endSessions(newRelyingParty(f, "shop"), 7)
		w := &session.LogoutWorker{}
		w.DB, w.Now, w.Clients, w.Tokens = f.DB, f.Clock.Now, f.Clients.Store, f.Issuer()
		w.Log = f.NewProvider().Log
		w.MaxQueued = 3
		n := &network{t: t, answer: func(string) (int, error) { return 0, errors.New("no answer") }}
		w.Sender, w.Observer = n, oauth.NewObserver()
		providertest.Must(t, w.SendDue(t.Context()))
		left, err := db.Collect(f.DB.Read(t.Context()), db.Value[string], `SELECT session_id FROM oidc_logouts ORDER BY session_id`)
		providertest.Must(t, err)
		if !slices.Equal(left, sids[4:]) {
			t.Errorf("%v wait, want the latest three of %v", left, sids)
		}
	})
}

// TestLogoutURIsThatAreGone has clients that were deleted or have no URI any more when a session ends.
func TestLogoutURIsThatAreGone(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		deleted, without := newRelyingParty(f, "deleted"), newRelyingParty(f, "without")
		b := f.Browser()
		deleted.signIn(b, "openid")
		without.signIn(b, "openid")
		providertest.Must(t, f.Clients.Store.Delete(f.Ctx, f.OrgID, deleted.ID, page.IfMatch{}))
		patch := oidc.ClientPatch{}
		patch.BackchannelLogoutURI = page.Opt[string]{Sent: true, Null: true}
		_, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), without.ID, page.IfMatch{}, patch)
		providertest.Must(t, err)
		b.Submit(b.LogOut()).Want(http.StatusOK)
		sendDue(f)
		if len(n.take()) != 0 || count(f) != 0 {
			t.Errorf("%d logouts are left", count(f))
		}
	})
}

// TestCodeOfAnEndedSessionIsRefused redeems a code when its session has ended: the client would not be told.
func TestCodeOfAnEndedSessionIsRefused(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		connect(f)
		p, b := newRelyingParty(f, "shop"), f.Browser()
		code := b.Complete(b.Get(p.AuthorizeURL("scope", "openid offline_access"))).Get("code")
		b.Submit(b.LogOut()).Want(http.StatusOK)
		p.Redeem(code).WantRefused(oauth.InvalidGrant)
		p.Redeem(code).WantRefused(oauth.InvalidGrant)
	})
}

// TestExpiredSessionsLeaveNothing has a session expire, about which nobody is told.
func TestExpiredSessionsLeaveNothing(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		newRelyingParty(f, "shop").signIn(f.Browser(), "openid")
		providertest.Must(t, f.Provider.Purge(t.Context()))
		if count(f) != 1 {
			t.Fatal("the logout of a session that lives was deleted")
		}
		f.Clock.Add(2 * session.MaxAge)
		providertest.Must(t, f.Provider.Purge(t.Context()))
		sendDue(f)
		if len(n.take()) != 0 || count(f) != 0 {
			t.Error("an expired session has left a logout")
		}
	})
}
