package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"steward/internal/errs"
	"steward/internal/web"
)

// fault is a refusal in the words of OAuth: a code that programs read, and a text for whoever debugs them. It never echoes a value.
type fault struct {
	status int
	code   string
	text   string
}

func (f *fault) Error() string { return f.code + ": " + f.text }

// The codes that are used in more than one place.
const (
	invalidRequest = "invalid_request"
	invalidClient  = "invalid_client"
	invalidGrant   = "invalid_grant"
	invalidScope   = "invalid_scope"
	invalidToken   = "invalid_token"
	invalidProof   = "invalid_dpop_proof"
	accessDenied   = "access_denied"
)

func refuse(code, text string) *fault {
	status := http.StatusBadRequest
	if code == invalidClient || code == invalidToken {
		status = http.StatusUnauthorized
	}
	return &fault{status: status, code: code, text: text}
}

// badGrant is the same for codes and refresh tokens that are unknown, used, expired, revoked or of another client.
func badGrant() *fault {
	return refuse(invalidGrant, "the code or token is not valid, has expired or was revoked")
}

// badClient is the same for a client that is unknown and one that sent a wrong secret.
func badClient() *fault { return refuse(invalidClient, "client authentication failed") }

// asFault turns any error into one that the caller may see.
func asFault(r *http.Request, err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	switch e := web.Visible(r.Context(), err); e.Kind {
	case errs.Unavailable:
		return &fault{http.StatusServiceUnavailable, "temporarily_unavailable", e.Message}
	case errs.Invalid, errs.Malformed:
		return refuse(invalidRequest, e.Message)
	}
	return &fault{http.StatusInternalServerError, "server_error", "internal error"}
}

type faultBody struct {
	Code string `json:"error"`
	Text string `json:"error_description,omitempty"`
}

// sendFault answers a program (RFC 6749 section 5.2).
func sendFault(w http.ResponseWriter, r *http.Request, err error) {
	f := asFault(r, err)
	switch {
	case f.code == invalidClient:
		w.Header().Set("WWW-Authenticate", `Basic realm="oauth"`)
	case f.status == http.StatusServiceUnavailable, f.status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	sendJSON(w, f.status, faultBody{f.code, f.text})
}

// sendBearerFault answers a program that came with a token (RFC 6750 section 3, RFC 9449 section 7.1).
func sendBearerFault(w http.ResponseWriter, r *http.Request, scheme string, err error) {
	f := asFault(r, err)
	if f.status == http.StatusUnauthorized || f.status == http.StatusForbidden {
		challenge := scheme + ` error="` + f.code + `", error_description="` + f.text + `"`
		if scheme == schemeDPoP {
			challenge += `, algs="` + proofAlgsText + `"`
		}
		if f.code == "" { // nothing was sent, so there is nothing to explain
			challenge = scheme
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	sendJSON(w, f.status, faultBody{f.code, f.text})
}

// sendJSON answers a program. Nothing that this package tells may be kept by a cache, unless the header says so already.
func sendJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // our own structs can be encoded
	}
	h := w.Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
		h.Set("Pragma", "no-cache")
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
