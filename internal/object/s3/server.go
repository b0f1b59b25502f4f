package s3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"steward/internal/budget"
	"steward/internal/errs"
	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
	"steward/internal/web"
)

// DefaultRegion is the region that clients sign for unless they are told another one.
const DefaultRegion = "us-east-1"

// MaxExpiry is the maximum time for which a presigned URL is valid.
const MaxExpiry = 7 * 24 * time.Hour

// Server serves the S3 API. Its fields must not be changed after Start.
type Server struct {
	// Buckets, Index, Uploads and Blobs are what it serves.
	Buckets *object.Buckets
	Index   *object.Index
	Uploads *object.Uploads
	Blobs   *object.Blobs
	// Origin is the public origin of this server, such as https://s3.example.com, for presigned URLs.
	Origin string
	// Console is the origin of the base URL, which CORS always allows.
	Console string
	// Domain is the domain below which buckets have a host name, or "" for path-style only.
	Domain string
	Limits Limits
	// Messages is the memory for bodies that are not objects, made by NewMessages. Requests that find no
	// room get SlowDown. By default it has 512 MiB.
	Messages *budget.Pool
	// TLS returns a listener that serves TLS on the connections of another one; nil for plain HTTP.
	TLS func(net.Listener) net.Listener
	Log *slog.Logger
	Now func() time.Time
	// Trace returns the context of a request with a span, which goes on with the trace of the client's
	// traceparent. Done ends the span. It may be nil.
	Trace func(ctx context.Context, traceparent string) context.Context
	// Done is called after each request. It may be nil.
	Done func(web.Served)

	http    *http.Server
	slots   chan struct{} // taken by requests
	ended   chan error
	stop    context.CancelFunc
	leaving atomic.Bool
}

// Limits bound what clients may use at once. Zero values mean the defaults.
type Limits struct {
	// Connections and Requests are the maximum numbers of both. Beyond them, connections are closed and
	// requests get SlowDown.
	Connections, Requests int
	// Stall is how long a client may neither send nor receive anything, and how long it may take to
	// send headers.
	Stall time.Duration
	// Rate is how many bytes of a body a client must send in a second, on an average over Stall.
	Rate int64
	// Idle is how long a connection is kept between two requests.
	Idle time.Duration
	// Operation is how long a request that carries no object may take.
	Operation time.Duration
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Connections, 10_000)
	setDefault(&l.Requests, 2_000)
	setDefault(&l.Stall, time.Minute)
	setDefault(&l.Rate, 1<<10)
	setDefault(&l.Idle, 2*time.Minute)
	setDefault(&l.Operation, 30*time.Second)
	return l
}

func setDefault[T int | int64 | time.Duration](value *T, to T) {
	if *value == 0 {
		*value = to
	}
}

// maxHeader is about the maximum size of the headers of a request.
const maxHeader = 8 << 10

// Start serves the connections of a listener in the background until Shutdown.
func (s *Server) Start(listener net.Listener) error {
	s.Limits = s.Limits.withDefaults()
	if s.Messages == nil {
		s.Messages = NewMessages(512 << 20)
	}
	s.slots = make(chan struct{}, s.Limits.Requests)
	base, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: s.Limits.Stall, IdleTimeout: s.Limits.Idle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	// The limits are below TLS, of which a write that was cut off cannot be continued.
	var limited net.Listener = &connListener{Listener: listener, limits: s.Limits}
	if s.TLS != nil {
		limited = s.TLS(limited)
	}
	limited = (&web.Refusals{Handler: s.refuse}).Attach(s.http, limited)
	s.ended = make(chan error, 1)
	go func() {
		err := s.http.Serve(limited)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.ended <- err
	}()
	return nil
}

// refuse returns a handler that responds to what is not an HTTP request, or is too large.
func (s *Server) refuse(refused *errs.Error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := s.newRequest(w, r)
		defer q.end()
		err := failf("BadRequest", "%s", refused.Message)
		switch {
		case refused.Kind == errs.HeadersTooLarge:
			err = fail("RequestHeaderSectionTooLarge")
		case refused.Kind == errs.Malformed && q.Method != "":
			err = failf("InvalidURI", "%s", refused.Message)
		}
		q.respond(nil, err)
	})
}

// Ended returns a channel that receives when the server has ended: nil after Shutdown, otherwise
// the reason.
func (s *Server) Ended() <-chan error { return s.ended }

// Leave has clients connect anew for their next request, as the server stops soon.
func (s *Server) Leave() { s.leaving.Store(true) }

// Shutdown closes the listener and waits for requests in flight, at most until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down S3: %w", errors.Join(err, s.http.Close()))
	}
	return nil
}

// Presign returns a path-style URL with which anybody may GET or PUT an object for a time.
func (s *Server) Presign(b *object.Bucket, key, method string, expiry time.Duration) (string, error) {
	if expiry < time.Second || expiry > MaxExpiry {
		return "", fmt.Errorf("presign: expiry %s is not between 1 second and 7 days", expiry)
	}
	target, err := url.Parse(s.Origin)
	if err != nil {
		return "", fmt.Errorf("presign: %w", err)
	}
	target.Path = "/" + b.Name + "/" + key
	return sigv4.Presign(sigv4.Presigned{
		Method: method, URL: *target, AccessKey: b.AccessKey, Secret: b.SecretKey, Region: DefaultRegion, At: s.Now(), Expires: expiry,
	}), nil
}
