package keys

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/oidc/keys/keystest"
	"steward/internal/seal"
	"steward/internal/waittest"
)

// fixture is a store on a real database, with a clock that tests advance.
type fixture struct {
	*Store
	t     testing.TB
	clock *atomic.Int64
	rsa   func() (*rsa.PrivateKey, error) // shared by replicas
}

func newFixture(t testing.TB, d *db.DB) *fixture {
	f := &fixture{t: t, clock: &atomic.Int64{}, rsa: keystest.NewRSA()}
	f.clock.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
	f.Store = f.replica(d, make([]byte, seal.KeySize))
	return f
}

// replica returns the store of another process on the same database.
func (f *fixture) replica(d *db.DB, master []byte) *Store {
	ring, err := seal.NewRing(master)
	must(f.t, err)
	s := &Store{
		Log: slog.New(slog.DiscardHandler),
		DB:  d, Ring: ring, Now: func() time.Time { return time.UnixMicro(f.clock.Load()) },
		Audit: &audit.Store{Now: time.Now}, NewRSA: f.rsa,
	}
	d.Watch(Cache, s.Forget)
	return s
}

func (f *fixture) advance(d time.Duration) { f.clock.Add(d.Microseconds()) }

func (f *fixture) get(s *Store) *Set {
	f.t.Helper()
	set, err := s.Set(f.t.Context())
	must(f.t, err)
	return set
}

func (f *fixture) signingKID(s *Store) string {
	f.t.Helper()
	kid, _ := f.get(s).Signing(ForIDTokens)
	return kid
}

// rotateNow calls Rotate and returns whether it has rotated.
func (f *fixture) rotateNow() bool {
	f.t.Helper()
	owner := auth.With(f.t.Context(), &auth.Caller{OrgID: "org_1", UserID: "usr_1", Role: auth.Owner})
	rotated, err := f.Rotate(owner)
	must(f.t, err)
	return rotated
}

// states returns the keys of an algorithm by state.
func (f *fixture) states(alg jose.SignatureAlgorithm) map[State][]string {
	f.t.Helper()
	keys, err := readPublic(f.DB.Read(f.t.Context()))
	must(f.t, err)
	out := map[State][]string{}
	for _, k := range keys {
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

// verifies reports whether a relying party with a set accepts a token.
func verifies(t testing.TB, set jose.JSONWebKeySet, token string) bool {
	t.Helper()
	object, err := jose.ParseSigned(token, algorithms)
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

func TestFirstKeysAreGeneratedOnFirstUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		set := f.get(f.Store)
		for _, alg := range algorithms {
			kid, token := sign(t, set, alg)
			s := f.states(alg)
			if !slices.Equal(s[Active], []string{kid}) || len(s[Next]) != nextKeys || len(s[Retiring]) != 0 {
				t.Errorf("%s: %v", alg, s)
			}
			if !verifies(t, set.JWKS(), token) {
				t.Errorf("%s: does not verify", alg)
			}
		}
		if n := len(set.JWKS().Keys); n != 2*(1+nextKeys) {
			t.Errorf("the set has %d keys", n)
		}
	})
}

func TestSetHasPublicKeysOnly(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	for _, k := range f.get(f.Store).JWKS().Keys {
		thumbprint, err := k.Thumbprint(crypto.SHA256)
		must(t, err)
		text, err := k.MarshalJSON()
		must(t, err)
		var members map[string]any
		must(t, json.Unmarshal(text, &members))
		if !k.IsPublic() || !k.Valid() || members["d"] != nil || members["use"] != "sig" || members["alg"] != k.Algorithm {
			t.Errorf("%s", text)
		}
		if k.KeyID != base64.RawURLEncoding.EncodeToString(thumbprint) {
			t.Error("the kid is not the thumbprint")
		}
	}
}

