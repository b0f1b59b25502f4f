package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

func TestKVSurvives(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k := s.NewKVStore("cache")
		s.Must(k.Client().Set(t.Context(), "a", "restart", 0).Err())
		s.Stop()
		s.Start()
		k = k.Again()
		k.WantValue("a", "restart")
		c := k.Client()
		for i := range 100 {
			s.Must(c.Set(t.Context(), fmt.Sprint("n", i), i, 0).Err())
		}
		s.Kill()
		s.Start()
		k = k.Again()
		for i := range 100 {
			k.WantValue(fmt.Sprint("n", i), fmt.Sprint(i))
		}
	})
}

func TestSignInSurvivesKill(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		s.Stop()
		s.Args = append(s.Args, "--listen", porttest.Address(porttest.Free(t)))
		s.Start()
		a := s.NewApplication(object{})
		b, p := s.NewBrowser(), s.NewRelyingParty(a, "openid", "offline_access")
		token, _ := p.SignIn(b)
		s.Kill()
		s.Start()
		if got := s.UserinfoStatus(token.AccessToken); got != http.StatusOK {
			t.Errorf("userinfo: %d", got)
		}
		p.Refresh(token)
		again := b.Visit(p.Config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none")))
		if !strings.Contains(again.Location, "code=") {
			t.Errorf("the session is gone: %s", again.Location)
		}
	})
}

// TestReplaySurvivesKill kills processes while they replay. Every receipt must be delivered, and
// have one delivery of the replay.
func TestReplaySurvivesKill(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := installation.Start(t, name)
			servers := []*installation.Steward{s}
			if name == "postgres" {
				servers = append(servers, s.Replica())
			}
			k, h := sink.New(t), s.NewHook("orders")
			acked, stop := installation.NewAcknowledged(), make(chan struct{})
			clients := s.SendLoad(h, "/replayed", 32, acked, stop)
			waittest.Until(t, "events", func() (int, bool) { n := acked.Size(); return n, n >= 3000 })
			close(stop)
			clients.Wait()
			to, _ := s.NewDestination(h, k.URL+"/replayed")
			r := s.CreateReplay(h, "to", to)
			for round, victim := range servers {
				k.Wait("/replayed", 500*(round+1))
				victim.Kill()
				victim.Start()
			}
			got := s.WaitReplay(h, r.ID)
			if got.Total != acked.Size() || got.Done != got.Total || got.Failed != 0 {
				t.Errorf("%d receipts were replayed as %+v", acked.Size(), got)
			}
			s.CheckReceipts(h, k, "/replayed", acked)
			s.CheckCounts(map[string]installation.Hook{"/replayed": h})
		})
	}
}
