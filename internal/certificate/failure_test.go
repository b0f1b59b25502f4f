package certificate_test

import (
	"net"
	"strings"
	"testing"

	"steward/internal/certificate"
	"steward/internal/certificate/acmetest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// state returns the state of the only certificate.
func (s *serving) state(t *testing.T) certificate.State {
	t.Helper()
	states, err := s.States(t.Context())
	if err != nil || len(states) != 1 {
		t.Fatalf("States = %v, %v", states, err)
	}
	return states[0]
}

// TestFailureIsToldByAllReplicas has a CA that cannot reach the domain, until another replica is there.
func TestFailureIsToldByAllReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		port := porttest.Free(t)
		ca := acmetest.Start(t, acmetest.Options{TLSPort: port})
		options := certificate.ACMEOptions{Store: newStore(t, d), CA: ca.URL, Roots: ca.Roots}
		failing := serve(t, listen(t), options)
		options.Store = newStore(t, d)
		other := serve(t, listen(t), options)
		waittest.True(t, "the failure", func() bool { return failing.state(t).LastError != "" })
		got := other.state(t)
		if got.LastError != "the CA refused it with unauthorized; the log of the server says why" || !got.NotAfter.IsZero() ||
			got.Source != certificate.FromACME || strings.Join(got.Domains, " ") != "example.com" {
			t.Errorf("the other replica tells %+v", got)
		}
		failing.stop()
		other.stop()

		again, err := net.Listen("tcp", porttest.Address(port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		options.Store = newStore(t, d)
		s := serve(t, again, options)
		leaf := s.wait(t, ca.Roots, nil)
		waittest.True(t, "the failure to be forgotten", func() bool { return s.state(t).LastError == "" })
		if got := s.state(t); !got.NotAfter.Equal(leaf.NotAfter) {
			t.Errorf("the state is %+v, the certificate ends at %v", got, leaf.NotAfter)
		}
	})
}
