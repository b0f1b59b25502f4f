// Package keys owns the keys that sign tokens: their lifecycle, and the set of public keys that relying
// parties read.
//
// Each algorithm has one active key, which signs, and two next keys, which are published but do not
// sign yet. Rotate makes the older next key active and the active one retiring, and generates a new
// next key. The same transaction deletes the retiring key's private part. The public part stays in the
// set until the last token it signed has expired (RetainTime); then we delete the row.
//
// Relying parties know every key that signs: a key signs only after we have published it for
// PublishTime, and they may cache the set for less than that (CacheTime). An installation's first keys
// may sign at once, since no set was ever published without them. With two next keys an operator can
// rotate twice in a row; after that Rotate does nothing until the new ones have been published for long
// enough.
//
// Replicas learn about a rotation through the cache (Cache). A replica that has not heard yet signs
// with the old key for half a second at most. Those tokens verify, because RetainTime allows for it.
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
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/stamp"
)

// State is a key's place in its lifecycle.
type State string

// A key's states, in order.
const (
	Next     State = "next"     // set by Rotate and at the first start; published, does not sign
	Active   State = "active"   // set by Rotate; signs
	Retiring State = "retiring" // set by Rotate; has no private key
)

// The algorithms that our keys use.
const (
	ForIDTokens     = jose.RS256
	ForAccessTokens = jose.ES256
)

// algorithms lists the algorithms that have keys.
var algorithms = []jose.SignatureAlgorithm{ForIDTokens, ForAccessTokens}

const (
	// PublishTime is the time between publishing a key and signing with it.
	PublishTime = time.Minute
	// CacheTime limits how long relying parties may cache the set. The margin to PublishTime exceeds
	// the time that a replica needs to learn about a new key plus the difference between clocks: when a
	// key starts to sign, every cached set without it has expired.
	CacheTime = PublishTime - 15*time.Second
	// MaxAge is the age at which Maintain rotates an active key.
	MaxAge = 90 * 24 * time.Hour
	// RetainTime keeps a retiring key's public part for the longest token lifetime, plus 10 minutes for
	// clocks that differ.
	RetainTime = 24*time.Hour + 10*time.Minute
	// nextKeys is the number of next keys for each algorithm.
	nextKeys = 2
	// rsaBits is RFC 7518's minimum. It keeps tokens and sets small.
	rsaBits = 2048
)

// Cache names the key set's cache.
const Cache = "keys"

type key struct {
	kid    string
	alg    jose.SignatureAlgorithm
	state  State
	public jose.JSONWebKey
	signer crypto.Signer // nil if retiring
	// settledAt is the earliest time at which the key may sign.
	settledAt stamp.Time
	createdAt stamp.Time
	activeAt  *stamp.Time
	retiredAt *stamp.Time
}

// generate returns a new key. It is slow for RS256, so do not call it inside a transaction.
func (s *Store) generate(alg jose.SignatureAlgorithm) (key, error) {
	var signer crypto.Signer
	var err error
	switch {
	case alg == jose.ES256:
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case s.NewRSA != nil:
		signer, err = s.NewRSA()
	default:
		signer, err = rsa.GenerateKey(rand.Reader, rsaBits)
	}
	if err != nil {
		return key{}, fmt.Errorf("generate %s key: %w", alg, err)
	}
	public := jose.JSONWebKey{Key: signer.Public(), Algorithm: string(alg), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, fmt.Errorf("hash %s key: %w", alg, err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return key{kid: public.KeyID, alg: alg, state: Next, public: public, signer: signer}, nil
}

// purpose binds a sealed private key to its row.
func purpose(kid string) string { return "oidc.signing_key:" + kid }

func parseSigner(der []byte) (crypto.Signer, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%T cannot sign", parsed)
	}
	return signer, nil
}

// Set is a snapshot of the keys. It is immutable; get it from the Store again for each use.
type Set struct {
	signing map[jose.SignatureAlgorithm]key
	public  jose.JSONWebKeySet
	// published is the JSON of public.
	published []byte
}

// Published returns JWKS as JSON. Do not modify it.
func (s *Set) Published() []byte { return s.published }

// Signing returns the key that signs with ForIDTokens or ForAccessTokens. It panics for other algorithms.
func (s *Set) Signing(alg jose.SignatureAlgorithm) (kid string, signer crypto.Signer) {
	k, ok := s.signing[alg]
	if !ok {
		panic(fmt.Sprintf("keys: no key signs with %s", alg))
	}
	return k.kid, k.signer
}

// JWKS returns a copy of the public keys, for each algorithm the active key, the next ones, then the
// retiring ones.
func (s *Set) JWKS() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: slices.Clone(s.public.Keys)}
}
