package keys

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/seal"
)

// bench is a store on a real database, with a clock that tests move.
type bench struct {
	*Store
	t      testing.TB
	clock  *atomic.Int64
	audits atomic.Int64
}

func newBench(t testing.TB, d *db.DB) *bench {
	b := &bench{t: t, clock: &atomic.Int64{}}
	b.clock.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
	b.Store = b.replica(d, make([]byte, seal.KeySize))
	return b
}

// replica is another process on the same database.
func (b *bench) replica(d *db.DB, master []byte) *Store {
	ring, err := seal.NewRing(master)
	must(b.t, err)
	s := &Store{
		DB: d, Ring: ring, Now: func() time.Time { return time.UnixMicro(b.clock.Load()) },
		Audit: func(*db.Tx, string, string) error { b.audits.Add(1); return nil },
	}
	d.Watch(Cache, s.Forget)
	return s
}

func (b *bench) pass(d time.Duration) { b.clock.Add(d.Microseconds()) }

func (b *bench) get(s *Store) *Set {
	b.t.Helper()
	set, err := s.Set(b.t.Context())
	must(b.t, err)
	return set
}

func (b *bench) rotated() bool {
	b.t.Helper()
	rotated, err := b.Rotate(b.t.Context())
	must(b.t, err)
	return rotated
}

// states gives the keys of an algorithm by state.
func (b *bench) states(alg jose.SignatureAlgorithm) map[State][]string {
	b.t.Helper()
	rows, err := all(b.DB.Read(b.t.Context()), b.Ring)
	must(b.t, err)
	out := map[State][]string{}
	for _, k := range rows {
		if k.alg == alg {
			out[k.state] = append(out[k.state], k.kid)
		}
	}
	return out
}

func sign(t testing.TB, set *Set, alg jose.SignatureAlgorithm) (kid, token string) {
	t.Helper()
	kid, signer := set.Signing(alg)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: signer, KeyID: kid}}, nil)
	must(t, err)
	object, err := s.Sign([]byte("claims"))
	must(t, err)
	token, err = object.CompactSerialize()
	must(t, err)
	return kid, token
}

// verifies tells whether a relying party with that set takes a token.
func verifies(t testing.TB, set jose.JSONWebKeySet, token string) bool {
	t.Helper()
	object, err := jose.ParseSigned(token, Algorithms)
	must(t, err)
	found := set.Key(object.Signatures[0].Header.KeyID)
	if len(found) != 1 {
		return false
	}
	_, err = object.Verify(found[0])
	return err == nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFirstKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		set := b.get(b.Store)
		for _, alg := range Algorithms {
			kid, token := sign(t, set, alg)
			if s := b.states(alg); len(s[Active]) != 1 || len(s[Next]) != spares || len(s[Retiring]) != 0 || s[Active][0] != kid {
				t.Errorf("%s: %v", alg, s)
			}
			if !verifies(t, set.JWKS(), token) {
				t.Errorf("%s: does not verify", alg)
			}
		}
		if len(set.JWKS().Keys) != 2*(1+spares) {
			t.Error(len(set.JWKS().Keys), "keys")
		}
	})
}

func TestSetHoldsPublicHalvesOnly(t *testing.T) {
	b := newBench(t, dbtest.Open(t, db.SQLite))
	for _, k := range b.get(b.Store).JWKS().Keys {
		print, err := k.Thumbprint(crypto.SHA256)
		must(t, err)
		text, err := k.MarshalJSON()
		must(t, err)
		var members map[string]any
		must(t, json.Unmarshal(text, &members))
		if !k.IsPublic() || !k.Valid() || members["d"] != nil || members["use"] != "sig" || members["alg"] != k.Algorithm {
			t.Errorf("%s", text)
		}
		if k.KeyID != base64.RawURLEncoding.EncodeToString(print) {
			t.Error("kid is not the thumbprint")
		}
	}
}

