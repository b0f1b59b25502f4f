package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"os"

	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/web"
	"steward/internal/webhook/send"
	"steward/internal/webhook/verify"
)

// maxFields bounds a request's header fields.
const maxFields = 200

// Ingest accepts requests at /in/{id}/{token}. It is not in the route table because its callers have
// no API credentials.
type Ingest struct {
	Store *Store
	// Limit is the largest body, in bytes.
	Limit int64
	// Memory holds the requests we are receiving or waiting to store. We refuse a request with 503 if
	// it doesn't fit.
	Memory *budget.Pool

	// Disk is the volume that holds the database, or nil if the database is on another server.
	Disk *disk.Space
	// Accepted and Refused, if not nil, receive each request's outcome.
	Accepted func(orgID string)
	Refused  func(reason string)

	// Traceparent, if not nil, returns the traceparent to store instead of the request's own, or "" to
	// keep that.
	Traceparent func(context.Context) string

	tokens db.Cache[string, token]
	// filtering lets organizations take turns at reading large bodies for filters and keys.
	filtering *budget.Queue
}

// token is a webhook's organization and its token's hash, with what happens to its requests before they
// are stored.
type token struct {
	orgID    string
	hash     [sha256.Size]byte
	verifier *verify.Verifier // nil if requests are not verified
	deduper  *deduper         // nil if repeated requests are not recognized
	// hasFilters reports whether a destination has a filter. filters has them, unless they are long.
	hasFilters bool
	filters    []string
}

// NewIngest returns an Ingest whose requests share the given memory, in bytes, or eight times the
// largest request if that is more. Changes on any replica invalidate its cache.
func NewIngest(s *Store, limit, memory int64) *Ingest {
	in := &Ingest{
		Store: s, Limit: limit, Memory: budget.NewPool(memory, limit+2*budget.RequestBytes), filtering: budget.NewQueue(1),
	}
	s.filters.Max = maxCompiled
	s.DB.Watch(tokensChanged, in.tokens.Forget)
	s.DB.Watch(destinationsChanged, in.tokens.Forget)
	return in
}

// ServeHTTP stores a request. It responds with 200 once the receipt, deliveries and counts are
// durable. A verified challenge gets its answer and is not stored.
func (in *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := in.accept(w, r)
	if err != nil {
		if in.Refused != nil {
			in.Refused(string(errs.KindOf(err)))
		}
		web.Fail(w, r, err)
		return
	}
	if in.Accepted != nil {
		in.Accepted(web.Request(r.Context()).OrgID)
	}
	w.Header()["Content-Type"] = []string{answer.contentType}
	_, _ = io.WriteString(w, answer.text)
}

// reply is the response to a request.
type reply struct{ contentType, text string }

func (in *Ingest) accept(w http.ResponseWriter, r *http.Request) (reply, error) {
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE")
		return reply{}, errs.New(errs.MethodNotAllowed, "every method but OPTIONS is allowed here")
	}
	// A client that goes away must not cancel the write: some close their side of the connection after
	// the body.
	ctx := context.WithoutCancel(r.Context())
	if n := countFields(r.Header); n > maxFields {
		return reply{}, errs.New(errs.HeadersTooLarge, "the request has %d header fields; at most %d are accepted", n, maxFields)
	}
	webhookID := r.PathValue("id")
	hook, err := in.check(ctx, webhookID, r.PathValue("token"))
	if err != nil {
		return reply{}, err
	}
	web.Request(ctx).OrgID = hook.orgID
	if err := in.Disk.Room(); err != nil {
		return reply{}, err
	}
	memory := in.Memory.Charge(hook.orgID, webhookID)
	defer memory.Release()
	body, err := in.body(w, r, memory)
	if err != nil {
		return reply{}, err
	}
	if hook.verifier != nil {
		challenge, isChallenge, err := in.verify(r, hook, body)
		if err != nil || isChallenge {
			return reply{"text/plain; charset=utf-8", challenge}, err
		}
	}
	a, err := in.newArrival(r, hook, body)
	if err != nil {
		return reply{}, err
	}
	err = in.store(ctx, a, hook)
	if a.isDuplicate {
		w.Header().Set("Steward-Duplicate", "true")
	}
	return reply{"application/json", `{"id": "` + a.receipt.ID + `"}` + "\n"}, err
}

// store stores a receipt. The transaction leaves a large one to us whose filters have just changed.
func (in *Ingest) store(ctx context.Context, a *arrival, hook token) (err error) {
	filters, isRead := hook.filters, !hook.hasFilters || hook.filters != nil
	for range 3 {
		if !isRead {
			if filters, err = in.Store.filtersOf(ctx, hookKey{a.receipt.orgID, a.receipt.WebhookID}); err != nil {
				return err
			}
		}
		if err := in.filter(ctx, a, filters); err != nil {
			return err
		}
		if err := in.Store.Accept(ctx, a); !errors.Is(err, errUndecided) {
			return err
		}
		isRead = false
	}
	return errs.Unavailablef(nil, "the filters of this webhook are changing")
}

// filter evaluates filters for a receipt. It takes a turn for each one, so that an organization with many slow
// filters does not hold up others.
func (in *Ingest) filter(ctx context.Context, a *arrival, filters []string) error {
	for _, text := range filters {
		decide := func() { in.Store.decide(a, text) }
		if err := in.inTurn(ctx, a.receipt.orgID, len(a.receipt.body)*len(filters), decide); err != nil {
			return err
		}
	}
	return nil
}

