package node

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
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
)

// target is what a token is for.
type target struct {
	// node and process are who may accept the token.
	node, process string
	method, path  string
	query         string
	// client is on whose behalf the request is made.
	client string
}

// targetOf returns the target of a request to a node.
func targetOf(r *http.Request, n Node) target {
	return target{
		node: n.ID, process: n.Process, method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery,
		client: r.Header.Get(clientHeader),
	}
}

// sign returns a token for a target and a body: "expiry.nonce.digest.mac", of which the expiry is in Unix
// milliseconds.
func sign(ring *seal.Ring, to target, body []byte, now time.Time) string {
	digest := sha256.Sum256(body)
	return to.sign(ring, append(fresh(now), encode(digest[:])))
}

// signNarrow returns a token as version 0.1.0 makes and accepts it: "expiry.nonce.mac".
func signNarrow(ring *seal.Ring, to target, now time.Time) string { return to.sign(ring, fresh(now)) }

// fresh returns the expiry and the nonce of a new token.
func fresh(now time.Time) []string {
	return []string{strconv.FormatInt(now.Add(tokenLife).UnixMilli(), 10), id.Secret(22)}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (to target) sign(ring *seal.Ring, said []string) string {
	purpose, text := to.text(said)
	return strings.Join(append(said, encode(ring.MAC(purpose, text))), ".")
}

// text returns what the MAC of a token covers that says these things. Without the digest of a body it is one of version
// 0.1.0, which covers neither query nor client; the next version needs those no more. No part can contain a line feed.
func (to target) text(said []string) (purpose, text string) {
	purpose = "node request"
	parts := []string{to.node, to.process, to.method, to.path}
	if len(said) == 3 {
		purpose = "node request and body"
		parts = append(parts, to.query, to.client)
	}
	return purpose, strings.Join(append(parts, said...), "\n")
}

var (
	errToken   = errors.New("expected a token for this node and request")
	errExpired = errors.New("the token has expired, or the clocks of the replicas differ")
	errReplay  = errors.New("the token was used before")
	errSetBack = errors.New("the clock of the replica was set back: restart it")
	errNarrow  = errors.New("the token does not cover the body, and no replica of an earlier version runs")
	errBody    = errors.New("the body is not the one that was sent")
	errBusy    = errors.New("too many requests of replicas")
)

// verifier accepts tokens, each one once.
type verifier struct {
	ring *seal.Ring
	now  func() time.Time
	// narrow reports whether tokens that do not cover the body are accepted.
	narrow func(ctx context.Context) bool

	mu sync.Mutex
	// recent and older are the nonces of accepted tokens, with when these expire. recent becomes older when it may
	// contain none that was accepted longer ago than a token can be valid.
	recent, older map[string]time.Time
	since         time.Time
	// forgotten is when all tokens whose nonces were dropped have expired. Only a clock that is set back comes before it.
	forgotten time.Time
}

// verify returns an error unless a token is for a target and was not accepted before. Only the right
// process accepts it, so that the nonces need not survive one. The digest is that of the body, or "" if the token
// does not cover it.
func (v *verifier) verify(ctx context.Context, token string, to target) (digest string, err error) {
	said := strings.Split(token, ".")
	last := len(said) - 1
	mac, err := base64.RawURLEncoding.Strict().DecodeString(said[last])
	if err != nil || last < 2 || last > 3 {
		return "", errToken
	}
	said = said[:last]
	purpose, text := to.text(said)
	if !v.ring.CheckMAC(mac, purpose, text) {
		return "", errToken
	}
	at, err := strconv.ParseInt(said[0], 10, 64)
	if err != nil {
		return "", errToken
	}
	expiry := time.UnixMilli(at)
	left := expiry.Sub(v.now())
	if left <= 0 || left > tokenLife+maxSkew {
		return "", errExpired
	}
	if len(said) == 3 {
		digest = said[2]
	} else if !v.narrow(ctx) {
		return "", errNarrow
	}
	return digest, v.spend(said[1], expiry)
}

// spend notes a nonce. It returns an error if it was noted before, or may have been.
func (v *verifier) spend(nonce string, expiry time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if v.recent == nil || now.Sub(v.since) > tokenLife+maxSkew {
		for _, e := range v.older {
			if e.After(v.forgotten) {
				v.forgotten = e
			}
		}
		v.older = v.recent
		v.recent = map[string]time.Time{}
		v.since = now
	}
	_, isRecent := v.recent[nonce]
	_, isOlder := v.older[nonce]
	switch {
	case isRecent || isOlder:
		return errReplay
	case !expiry.After(v.forgotten):
		return errSetBack
	case len(v.recent) >= maxNonces:
		return errBusy
	}
	v.recent[nonce] = expiry
	return nil
}
