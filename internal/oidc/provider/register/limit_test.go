package register_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/registration"
	"steward/internal/oidc/upstream"
	"steward/internal/page"
)

// Each test leaves room for two and has eight requests at the same time.
const (
	room     = 2
	requests = 8
)

// wantRoom calls f for each of the requests at once. As many as there is room for must succeed, and the
// others return an error of a kind.
func wantRoom(t *testing.T, refused errs.Kind, f func() error) {
	t.Helper()
	start := make(chan struct{})
	results := make([]error, requests)
	var calls sync.WaitGroup
	for i := range results {
		calls.Go(func() {
			<-start
			results[i] = f()
		})
	}
	close(start)
	calls.Wait()
	succeeded := 0
	for _, err := range results {
		if err == nil {
			succeeded++
		} else if errs.KindOf(err) != refused {
			t.Error(err)
		}
	}
	if succeeded != room {
		t.Errorf("%d requests succeeded where there was room for %d", succeeded, room)
	}
}

// fill calls f n times in one transaction.
func (f *fixture) fill(n int, one func(ctx context.Context) error) {
	f.T.Helper()
	providertest.Must(f.T, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
		for i := range n {
			if err := one(tx.Context()); err != nil {
				return fmt.Errorf("number %d: %w", i, err)
			}
		}
		return nil
	}))
}

// enrol registers a client with the use of a token, or an anonymous one if use is nil.
func (f *fixture) enrol(ctx context.Context, use func(tx *db.Tx) error) error {
	r := oidc.SelfRegistration{
		OrgID: f.OrgID, Registration: oidc.Anonymous, Use: use,
		Client: oidc.NewClient{Name: "Editor", HomepageURL: "http://localhost", Settings: oidc.Settings{
			AuthMethod:   page.Some(oidc.NoAuth),
			RedirectURIs: page.Some([]string{"http://127.0.0.1/callback"}),
		}},
	}
	if use != nil {
		r.Registration = oidc.WithToken
	}
	_, err := f.Clients.Store.Register(ctx, r)
	return err
}

func TestRequestsAtOnceDoNotExceedTheUsesOfAToken(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		token := f.token(registration.NewToken{Uses: new(int64(room))}).Value
		wantRoom(t, errs.Unauthorized, func() error {
			return f.enrol(f.Ctx, func(tx *db.Tx) error { return f.Provider.Registrations.Use(tx, token) })
		})
	})
}

func TestRequestsAtOnceDoNotExceedTheNumberOfClients(t *testing.T) {
	each(t, registration.Loopback, func(t *testing.T, f *fixture) {
		f.fill(1000-room, func(ctx context.Context) error { return f.enrol(ctx, nil) })
		wantRoom(t, errs.RateLimited, func() error { return f.enrol(f.Ctx, nil) })
	})
}

func TestRequestsAtOnceDoNotExceedTheNumberOfTokens(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		create := func(ctx context.Context) error {
			_, err := f.Provider.Registrations.Create(ctx, auth.From(f.Ctx), registration.NewToken{})
			return err
		}
		f.fill(100-room, create)
		wantRoom(t, errs.Conflict, func() error { return create(f.Ctx) })
	})
}

func TestRequestsAtOnceDoNotExceedTheNumberOfUpstreams(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		create := func(ctx context.Context) error {
			_, err := f.Provider.Upstreams.Store.Create(ctx, auth.From(f.Ctx), upstream.NewUpstream{
				Name: "There", Issuer: "https://there.example", ClientID: "steward",
			})
			return err
		}
		f.fill(20-room, create)
		wantRoom(t, errs.Conflict, func() error { return create(f.Ctx) })
	})
}
