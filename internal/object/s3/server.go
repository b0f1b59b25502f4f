package s3

import (
	"cmp"
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

// DefaultRegion is the region that clients sign for by default.
const DefaultRegion = "us-east-1"

// MaxExpiry caps a presigned URL's lifetime.
const MaxExpiry = 7 * 24 * time.Hour

// Server serves the S3 API. Do not change its fields after Start.
type Server struct {
	Buckets *object.Buckets
	Index   *object.Index
	Uploads *object.Uploads
	Blobs   *object.Blobs
	// Origin is this server's public origin, such as https://s3.example.com. Presigned URLs begin with it.
	Origin string
	// Console is the base URL's origin. CORS always allows it.
	Console string
	// Domain is the domain under which buckets have host names, or "" for path-style URLs only.
	Domain string
	Limits Limits
	// Messages is the memory for bodies that are not objects, from NewMessages. A request that finds no
	// room gets SlowDown. The default is 512 MiB.
	Messages *budget.Pool
	// Slots has a slot for each request in flight, from NewSlots. A request that finds none gets SlowDown.
	// The default is 2,000.
	Slots *budget.Pool
	// TLS wraps a listener so that it serves TLS. It is nil for plain HTTP.
	TLS func(net.Listener) net.Listener
	Log *slog.Logger
	Now func() time.Time
	// Trace starts a request's span, which continues the trace in the client's traceparent, and returns its
	// context. Done ends the span. Trace may be nil.
	Trace func(ctx context.Context, traceparent string) context.Context
	// Done is called after each request. It may be nil.
	Done func(web.Served)

	http    *http.Server
	ended   chan error
	stop    context.CancelFunc
	leaving atomic.Bool
}

// Limits bound how much clients may use at once. Zero values mean the defaults.
type Limits struct {
	// Connections caps how many we serve at once. We close others.
	Connections int
	// Stall is how long a client may neither send nor receive anything, and how long it may take to send
	// its headers.
	Stall time.Duration
	// Rate is the least that a client must send of a body, in bytes per second averaged over Stall.
	Rate int64
	// Idle limits the time that a connection stays open between two requests.
	Idle time.Duration
	// Operation limits a request that carries no object.
	Operation time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Connections: cmp.Or(l.Connections, 10_000),
		Stall:       cmp.Or(l.Stall, time.Minute),
		Rate:        cmp.Or(l.Rate, 1<<10),
		Idle:        cmp.Or(l.Idle, 2*time.Minute),
		Operation:   cmp.Or(l.Operation, 30*time.Second),
	}
}

// maxHeader roughly caps a request's headers, in bytes.
const maxHeader = 8 << 10

// Start serves the listener's connections in the background until Shutdown.
func (s *Server) Start(listener net.Listener) error {
	s.Limits = s.Limits.withDefaults()
	if s.Messages == nil {
		s.Messages = NewMessages(512 << 20)
	}
	if s.Slots == nil {
		s.Slots = NewSlots(2_000)
	}
	base, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: s.Limits.Stall, IdleTimeout: s.Limits.Idle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	// The limits sit below TLS: a TLS write that was cut off cannot be continued.
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

// refuse returns a handler that answers malformed or oversized requests, which net/http rejects itself.
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

// Ended returns a channel that receives once when the server has ended: nil after Shutdown, the error
// otherwise.
func (s *Server) Ended() <-chan error { return s.ended }

// Leave makes clients reconnect for their next request, because the server stops soon.
func (s *Server) Leave() { s.leaving.Store(true) }

// Shutdown closes the listener and waits for requests in flight until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down S3: %w", errors.Join(err, s.http.Close()))
	}
	return nil
}

// Presign returns a path-style URL with which anybody may GET or PUT an object until it expires.
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
