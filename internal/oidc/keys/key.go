// Package keys owns the keys with which tokens are signed: their life, and the set of public halves that relying parties read.
//
// For each algorithm there is one active key, which signs, and there are two next ones, which are published but do not sign yet.
// Rotate makes the oldest next key active and the active one retiring; then a new next one is made. The private half of a retiring key
// is destroyed in the same transaction (what a disk may keep of the old row is sealed); its public half stays in the set until the last
// token that it signed has expired (Kept), then its row goes.
//
// No relying party meets a key that it cannot know. A key signs only when it has been published for Settle, and the key set may be
// kept for less than that (Fresh); the keys of a new installation are settled from the start, since there has never been a set without
// them. Those who rotate again and again use up the two next keys; then Rotate does nothing, and says so, until the newer ones have settled.
// That two wait, and not one, is for an operator who rotates twice in a hurry.
//
// Replicas are in step through the cache's epoch (Cache). One that has not heard of a rotation yet signs with the old key for at most
// half a second more; such tokens verify, since the public half stays, and Kept has room for that.
package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/stamp"
)

// State is where a key is in its life.
type State string

// The states of a key, in order. A key that is gone has no row.
const (
	Next     State = "next"     // by Rotate and at first start; published, does not sign
	Active   State = "active"   // by Rotate, from next; signs
	Retiring State = "retiring" // by Rotate, from active; has no private half any more
)

// The algorithms in use.
const (
	ForIDTokens     = jose.RS256
	ForAccessTokens = jose.ES256
)

// Algorithms lists those that have keys.
var Algorithms = []jose.SignatureAlgorithm{ForIDTokens, ForAccessTokens}

const (
	// Settle is how long a key is published before it signs.
	Settle = time.Minute
	// Fresh is how long relying parties may keep the set. It is shorter than Settle by more than a replica takes to hear of a new key, and
	// than clocks differ: a set without the key, given out at the last moment, has gone stale when the key begins to sign.
	Fresh = Settle - 15*time.Second
	// MaxAge is how long a key signs before it is rotated without being asked.
	MaxAge = 90 * 24 * time.Hour
	// Kept is how long a retired public half stays: the longest life of a token, and 10 minutes for clocks that differ.
	Kept = 24*time.Hour + 10*time.Minute
	// spares is how many next keys there are.
	spares = 2
	// rsaBits is what RFC 7518 asks for at least; tokens and sets are no larger than they must be.
	rsaBits = 2048
)

// Cache names the cache of the set.
const Cache = "keys"

// key is a row.
type key struct {
	kid       string
	alg       jose.SignatureAlgorithm
	state     State
	public    jose.JSONWebKey
	signer    crypto.Signer // nil when retiring
	settledAt stamp.Time
	createdAt stamp.Time
	activeAt  *stamp.Time
	retiredAt *stamp.Time
}

// generate makes a key for an algorithm. It takes a while for RS256, so it is never called inside a transaction.
func generate(alg jose.SignatureAlgorithm) (k key, err error) {
	switch alg {
	case jose.RS256:
		k.signer, err = rsa.GenerateKey(rand.Reader, rsaBits)
	case jose.ES256:
		k.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		err = fmt.Errorf("keys: no keys for %s", alg)
	}
	if err != nil {
		return k, err
	}
	k.alg, k.state = alg, Next
	k.public = jose.JSONWebKey{Key: k.signer.Public(), Algorithm: string(alg), Use: "sig"}
	print, err := k.public.Thumbprint(crypto.SHA256)
	k.kid = base64.RawURLEncoding.EncodeToString(print)
	k.public.KeyID = k.kid
	return k, err
}

// purpose binds a sealed private half to its key.
func purpose(kid string) string { return "oidc.signing_key:" + kid }

func parseSigner(der []byte) (crypto.Signer, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("keys: %T cannot sign", parsed)
	}
	return signer, nil
}

// Set is the keys of a moment. It does not change; ask the Store again for each use.
type Set struct {
	signing map[jose.SignatureAlgorithm]key
	public  jose.JSONWebKeySet
}

// Signing gives the key that signs with an algorithm. It panics for one that is not of Algorithms.
func (s *Set) Signing(alg jose.SignatureAlgorithm) (kid string, signer crypto.Signer) {
	k, ok := s.signing[alg]
	if !ok {
		panic(fmt.Sprintf("keys: nothing signs with %s", alg))
	}
	return k.kid, k.signer
}

// JWKS gives the public halves of all keys: of each algorithm the active one first, then the next ones, then the retiring ones. The
// slice is the caller's.
func (s *Set) JWKS() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: append([]jose.JSONWebKey{}, s.public.Keys...)}
}
