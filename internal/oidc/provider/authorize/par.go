package authorize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

const (
	pushedPrefix = "urn:ietf:params:oauth:request_uri:"
	// PushedLifetime limits how long a client can use a pushed request.
	PushedLifetime = 90 * time.Second
)

// PushedResponse is the response to a pushed authorization request.
type PushedResponse struct {
	RequestURI string `json:"request_uri"`
	ExpiresIn  int64  `json:"expires_in"`
}

// Push serves POST /par: a client sends us its authorization request in advance.
func (h *Handler) Push(r *http.Request, c *oidc.Registered) (*PushedResponse, error) {
	form := r.PostForm
	if c.DocumentURI != nil { // the user decides which organization's client this is
		return nil, oauth.NewError(oauth.UnauthorizedClient, "a client that a document describes cannot push requests")
	}
	if form.Has("request_uri") {
		return nil, oauth.NewError(oauth.InvalidRequest, "request_uri cannot be pushed")
	}
	redirectURI, err := redirectURIOf(c, form)
	if err != nil {
		return nil, err
	}
	req, err := h.parse(r.Context(), c, redirectURI, form)
	if err != nil {
		return nil, err
	}
	if c.ClientType == oidc.Public && h.throttle.Take(h.Now(), pushLimit(r)) > 0 {
		return nil, &oauth.Error{
			Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
			Description: "too many authorization requests were pushed",
		}
	}
	if err := h.bindToProof(r, req, form); err != nil {
		return nil, err
	}
	text, err := json.Marshal(known(form, req))
	if err != nil {
		return nil, fmt.Errorf("encode pushed request: %w", err)
	}
	handle := id.Secret(43)
	expires := stamp.Of(h.Now()).Add(PushedLifetime)
	err = h.DB.Write(r.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO oidc_pushed (id_hash, client_id, request, expires_at) VALUES ($1, $2, $3, $4)`,
			seal.Hash(handle), c.ID, string(text), expires); err != nil {
			return fmt.Errorf("insert pushed request: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &PushedResponse{RequestURI: pushedPrefix + handle, ExpiresIn: int64(PushedLifetime.Seconds())}, nil
}

func known(form url.Values, req *flow.Request) url.Values {
	kept := url.Values{}
	if req.Resource != "" {
		kept.Set("resource", req.Resource)
	}
	for _, name := range knownParams {
		if values, ok := form[name]; ok {
			kept[name] = values
		}
	}
	return kept
}

// pushLimit limits how often one address pushes requests for public clients, whose ids anybody may
// know.
func pushLimit(r *http.Request) oauth.Limit {
	network := oauth.Network(web.Request(r.Context()).RemoteAddr)
	return oauth.Limit{Key: network, Burst: 200, Every: 50 * time.Millisecond}
}

// bindToProof binds the code to a DPoP proof's key, if there is a proof (RFC 9449 section 10.1).
func (h *Handler) bindToProof(r *http.Request, req *flow.Request, form url.Values) error {
	proof, err := h.Proofs.Verify(r, "")
	if err != nil || proof.JKT == "" {
		return err
	}
	if req.JKT != "" && req.JKT != proof.JKT {
		return oauth.NewError(oauth.InvalidDPoPProof, "dpop_jkt is not the key of the proof")
	}
	form.Set("dpop_jkt", proof.JKT)
	return h.Proofs.Use(r.Context(), proof)
}

// takePushed returns the parameters behind a request_uri. It works once, for the client that pushed
// them.
func (h *Handler) takePushed(ctx context.Context, c *oidc.Registered, uri string) (url.Values, error) {
	var text string
	err := h.DB.Write(ctx, func(tx *db.Tx) (err error) {
		text, err = takePushed(tx, strings.TrimPrefix(uri, pushedPrefix), c.ID, stamp.Of(h.Now()))
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, oauth.NewError(oauth.InvalidRequest,
			"this request_uri was used, has expired, or belongs to another application")
	}
	if err != nil {
		return nil, err
	}
	var form url.Values
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return nil, fmt.Errorf("decode pushed request: %w", err)
	}
	return form, nil
}

// takePushed returns a pushed request and deletes it, so that only one of two concurrent requests gets
// it. It returns db.ErrNoRows if the request is gone, has expired, or belongs to another client.
func takePushed(tx *db.Tx, handle, clientID string, now stamp.Time) (request string, err error) {
	hash := seal.Hash(handle)
	err = tx.Row(`SELECT request FROM oidc_pushed WHERE id_hash = $1 AND client_id = $2 AND expires_at > $3`,
		hash, clientID, now).Scan(&request)
	if err != nil {
		return "", fmt.Errorf("read pushed request: %w", err)
	}
	n, err := tx.Exec(`DELETE FROM oidc_pushed WHERE id_hash = $1`, hash)
	if err != nil {
		return "", fmt.Errorf("delete pushed request: %w", err)
	}
	if n == 0 {
		return "", db.ErrNoRows
	}
	return request, nil
}
