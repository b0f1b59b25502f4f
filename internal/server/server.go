package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/account"
	"steward/internal/account/organization"
	"steward/internal/alert"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/budget"
	"steward/internal/console"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/eval"
	"steward/internal/idempotency"
	"steward/internal/object"
	"steward/internal/oidc"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/registration"
	"steward/internal/oidc/upstream"
	"steward/internal/resource"
	"steward/internal/sdk"
	"steward/internal/search"
	"steward/internal/status"
	"steward/internal/thread"
	"steward/internal/web"
	"steward/internal/webhook"
	"steward/internal/webhook/replay"
	"steward/internal/webhook/tail"
)

// Server is the HTTP API.
type Server struct {
	Account  *account.Handler
	Org      *organization.Handler
	Key      *apikey.Handler
	Audit    *audit.Handler
	Status   *status.Handler
	Alert    *alert.Handler
	Search   *search.Handler
	Eval     *eval.Handler
	OIDC     *oidc.Handler
	Upstream *upstream.Handler
	Tokens   *registration.Handler
	Object   *object.Handler
	Resource *resource.Handler
	Thread   *thread.Handler
	Socket   *thread.Socket
	Webhook  *webhook.Handler
	Ingest   *webhook.Ingest
	Tail     *tail.Server
	Replay   *replay.Handler
	// Databases serves databases to their clients, at /db/{id}/.
	Databases http.Handler

	Provider *provider.Provider
	Console  *console.Console

	Auth        *Authenticator
	Idempotency *idempotency.Store
	// Memory holds request bodies and large responses.
	Memory *budget.Pool
	// Decoding decodes large bodies one after the other.
	Decoding *web.Decoding
	Proxies  web.Proxies
	Log      *slog.Logger
	// Stopping is true once the process is stopping.
	Stopping atomic.Bool
	// Disk is the database's disk, unless that is elsewhere.
	Disk *disk.Space
	// Trace wraps the handler for all requests; nil for none.
	Trace func(http.Handler) http.Handler
	// Done is called after each request, for log and metrics.
	Done func(web.Served)
}

// IngestRoute is the pattern for the URLs at which webhooks accept events.
const IngestRoute = "/in/{id}/{token}"

// Handler returns the handler for all paths: the table at the root, under /sdk and for the console,
// protocols, documentation and health checks.
func (s *Server) Handler() http.Handler {
	api := web.NewAPI(s.Routes(), s.guard(s.Auth.Guard), s.Idempotency.Serve)
	api.Memory = s.Memory
	api.Decoding = s.Decoding
	api.ServeDocs()
	api.Handle("GET /thread/ws", s.Socket)
	api.Handle(IngestRoute, s.Ingest)
	api.Handle("/db/{id}/", s.Databases)
	s.Provider.Mount(api.Handle)
	api.Handle("GET /healthz", http.HandlerFunc(s.health))
	api.Handle("GET /readyz", http.HandlerFunc(s.ready))
	api.Handle(sdk.Prefix, sdk.Mount(api))
	api.Handle(sdk.Prefix+"/", sdk.Mount(api))
	s.Console.Mount(api.Handle, s.consoleAPI())
	observed := web.Observe(s.Log, s.Done, s.Console.AtBaseURL(api))
	if s.Trace != nil {
		observed = s.Trace(observed)
	}
	return web.Behind(s.Proxies, observed)
}

// consoleAPI returns the table's handler for the console. It builds it with the first request: a
// process that serves no console has the table only once.
func (s *Server) consoleAPI() http.Handler {
	made := sync.OnceValue(func() *web.API {
		api := web.NewAPI(s.Routes(), s.guard(s.Auth.guard(s.Console.Caller)), s.Idempotency.Serve)
		api.Memory = s.Memory
		api.Decoding = s.Decoding
		return api
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

// guard returns a guard that also refuses additions to the database while its disk is almost full,
// so that there is space left for deleting things.
func (s *Server) guard(next web.Guard) web.Guard {
	return func(route web.Route, w http.ResponseWriter, r *http.Request) *http.Request {
		r = next(route, w, r)
		if r == nil || !route.Adds() {
			return r
		}
		if err := s.Disk.Room(); err != nil {
			web.Fail(w, r, err)
			return nil
		}
		return r
	}
}

type health struct {
	Status string `json:"status"`
	Disk   string `json:"disk,omitempty"`
}

// health responds with 200 as long as the process is alive.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	web.Write(w, r, http.StatusOK, health{Status: "ok"})
}

// Ready returns an error if the process cannot serve requests.
func (s *Server) Ready(ctx context.Context) error {
	if s.Stopping.Load() {
		return errStopping
	}
	return s.Idempotency.DB.Ping(ctx)
}

var errStopping = errors.New("the process is stopping")

// ready responds with 503 while the database is unreachable or the process is stopping. An almost
// full disk still gets a 200, whose body says so: clients can read and delete things.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	err := s.Ready(ctx)
	// HAProxy lets requests finish on a server that answers 404, and cuts them off on one that
	// fails.
	if errors.Is(err, errStopping) && r.URL.RawQuery == "draining=404" {
		web.Fail(w, r, errs.New(errs.NotFound, "the process is stopping"))
		return
	}
	if err != nil {
		web.Fail(w, r, errs.Unavailablef(err, "not ready"))
		return
	}
	h := health{Status: "ready"}
	if s.Status.Disk.Room() != nil {
		h.Disk = "almost full"
	}
	web.Write(w, r, http.StatusOK, h)
}
