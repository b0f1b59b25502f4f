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
)

// waitingBytes is how much may wait to be written before others are told to come again.
const waitingBytes = 256 << 20

// Ingest takes requests in at /in/{id}/{token}. It stands outside the table of routes: its callers are no callers of the API.
type Ingest struct {
	Store *Store
	// Limit is the largest body, in bytes.
	Limit int64

	waiting atomic.Int64 // bytes

	tokens db.Cache[string, token]
}

// token is what is kept of a webhook's ingest URL.
type token struct {
	orgID string
	hash  [sha256.Size]byte
}

// NewIngest gives an Ingest.
func NewIngest(s *Store, limit int64) *Ingest {
	in := &Ingest{Store: s, Limit: limit}
	s.DB.Watch(tokensChanged, in.tokens.Forget)
	return in
}

// ServeHTTP records a request. It answers 200 when its receipt, deliveries and counts are durable.
func (in *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	receiptID, err := in.take(w, r)
	if err != nil {
		web.Fail(w, r, err)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = io.WriteString(w, `{"id": "`+receiptID+`"}`+"\n")
}

func (in *Ingest) take(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE")
		return "", errs.New(errs.MethodNotAllowed, "this path takes every method but OPTIONS")
	}
	// Not cut short when the client goes, or ends its side of the connection, as some do after the body: it costs one commit at most.
	ctx := context.WithoutCancel(r.Context())
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
	if in.waiting.Add(int64(len(body))) > waitingBytes {
		return "", errs.Busy(nil, "too many requests are waiting")
	}
	a := newArrival(r, orgID, webhookID, body)
	err = in.Store.Accept(ctx, a)
	return a.receipt.ID, err
}

// newArrival makes the receipt of a request; its id and date come with the write.
func newArrival(r *http.Request, orgID, webhookID string, body []byte) *arrival {
	headers := flatten(r.Header, field{"host", clean(r.Host)})
	return &arrival{receipt: &Receipt{
		WebhookID: webhookID, Method: clean(r.Method), Query: clean(r.URL.RawQuery), RemoteAddr: web.Request(r.Context()).RemoteAddr,
		Size: int64(len(body)), ContentType: valueOf(headers, "content-type"), orgID: orgID, body: body, headerText: headerText(headers),
	}}
}

// body reads the body whole. Too much is TooLarge, however it is framed; what ends early is Malformed.
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
		return nil, errs.New(errs.Malformed, "the body ended early or could not be read")
	}
	return buf.Bytes(), nil
}

func (in *Ingest) tooLarge() error {
	return errs.New(errs.TooLarge, "the body is larger than %d bytes", in.Limit)
}

// check compares a token and gives the webhook's organization. Whatever is wrong gets the same answer.
func (in *Ingest) check(ctx context.Context, webhookID, value string) (string, error) {
	t, err := in.token(ctx, webhookID)
	if errors.Is(err, db.ErrNoRows) || errs.KindOf(err) == errs.Invalid {
		return "", notHere()
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(value))
	if subtle.ConstantTimeCompare(sum[:], t.hash[:]) != 1 {
		return "", notHere()
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
