package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/web"
	"steward/internal/webhook/send"
)

// maxWaiting bounds the bodies that wait to be written; beyond it requests are refused with 503.
const maxWaiting = 256 << 20

// maxFields bounds the header fields of a request.
const maxFields = 200

// Ingest accepts requests at /in/{id}/{token}. It is not in the route table: its callers are not
// callers of the API.
type Ingest struct {
	Store *Store
	// Limit is the largest body, in bytes.
	Limit int64

	// Accepted and Refused receive the outcome of each request; nil for none.
	Accepted func()
	Refused  func(reason string)

	waiting atomic.Int64 // bytes

	tokens db.Cache[string, token]
}

// token is a webhook's organization and the hash of its token.
type token struct {
	orgID string
	hash  [sha256.Size]byte
}

// NewIngest returns an Ingest whose cache is invalidated by changes on any replica.
func NewIngest(s *Store, limit int64) *Ingest {
	in := &Ingest{Store: s, Limit: limit}
	s.DB.Watch(tokensChanged, in.tokens.Forget)
	return in
}

// ServeHTTP stores a request. It responds with 200 when receipt, deliveries and counts are durable.
func (in *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	receiptID, err := in.accept(w, r)
	if err != nil {
		if in.Refused != nil {
			in.Refused(string(errs.KindOf(err)))
		}
		web.Fail(w, r, err)
		return
	}
	if in.Accepted != nil {
		in.Accepted()
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = io.WriteString(w, `{"id": "`+receiptID+`"}`+"\n")
}

func (in *Ingest) accept(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE")
		return "", errs.New(errs.MethodNotAllowed, "every method but OPTIONS is allowed here")
	}
	// Not cancelled when the client goes away: some close their side of the connection after the body.
	ctx := context.WithoutCancel(r.Context())
	if n := countFields(r.Header); n > maxFields {
		return "", errs.New(errs.HeadersTooLarge, "the request has %d header fields; at most %d are accepted", n, maxFields)
	}
	webhookID := r.PathValue("id")
	orgID, err := in.check(ctx, webhookID, r.PathValue("token"))
	if err != nil {
		return "", err
	}
	body, err := in.body(w, r)
	if err != nil {
		return "", err
	}
	defer in.waiting.Add(-int64(len(body)))
	if in.waiting.Add(int64(len(body))) > maxWaiting {
		return "", errs.Unavailablef(nil, "too many requests are waiting to be stored")
	}
	a := newArrival(r, orgID, webhookID, body)
	err = in.Store.Accept(ctx, a)
	return a.receipt.ID, err
}

// newArrival returns the receipt of a request. Its id and date are set when it is stored.
func newArrival(r *http.Request, orgID, webhookID string, body []byte) *arrival {
	headers := send.Fields(r)
	return &arrival{receipt: &Receipt{
		WebhookID: webhookID, Method: send.CleanText(r.Method), Query: send.CleanText(r.URL.RawQuery),
		RemoteAddr: web.Request(r.Context()).RemoteAddr, Size: int64(len(body)), ContentType: send.Value(headers, "content-type"),
		orgID: orgID, body: body, headerText: send.MarshalFields(headers),
	}}
}

func countFields(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// body reads the whole body. It returns TooLarge, also for a chunked one, and Malformed if it ends
// early.
func (in *Ingest) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return []byte{}, nil
	}
	if r.ContentLength > in.Limit {
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, in.tooLarge()
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, in.Limit))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, in.tooLarge()
	}
	if err != nil {
		return nil, errs.New(errs.Malformed, "the body could not be read to its end")
	}
	return buf.Bytes(), nil
}

func (in *Ingest) tooLarge() error {
	return errs.New(errs.TooLarge, "the body is larger than %d bytes", in.Limit)
}

// check compares a token and returns the webhook's organization. Every mistake gets the same error.
func (in *Ingest) check(ctx context.Context, webhookID, value string) (string, error) {
	t, err := in.token(ctx, webhookID)
	if errors.Is(err, db.ErrNoRows) || errs.KindOf(err) == errs.Invalid {
		return "", errNoWebhook()
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(value))
	if subtle.ConstantTimeCompare(sum[:], t.hash[:]) != 1 {
		return "", errNoWebhook()
	}
	return t.orgID, nil
}

func (in *Ingest) token(ctx context.Context, webhookID string) (token, error) {
	return in.tokens.Get(webhookID, func() (token, error) {
		orgID, hash, err := in.Store.token(ctx, webhookID)
		if err != nil {
			return token{}, err
		}
		return token{orgID: orgID, hash: [sha256.Size]byte(hash)}, nil
	})
}
