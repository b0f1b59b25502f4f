package node

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/id"
	"steward/internal/seal"
)

const (
	// tokenLife is how long a token is valid, and maxSkew how far the clock of who made it may be ahead.
	tokenLife = 30 * time.Second
	maxSkew   = 10 * time.Second
	// tokenHeader has the token of a request.
	tokenHeader = "Steward-Node-Token"
	// maxNonces is the number of tokens that are accepted within the life of one. Only replicas can make
	// them.
	maxNonces = 1 << 20
	purpose   = "node request"
)

// target is what a token is for.
type target struct {
	// node and process are who may accept the token.
	node, process string
	method, path  string
}

// sign returns a token for a target. It is "expiry.nonce.mac", of which the expiry is in Unix
// milliseconds.
func sign(ring *seal.Ring, to target, now time.Time) string {
	expiry := strconv.FormatInt(now.Add(tokenLife).UnixMilli(), 10)
	nonce := id.Secret(22)
	mac := ring.MAC(purpose, to.text(expiry, nonce))
	return expiry + "." + nonce + "." + base64.RawURLEncoding.EncodeToString(mac)
}

// text returns all that a token says. No part of it can contain a line feed.
func (to target) text(expiry, nonce string) string {
	return strings.Join([]string{to.node, to.process, to.method, to.path, expiry, nonce}, "\n")
}

var (
	errToken   = errors.New("expected a token for this node and request")
	errExpired = errors.New("the token has expired, or the clocks of the replicas differ")
	errReplay  = errors.New("the token was used before")
	errBusy    = errors.New("too many requests of replicas")
)

// verifier accepts tokens, each one once.
type verifier struct {
	ring *seal.Ring
	now  func() time.Time

	mu sync.Mutex
	// recent and older are the nonces of accepted tokens. recent becomes older when it may contain none that
	// was accepted longer ago than a token can be valid.
	recent, older map[string]bool
	since         time.Time
}

// verify returns an error unless a token is for a target and was not accepted before. Only the right
// process accepts it, so that the nonces need not survive one.
func (v *verifier) verify(token string, to target) error {
	expiry, rest, _ := strings.Cut(token, ".")
	nonce, encoded, _ := strings.Cut(rest, ".")
	mac, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || !v.ring.CheckMAC(mac, purpose, to.text(expiry, nonce)) {
		return errToken
	}
	at, err := strconv.ParseInt(expiry, 10, 64)
	if err != nil {
		return errToken
	}
	left := time.UnixMilli(at).Sub(v.now())
	if left <= 0 || left > tokenLife+maxSkew {
		return errExpired
	}
	return v.spend(nonce)
}

// spend notes a nonce. It returns an error if it was noted before.
func (v *verifier) spend(nonce string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if v.recent == nil || now.Sub(v.since) > tokenLife+maxSkew {
		v.older = v.recent
		v.recent = map[string]bool{}
		v.since = now
	}
	switch {
	case v.recent[nonce] || v.older[nonce]:
		return errReplay
	case len(v.recent) >= maxNonces:
		return errBusy
	}
	v.recent[nonce] = true
	return nil
}
