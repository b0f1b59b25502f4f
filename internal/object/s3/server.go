package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"steward/internal/budget"
	"steward/internal/object"
	"steward/internal/web"
)

// DefaultRegion is the region that clients sign for unless they are told another one.
const DefaultRegion = "us-east-1"

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
	// Region is the region that clients must sign for; "" means DefaultRegion.
	Region string
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
	// Done is called after each request, at the beginning of its response. It may be nil.
	Done func(web.Served)

	base    context.Context // of all requests
	app     *fiber.App
	ended   chan error
	stop    context.CancelFunc
	leaving atomic.Bool
}

// Limits bound what clients may use at once. Zero values mean the defaults.
type Limits struct {
	// Connections and Requests are the maximum numbers of both. Beyond them, clients get SlowDown.
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

// Start serves the connections of a listener in the background until Shutdown.
func (s *Server) Start(listener net.Listener) error {
	s.Limits = s.Limits.withDefaults()
	if s.Messages == nil {
		s.Messages = NewMessages(512 << 20)
	}
	setRegion(&s.Region)
	base, stop := context.WithCancel(context.Background())
	api, err := s.newAPI(base)
	if err != nil {
		stop()
		return fmt.Errorf("serve S3: %w", err)
	}
	app, err := appOf(api)
	if err != nil {
		stop()
		return fmt.Errorf("serve S3: %w", err)
	}
	s.configure(app.Server())
	s.app = app
	s.base = base
	s.stop = stop
	s.ended = make(chan error, 1)
	// The limits are below TLS, of which a write that was cut off cannot be continued.
	var limited net.Listener = &connListener{listener, s.Limits}
	if s.TLS != nil {
		limited = s.TLS(limited)
	}
	go func() {
		s.ended <- app.Listener(limited, fiber.ListenConfig{DisableStartupMessage: true})
	}()
	return nil
}

// configure sets what the protocol leaves at its defaults: no timeouts, and forms that are read into
// memory and temporary files before anybody has looked at them.
func (s *Server) configure(server *fasthttp.Server) {
	server.Name = "Steward"
	server.ReadTimeout = s.Limits.Stall
	server.IdleTimeout = s.Limits.Idle
	server.DisablePreParseMultipartForm = true
	server.ErrorHandler = sendUnreadable
}

// appOf returns the application behind the protocol. It is private there, which leaves no other way
// to serve a listener of ours, nor to configure the server.
func appOf(api *s3api.S3ApiServer) (*fiber.App, error) {
	field := reflect.ValueOf(api).Elem().FieldByName("app")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*fiber.App]() {
		return nil, errors.New("this version of versitygw has no fiber application")
	}
	return (*fiber.App)(field.UnsafePointer()), nil
}

func setRegion(region *string) {
	if *region == "" {
		*region = DefaultRegion
	}
}

// newAPI returns the server of the protocol. Its root account, which may do everything, has a key
// that nobody knows, and the gateway refuses it.
func (s *Server) newAPI(base context.Context) (*s3api.S3ApiServer, error) {
	root := middlewares.RootUserConfig{Access: rand.Text(), Secret: rand.Text() + rand.Text()}
	accounts := &accounts{buckets: s.Buckets, limit: s.Limits.Operation, log: s.Log}
	backend := &gateway{
		base: base, buckets: s.Buckets, index: s.Index, uploads: s.Uploads, blobs: s.Blobs, console: s.Console,
		limits: s.Limits, log: s.Log,
	}
	forms := &forms{gateway: backend, accounts: accounts, root: root, region: s.Region, domain: s.Domain, now: s.Now}
	options := []s3api.Option{
		s3api.WithQuiet(),
		s3api.WithKeepAlive(),
		s3api.WithDisableACL(),
		s3api.WithConcurrencyLimiter(s.Limits.Connections, s.Limits.Requests),
		s3api.WithMiddleware("/", s.around),
		s3api.WithMiddleware("/:bucket", forms.handler()),
	}
	if s.Domain != "" {
		options = append(options, s3api.WithHostStyle(s.Domain))
	}
	return s3api.New(backend, root, s.Region, accounts, nil, nil, nil, nil, options...)
}

// Ended returns a channel that receives when the server has ended: nil after Shutdown, otherwise
// the reason.
func (s *Server) Ended() <-chan error { return s.ended }

// Leave has clients connect anew for their next request, as the server stops soon.
func (s *Server) Leave() { s.leaving.Store(true) }

// Shutdown closes the listener and waits for requests in flight, at most until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	if err := s.app.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("shut down S3: %w", err)
	}
	return nil
}
