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
	// A token is valid for tokenLife. Its maker's clock may be ahead of ours by maxSkew.
	tokenLife = 30 * time.Second
	maxSkew   = 10 * time.Second
	// tokenHeader carries a request's token.
	tokenHeader = "Steward-Node-Token"
	// maxNonces caps the tokens that we accept within one token's life. Only replicas can make tokens.
	maxNonces = 1 << 20
)

// target is the request that a token is valid for.
type target struct {
	// Only this node and process may accept the token.
	node, process string
	method, path  string
	query         string
	// client is the address on whose behalf the request is made.
	client string
}

// targetOf returns the target for a request to a node.
func targetOf(r *http.Request, n Node) target {
	return target{
		node: n.ID, process: n.Process, method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery,
		client: r.Header.Get(clientHeader),
	}
}

// sign returns a token for a target and a body: "expiry.nonce.digest.mac". The expiry is in Unix
// milliseconds.
func sign(ring *seal.Ring, to target, body []byte, now time.Time) string {
	digest := sha256.Sum256(body)
	return to.sign(ring, append(fresh(now), encode(digest[:])))
}

// signNarrow returns a token in version 0.1.0's format, which that version accepts: "expiry.nonce.mac".
func signNarrow(ring *seal.Ring, to target, now time.Time) string { return to.sign(ring, fresh(now)) }

// fresh returns a new token's expiry and nonce.
func fresh(now time.Time) []string {
	return []string{strconv.FormatInt(now.Add(tokenLife).UnixMilli(), 10), id.Secret(22)}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (to target) sign(ring *seal.Ring, said []string) string {
	purpose, text := to.text(said)
	return strings.Join(append(said, encode(ring.MAC(purpose, text))), ".")
}

// text returns the text that a token's MAC covers. A token without a body digest is from version 0.1.0 and
// covers neither query nor client; the next version can drop it. No part can contain a line feed.
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

// verifier accepts each token once.
type verifier struct {
	ring *seal.Ring
	now  func() time.Time
	// narrow reports whether we accept tokens that do not cover the body.
	narrow func(ctx context.Context) bool

	mu sync.Mutex
	// recent and older map accepted nonces to their expiry. recent becomes older after the longest time for
	// which a token can be valid, so we drop a nonce only when its token has expired.
	recent, older map[string]time.Time
	since         time.Time
	// At forgotten, the tokens of all dropped nonces have expired. It is always past, unless the clock was
	// set back.
	forgotten time.Time
}

// verify returns an error unless a token is valid for a target and was not accepted before. Only one
// process accepts it, so the nonces may die with the process. digest is the body's, or "" if the token does
// not cover the body.
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

// spend notes a nonce. It returns an error if the nonce was noted before, or may have been.
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