func TestRotateActivatesTheNextKeyAndRetiresTheActiveOne(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		before := f.get(f.Store)
		published := before.JWKS()
		_, oldToken := sign(t, before, ForIDTokens)
		f.advance(time.Hour)
		if !f.rotateNow() || len(audittest.New(t, f.DB).Read("action")) != 1 {
			t.Fatal("not rotated, or not audited")
		}
		after := f.get(f.Store)
		for _, alg := range algorithms {
			oldKID, _ := before.Signing(alg)
			newKID, token := sign(t, after, alg)
			if oldKID == newKID || !verifies(t, published, token) {
				t.Errorf("%s: the new key was not published before it signed", alg)
			}
			s := f.states(alg)
			if !slices.Equal(s[Active], []string{newKID}) || len(s[Next]) != nextKeys ||
				!slices.Equal(s[Retiring], []string{oldKID}) {
				t.Errorf("%s: %v", alg, s)
			}
		}
		if !verifies(t, after.JWKS(), oldToken) {
			t.Error("a token of the old key does not verify")
		}
		var n int
		const query = `SELECT count(*) FROM oidc_keys WHERE state = 'retiring' AND private IS NOT NULL`
		must(t, d.Read(t.Context()).Row(query).Scan(&n))
		if n != 0 {
			t.Error("the private key of a retiring key was not deleted")
		}
	})
}

func TestRetiringKeyIsKeptUntilItsTokensHaveExpired(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		_, token := sign(t, f.get(f.Store), ForAccessTokens)
		if !f.rotateNow() {
			t.Fatal("not rotated")
		}
		f.advance(24*time.Hour + time.Minute)
		must(t, f.Maintain(t.Context()))
		if !verifies(t, f.get(f.Store).JWKS(), token) {
			t.Error("deleted while a token could be valid")
		}
		f.advance(RetainTime)
		must(t, f.Maintain(t.Context()))
		if verifies(t, f.get(f.Store).JWKS(), token) || len(f.states(ForAccessTokens)[Retiring]) != 0 {
			t.Error("not deleted")
		}
	})
}

// TestRepeatedRotationsWaitForPublication rotates more often than there are next keys. A key must
// not sign before relying parties can know it.
func TestRepeatedRotationsWaitForPublication(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		published := f.get(f.Store).JWKS()
		for i, want := range []bool{true, true, false, false} {
			if got := f.rotateNow(); got != want {
				t.Errorf("rotation %d: got %t", i, got)
			}
			for _, alg := range algorithms {
				if _, token := sign(t, f.get(f.Store), alg); !verifies(t, published, token) {
					t.Errorf("rotation %d: a key signs that was not published", i)
				}
			}
		}
		published = f.get(f.Store).JWKS()
		f.advance(PublishTime)
		if _, token := sign(t, f.get(f.Store), ForIDTokens); !f.rotateNow() || !verifies(t, published, token) {
			t.Error("not rotated after PublishTime")
		}
	})
}

func TestTendRotatesAfterMaxAge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		first := f.signingKID(f.Store)
		f.advance(MaxAge - time.Second)
		must(t, f.Maintain(t.Context()))
		if f.signingKID(f.Store) != first {
			t.Error("rotated too early")
		}
		f.advance(time.Second)
		must(t, f.Maintain(t.Context()))
		second := f.signingKID(f.Store)
		must(t, f.Maintain(t.Context()))
		if last := f.signingKID(f.Store); last == first || last != second {
			t.Error("not rotated exactly once")
		}
	})
}