func TestRotate(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		before := b.get(b.Store)
		known := before.JWKS()
		_, oldToken := sign(t, before, ForIDTokens)
		b.pass(time.Hour)
		if !b.rotated() || b.audits.Load() != 1 {
			t.Fatal("not rotated, or not written down")
		}
		after := b.get(b.Store)
		for _, alg := range Algorithms {
			was, _ := before.Signing(alg)
			is, token := sign(t, after, alg)
			if was == is || !verifies(t, known, token) {
				t.Errorf("%s: the new key was not published before it signed", alg)
			}
			s := b.states(alg)
			if !slices.Equal(s[Active], []string{is}) || len(s[Next]) != spares || !slices.Equal(s[Retiring], []string{was}) {
				t.Errorf("%s: %v", alg, s)
			}
		}
		if !verifies(t, after.JWKS(), oldToken) {
			t.Error("a token from before does not verify")
		}
		var private int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM oidc_keys WHERE state = 'retiring' AND private IS NOT NULL`).Scan(&private))
		if private != 0 {
			t.Error("the private half of a retired key is there still")
		}
	})
}

// TestRetiredKeyStaysToTheEnd: the public half outlives the last token, then goes.
func TestRetiredKeyStaysToTheEnd(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		_, token := sign(t, b.get(b.Store), ForAccessTokens)
		if !b.rotated() {
			t.Fatal("not rotated")
		}
		b.pass(24*time.Hour + time.Minute)
		must(t, b.Tend(t.Context()))
		if !verifies(t, b.get(b.Store).JWKS(), token) {
			t.Error("gone while a token could be valid")
		}
		b.pass(Kept)
		must(t, b.Tend(t.Context()))
		if verifies(t, b.get(b.Store).JWKS(), token) || len(b.states(ForAccessTokens)[Retiring]) != 0 {
			t.Error("there for ever")
		}
	})
}

// TestRotateInAHurry: however often it is asked for, nothing signs that a relying party could not have fetched a Settle ago.
func TestRotateInAHurry(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		published := b.get(b.Store).JWKS()
		for i, want := range []bool{true, true, false, false} {
			if got := b.rotated(); got != want {
				t.Errorf("rotation %d: %t", i, got)
			}
			for _, alg := range Algorithms {
				if _, token := sign(t, b.get(b.Store), alg); !verifies(t, published, token) {
					t.Errorf("rotation %d: signs with a key that was not published", i)
				}
			}
		}
		published = b.get(b.Store).JWKS()
		b.pass(Settle)
		if _, token := sign(t, b.get(b.Store), ForIDTokens); !b.rotated() || !verifies(t, published, token) {
			t.Error("not after the keys have settled")
		}
	})
}

func TestRotateByAge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		first, _ := b.get(b.Store).Signing(ForIDTokens)
		b.pass(MaxAge - time.Second)
		must(t, b.Tend(t.Context()))
		if kid, _ := b.get(b.Store).Signing(ForIDTokens); kid != first {
			t.Error("too early")
		}
		b.pass(time.Second)
		must(t, b.Tend(t.Context()))
		second, _ := b.get(b.Store).Signing(ForIDTokens)
		must(t, b.Tend(t.Context()))
		if kid, _ := b.get(b.Store).Signing(ForIDTokens); kid == first || kid != second {
			t.Error("not once at its time")
		}
	})
}

// TestTendMakesWhatIsMissing: a process that died between a rotation and the making of new keys leaves a gap.
func TestTendMakesWhatIsMissing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		b.get(b.Store)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM oidc_keys WHERE state = 'next'`)
			return err
		}))
		if b.rotated() {
			t.Error("rotated to nothing")
		}
		must(t, b.Tend(t.Context()))
		if s := b.states(ForIDTokens); len(s[Next]) != spares || b.rotated() {
			t.Error("not made, or used at once", s)
		}
	})
}

func TestAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		stores := []*Store{b.Store, b.replica(d, make([]byte, seal.KeySize)), b.replica(d, make([]byte, seal.KeySize))}
		var group sync.WaitGroup
		var done atomic.Int64
		for _, s := range stores {
			group.Go(func() {
				if rotated, err := s.Rotate(t.Context()); err != nil {
					t.Error(err)
				} else if rotated {
					done.Add(1)
				}
			})
		}
		group.Wait()
		for _, alg := range Algorithms {
			if s := b.states(alg); len(s[Active]) != 1 || len(s[Next]) != spares || len(s[Retiring]) != int(done.Load()) {
				t.Errorf("%s after %d rotations: %v", alg, done.Load(), s)
			}
		}
		if n := done.Load(); n < 1 || n > spares {
			t.Error(n, "rotations")
		}
	})
}

// TestRotateInsideATransaction is a rotation under an Idempotency-Key: new keys are made after the outer commit, and nothing is left of one
// that is rolled back.
func TestRotateInsideATransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBench(t, d)
		kid, _ := b.get(b.Store).Signing(ForIDTokens)
		undone := errUndo{}
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			if rotated, err := b.Rotate(tx.Context()); err != nil || !rotated {
				t.Error(rotated, err)
			}
			return undone
		})
		if now, _ := b.get(b.Store).Signing(ForIDTokens); err != undone || now != kid {
			t.Error("a rotation that was rolled back is felt", err)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := b.Rotate(tx.Context())
			return err
		}))
		if now, _ := b.get(b.Store).Signing(ForIDTokens); now == kid || len(b.states(ForIDTokens)[Next]) != spares {
			t.Error("not rotated")
		}
	})
}

type errUndo struct{}

func (errUndo) Error() string { return "undo" }

func TestPrivateHalvesAreSealed(t *testing.T) {
	b := newBench(t, dbtest.Open(t, db.SQLite))
	b.get(b.Store)
	var kid string
	var private []byte
	must(t, b.DB.Read(t.Context()).Row(`SELECT kid, private FROM oidc_keys WHERE state = 'active' AND alg = 'ES256'`).Scan(&kid, &private))
	if _, err := parseSigner(private); err == nil {
		t.Error("stored as it is")
	}
	if _, err := b.Ring.Open(purpose(kid), private); err != nil {
		t.Error(err)
	}
	if _, err := b.Ring.Open(purpose("another"), private); err == nil {
		t.Error("opens for another key")
	}
	stranger := b.replica(b.DB, bytes.Repeat([]byte{7}, seal.KeySize))
	if _, err := stranger.Set(t.Context()); err == nil {
		t.Error("another master key opens it")
	}
}

// TestReplicas: a replica that has not heard of a rotation signs with the old key, which verifies; then it follows within a second.
func TestReplicas(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	open := func() *db.DB {
		d, err := db.Open(t.Context(), o)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	b := newBench(t, open())
	d := open()
	there := b.replica(d, make([]byte, seal.KeySize))
	heard := make(chan struct{}, 100) // told after the cache, which was there first
	d.Watch(Cache, func() { heard <- struct{}{} })
	first, _ := b.get(b.Store).Signing(ForIDTokens)
	if kid, _ := b.get(there).Signing(ForIDTokens); kid != first {
		t.Fatal("two replicas, two keys")
	}
	stale := b.get(there)
	if !b.rotated() {
		t.Fatal("not rotated")
	}
	second, newToken := sign(t, b.get(b.Store), ForIDTokens)
	_, oldToken := sign(t, stale, ForIDTokens)
	if !verifies(t, b.get(b.Store).JWKS(), oldToken) || !verifies(t, stale.JWKS(), newToken) {
		t.Error("a token of one replica does not verify with the set of the other")
	}
	go d.RunWatch(t.Context())
	for late := time.After(time.Second); ; {
		if kid, _ := b.get(there).Signing(ForIDTokens); kid == second {
			return
		}
		select {
		case <-heard:
		case <-late:
			t.Fatal("the rotation is not seen within a second")
		}
	}
}

func BenchmarkSet(b *testing.B) {
	s := newBench(b, dbtest.Open(b, db.SQLite))
	for b.Loop() {
		if _, err := s.Set(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