// inTurn does something that reads so many bytes of JSON. If they are many, it waits for the
// organization's turn.
func (in *Ingest) inTurn(ctx context.Context, orgID string, bytes int, do func()) error {
	if bytes > largeFiltering {
		waiting, cancel := context.WithTimeout(ctx, filterWait)
		defer cancel()
		if err := in.filtering.Enter(waiting, orgID, ""); err != nil {
			return errBusy()
		}
		defer in.filtering.Leave(orgID)
	}
	do()
	return nil
}

// verify rejects a request that does not come from the webhook's sender, and keeps it for a day. It
// returns the answer to a challenge.
func (in *Ingest) verify(r *http.Request, hook token, body []byte) (challenge string, isChallenge bool, err error) {
	reason := hook.verifier.Verify(r, body, in.Store.Now())
	if reason == "" {
		challenge, isChallenge = hook.verifier.Challenge(r, body)
		if len(challenge) > verify.MaxChallenge {
			return "", false, errs.New(errs.Malformed, "the challenge is longer than %d bytes", verify.MaxChallenge)
		}
		return challenge, isChallenge, nil
	}
	ctx := context.WithoutCancel(r.Context())
	if err := in.Store.Reject(ctx, in.Store.newRejection(r, hook.orgID, reason, body)); err != nil {
		web.Log(ctx).Error("a rejected request was not stored", "error", err)
	}
	return "", false, &errs.Error{
		Kind: errs.Unauthorized, Message: "the request could not be verified: " + reason.Message(), Challenge: hook.verifier.Scheme(),
	}
}

// newArrival returns a request's receipt, with its key if the webhook recognizes repeated requests.
// acceptBatch sets its id and date. It returns Unavailable if it takes too long until a large body can be
// read for its key.
func (in *Ingest) newArrival(r *http.Request, hook token, body []byte) (*arrival, error) {
	webhookID := r.PathValue("id")
	headers := send.Fields(r)
	if in.Traceparent != nil {
		if own := in.Traceparent(r.Context()); own != "" {
			headers = send.With(headers, "traceparent", own)
		}
	}
	plain := send.MarshalFields(headers)
	receipt := &Receipt{
		WebhookID: webhookID, Method: send.CleanText(r.Method), Query: send.CleanText(r.URL.RawQuery),
		RemoteAddr: web.Request(r.Context()).RemoteAddr, Size: int64(len(body)), ContentType: send.Value(headers, "content-type"),
		orgID: hook.orgID, body: body, headerText: in.Store.sealHeaders(webhookID, plain),
	}
	a := &arrival{receipt: receipt, event: eventOf(receipt, plain)}
	if hook.deduper == nil {
		return a, nil
	}
	a.dedupeFor = hook.deduper.window
	parsed := 0
	if hook.deduper.path != nil {
		parsed = len(body)
	}
	return a, in.inTurn(context.WithoutCancel(r.Context()), hook.orgID, parsed, func() {
		a.dedupeKey = hook.deduper.key(receipt, headers)
	})
}

func countFields(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// body reads the whole body. It returns TooLarge (for a chunked body too), Malformed if the body ends
// early or arrives too slowly, and Unavailable if there is no memory for it.
func (in *Ingest) body(w http.ResponseWriter, r *http.Request, memory *budget.Charge) ([]byte, error) {
	if r.ContentLength > in.Limit {
		w.Header().Set("Connection", "close") // we don't read the rest
		return nil, in.tooLarge()
	}
	if !memory.Take(budget.RequestBytes + headerBytes(r)) {
		w.Header().Set("Connection", "close")
		return nil, errBusy()
	}
	if r.ContentLength == 0 {
		return []byte{}, nil
	}
	deadline := http.NewResponseController(w).SetReadDeadline
	limited := http.MaxBytesReader(w, r.Body, in.Limit)
	body, err := budget.ReadAll(memory, budget.Body.Reader(limited, deadline), r.ContentLength)
	if err == nil {
		return body, nil
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, in.tooLarge()
	case errors.Is(err, budget.ErrFull):
		budget.Drain(limited, deadline)
		w.Header().Set("Connection", "close")
		return nil, errBusy()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errs.New(errs.Malformed, "the body was not sent in time")
	}
	return nil, errs.New(errs.Malformed, "the body could not be read to its end")
}

// headerBytes estimates the memory that a request's query and header take.
func headerBytes(r *http.Request) int64 {
	n := len(r.URL.RawQuery)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	return int64(n)
}

func errBusy() error { return errs.Unavailablef(nil, "too many requests are waiting to be stored") }

func (in *Ingest) tooLarge() error {
	return errs.New(errs.TooLarge, "the body is larger than %d bytes", in.Limit)
}

// check compares a token and returns its webhook's. All mistakes get the same error, so that a caller
// cannot probe for ids.
func (in *Ingest) check(ctx context.Context, webhookID, value string) (token, error) {
	t, err := in.tokens.Get(webhookID, func() (token, error) { return in.Store.token(ctx, webhookID) })
	if errors.Is(err, db.ErrNoRows) || errs.KindOf(err) == errs.Invalid {
		return token{}, errNoWebhook()
	}
	if err != nil {
		return token{}, err
	}
	sum := sha256.Sum256([]byte(value))
	if subtle.ConstantTimeCompare(sum[:], t.hash[:]) != 1 {
		return token{}, errNoWebhook()
	}
	return t, nil
}