// TestTendGeneratesMissingKeys deletes the next keys, as if a process had died between a rotation
// and the generation of new keys.
func TestTendGeneratesMissingKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.get(f.Store)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM oidc_keys WHERE state = 'next'`)
			return err
		}))
		if f.rotateNow() {
			t.Error("rotated without a next key")
		}
		must(t, f.Maintain(t.Context()))
		if s := f.states(ForIDTokens); len(s[Next]) != nextKeys || f.rotateNow() {
			t.Error("not generated, or used at once", s)
		}
	})
}

func TestConcurrentFirstUseAndRotation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		stores := []*Store{f.Store, f.replica(d, make([]byte, seal.KeySize)), f.replica(d, make([]byte, seal.KeySize))}
		var group sync.WaitGroup
		var rotations atomic.Int64
		for _, s := range stores {
			group.Go(func() {
				rotated, err := s.Rotate(t.Context())
				if err != nil {
					t.Error(err)
				}
				if rotated {
					rotations.Add(1)
				}
			})
		}
		group.Wait()
		for _, alg := range algorithms {
			s := f.states(alg)
			if len(s[Active]) != 1 || len(s[Next]) != nextKeys || len(s[Retiring]) != int(rotations.Load()) {
				t.Errorf("%s after %d rotations: %v", alg, rotations.Load(), s)
			}
		}
		if n := rotations.Load(); n < 1 || n > nextKeys {
			t.Errorf("%d rotations", n)
		}
	})
}

// TestRotateInsideATransaction rotates as a request with an Idempotency-Key does. New keys are
// generated after the outer commit, and a rollback leaves no trace.
func TestRotateInsideATransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		kid := f.signingKID(f.Store)
		rollback := errors.New("rollback")
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			if rotated, err := f.Rotate(tx.Context()); err != nil || !rotated {
				t.Error(rotated, err)
			}
			return rollback
		})
		if !errors.Is(err, rollback) || f.signingKID(f.Store) != kid {
			t.Error("a rotation that was rolled back has an effect", err)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := f.Rotate(tx.Context())
			return err
		}))
		if f.signingKID(f.Store) == kid || len(f.states(ForIDTokens)[Next]) != nextKeys {
			t.Error("not rotated")
		}
	})
}

func TestPrivateKeysAreSealed(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	f.get(f.Store)
	var kid string
	var private []byte
	const query = `SELECT kid, private FROM oidc_keys WHERE state = 'active' AND alg = 'ES256'`
	must(t, f.DB.Read(t.Context()).Row(query).Scan(&kid, &private))
	if _, err := parseSigner(private); err == nil {
		t.Error("the private key is stored in clear text")
	}
	if _, err := f.Ring.Open(purpose(kid), private); err != nil {
		t.Error(err)
	}
	if _, err := f.Ring.Open(purpose("another"), private); err == nil {
		t.Error("the sealed key opens for another kid")
	}
	stranger := f.replica(f.DB, bytes.Repeat([]byte{7}, seal.KeySize))
	if _, err := stranger.Set(t.Context()); err == nil {
		t.Error("another master key opens the private key")
	}
}

// TestReplicasFollowARotation checks that the tokens of a replica verify before and after it learns
// of a rotation.
func TestReplicasFollowARotation(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	open := func() *db.DB {
		d, err := db.Open(t.Context(), o)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	f := newFixture(t, open())
	d := open()
	other := f.replica(d, make([]byte, seal.KeySize))
	if f.signingKID(f.Store) != f.signingKID(other) {
		t.Fatal("the replicas have different keys")
	}
	stale := f.get(other)
	if !f.rotateNow() {
		t.Fatal("not rotated")
	}
	newKID, newToken := sign(t, f.get(f.Store), ForIDTokens)
	_, oldToken := sign(t, stale, ForIDTokens)
	if !verifies(t, f.get(f.Store).JWKS(), oldToken) || !verifies(t, stale.JWKS(), newToken) {
		t.Error("a token of one replica does not verify with the set of the other")
	}
	go d.RunWatch(t.Context())
	waittest.True(t, "the other replica to follow", func() bool { return f.signingKID(other) == newKID })
}

func BenchmarkSet(b *testing.B) {
	f := newFixture(b, dbtest.Open(b, db.SQLite))
	for b.Loop() {
		if _, err := f.Set(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
