package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"steward/internal/errs"
	"steward/internal/id"
)

// Version is the Steward-Version header: the API's major version. Within it, changes only add.
const Version = "1"

// Served describes a request that has been served.
type Served struct {
	*Meta
	Method string
	Status int
	Bytes  int // in the response
	// Received is the size of a successful S3 request's body; 0 for all other requests.
	Received int
	// At is the time when the response ended.
	At   time.Time
	Took time.Duration
	// Context is the request's context.
	Context context.Context
}

// Observe returns a handler that wraps all others. It assigns a request ID, tells browsers not to guess
// types, recovers from panics, limits how long clients may take to read responses, and calls done, if
// set, after each request.
func Observe(log *slog.Logger, done func(Served), next http.Handler) http.Handler {
	return &observer{log: log, done: done, next: next, timeout: writeTimeout{base: 30 * time.Second, rate: 64 << 10}}
}

type observer struct {
	log     *slog.Logger
	done    func(Served)
	next    http.Handler
	timeout writeTimeout
}

func (o *observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s := &scope{Context: r.Context(), Meta: Meta{ID: requestID(r), Route: "unknown", RemoteAddr: RemoteHost(r), log: o.log}}
	r = r.WithContext(s)
	h := w.Header()
	h["X-Request-Id"] = []string{s.ID}
	h["Steward-Version"] = versionHeader
	h["X-Content-Type-Options"] = noSniffHeader
	rec := &recorder{Recorder: Recorder{ResponseWriter: w}, timeout: o.timeout}
	defer func() {
		if p := recover(); p != nil {
			// http.ErrAbortHandler is for the server.
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			Log(r.Context()).Error("panic", "value", p, "stack", string(debug.Stack()))
			if rec.Status == 0 {
				Fail(rec, r, &errs.Error{Kind: errs.Internal, Message: "internal error"})
			}
		}
		if o.done == nil {
			return
		}
		took := time.Since(start)
		o.done(Served{
			Meta: &s.Meta, Method: r.Method, Status: rec.Status, Bytes: rec.Bytes, At: start.Add(took), Took: took, Context: s,
		})
	}()
	o.next.ServeHTTP(rec, r)
}

// versionHeader and noSniffHeader are shared by all responses, so nobody may modify them.
var (
	versionHeader = []string{Version}
	noSniffHeader = []string{"nosniff"}
)

func requestID(r *http.Request) string {
	if sent := r.Header.Get("X-Request-Id"); id.Foreign(sent) {
		return sent
	}
	return id.New(id.Request)
}

// RemoteHost returns a client's address without its port.
func RemoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// writeTimeout is how long a client may take to read a write: base, plus the time for its size at rate
// bytes per second. A client that stalls must not hold a response in memory. net/http's server clears the
// deadline after each response, and when a connection is hijacked.
type writeTimeout struct {
	base time.Duration
	rate int
}

// Recorder records a response's status, 0 before there is one, and its size.
type Recorder struct {
	http.ResponseWriter
	Status, Bytes int
}

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	r.Status = cmp.Or(r.Status, status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *Recorder) Write(p []byte) (int, error) {
	r.Status = cmp.Or(r.Status, http.StatusOK)
	n, err := r.ResponseWriter.Write(p)
	r.Bytes += n
	return n, err
}

// Unwrap lets http.ResponseController and WebSocket upgrades reach the connection.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// recorder also sets a response's deadlines.
type recorder struct {
	Recorder
	timeout writeTimeout
}

func (r *recorder) WriteHeader(status int) {
	r.setDeadline(0)
	r.Recorder.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.setDeadline(len(p))
	return r.Recorder.Write(p)
}

// setDeadline bounds the time for writing size bytes.
func (r *recorder) setDeadline(size int) {
	allowed := r.timeout.base + time.Duration(size)*time.Second/time.Duration(r.timeout.rate)
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(allowed)) // fails for httptest, which has no deadlines
}
