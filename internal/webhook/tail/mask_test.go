package tail

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

var victor = &auth.Caller{OrgID: "org_a", UserID: "usr_victor", Role: auth.Viewer, KeyID: "key_v"}

// data begins a tail and returns a function that returns the data of the next receipt.
func (f *fixture) data(caller *auth.Caller, path string) func() string {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	f.t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, "GET", f.URL+path, nil)
	must(f.t, err)
	req.Header.Set("Caller", caller.KeyID)
	res, err := http.DefaultClient.Do(req)
	must(f.t, err)
	f.t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	return func() string {
		f.t.Helper()
		for {
			line, err := lines.ReadString('\n')
			must(f.t, err)
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				return data
			}
		}
	}
}

func (f *fixture) postSecret(path string) {
	f.t.Helper()
	req, err := http.NewRequest("POST", f.URL+path, strings.NewReader("x"))
	must(f.t, err)
	req.Header.Set("Authorization", "Bearer hidden")
	req.Header.Set("X-Api-Key", "hidden")
	res, err := http.DefaultClient.Do(req)
	must(f.t, err)
	res.Body.Close()
	if res.StatusCode != 200 {
		f.t.Fatalf("status %d", res.StatusCode)
	}
}

// TestTailsOfViewersHaveNoCredentials has viewers and others at the end of the same log, whose frames are
// shared, and behind it.
func TestTailsOfViewersHaveNoCredentials(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		id, path := f.hook()
		type tail struct {
			caller *auth.Caller
			next   func() string
		}
		var tails []tail
		for _, caller := range []*auth.Caller{victor, alice, victor, alice} {
			tails = append(tails, tail{caller, f.data(caller, "/webhook/tail")}, tail{caller, f.data(caller, "/webhook/tail/"+id)})
		}
		check := func(name string, one tail) {
			t.Helper()
			got := one.next()
			isHidden := strings.Contains(got, `"authorization":"***"`) && strings.Contains(got, `"x-api-key":"***"`) && !strings.Contains(got, "hidden")
			isShown := strings.Contains(got, `"authorization":"Bearer hidden"`) && strings.Contains(got, `"x-api-key":"hidden"`)
			if one.caller == victor && !isHidden || one.caller == alice && !isShown {
				t.Errorf("%s: %s gets %s", name, one.caller.Role, got)
			}
		}
		for range 3 {
			f.postSecret(path)
			for _, one := range tails {
				check("at the end", one)
			}
		}
		f.tails.mu.Lock()
		if n := len(f.tails.feeds); n != 2 {
			t.Errorf("%d feeds read the log, want one for viewers and one for others", n)
		}
		f.tails.mu.Unlock()
		for _, caller := range []*auth.Caller{victor, alice} {
			check("behind", tail{caller, f.data(caller, "/webhook/tail?since=2026-01-01T00:00:00Z&follow=false")})
		}
	})
}

// TestTailsEndWhenTheirFormChanges: somebody who has become a viewer must connect again.
func TestTailsEndWhenTheirFormChanges(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	var current atomic.Pointer[auth.Caller]
	current.Store(alice)
	f.tails.Authorize = func(*http.Request) (*auth.Caller, error) { return current.Load(), nil }
	_, path := f.hook()
	next := f.data(alice, "/webhook/tail")
	f.postSecret(path)
	next()
	admin := *alice
	admin.Role = auth.Admin
	current.Store(&admin)
	f.tails.Recheck()
	f.postSecret(path)
	next()
	current.Store(victor)
	f.tails.Recheck()
	waittest.True(t, "the end of the tail", func() bool { return f.tails.Open() == 0 })
}
