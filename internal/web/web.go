// Package web turns HTTP requests into typed values, and values and errors into responses.
//
// A request of the management API passes through Observe (request ID, panics, deadlines, log line),
// the ServeMux, the Guard of its route (authentication and permission, in package server), the
// checks of its body and query, Idempotent if it has an Idempotency-Key, huma, which decodes and
// validates it, and the handler. The handler returns a value or an error, which Write or Fail
// writes in the form of the request's Face.
//
// On makes the Route of a line of the table in package server. huma also generates the OpenAPI
// document. It does not write responses, since it knows one form of them only and its errors
// contain values of the request.
package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steward/internal/auth"
	"steward/internal/errs"
)

// Route is a line of the route table.
type Route struct {
	Method     string
	Path       string
	Permission auth.Permission
	// Status is the status of a successful response on the root face.
	Status  int
	Summary string

	takesBody bool
	maxBody   int64
	mount     func(api huma.API, op huma.Operation)
}

// Pattern returns the route's pattern for a ServeMux.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// WithMaxBody returns the route with a limit for its body other than MaxBody.
func (r Route) WithMaxBody(n int64) Route {
	r.maxBody = n
	return r
}

// On returns a route with a pattern such as `GET /path/{id}`, whose handler's result is written
// with status.
func On[I, O any](pattern string, p auth.Permission, status int, summary string,
	handle func(context.Context, *I) (O, error),
) Route {
	method, path, _ := strings.Cut(pattern, " ")
	mustBeExported(pattern, reflect.TypeFor[I]())
	_, takesBody := reflect.TypeFor[I]().FieldByName("Body")
	return Route{
		Method: method, Path: path, Permission: p, Status: status, Summary: summary,
		takesBody: takesBody, maxBody: MaxBody,
		mount: func(api huma.API, op huma.Operation) {
			op.Responses = responses(api.OpenAPI().Components.Schemas, status, reflect.TypeFor[O]())
			huma.Register(api, op, func(ctx context.Context, in *I) (*output, error) {
				value, err := handle(ctx, in)
				return &output{Body: func(hc huma.Context) { send(hc, status, value, err) }}, nil
			})
		},
	}
}

// mustBeExported panics if the input of a route embeds an unexported struct, since huma would leave
// its parameters empty.
func mustBeExported(pattern string, input reflect.Type) {
	for i := range input.NumField() {
		if f := input.Field(i); f.Anonymous && !f.IsExported() {
			panic(pattern + ": the embedded struct " + f.Name + " must be exported")
		}
	}
}

// output makes huma leave the writing of a response to send.
type output struct{ Body func(huma.Context) }

func send(hc huma.Context, status int, value any, err error) {
	r, w := humago.Unwrap(hc)
	if err != nil {
		Fail(w, r, err)
		return
	}
	Write(w, r, status, value)
}

// Guard decides whether a request may use a route. It returns the request to continue with, whose
// context carries the caller (auth.From), or it writes an error and returns nil.
type Guard func(route Route, w http.ResponseWriter, r *http.Request) *http.Request

// API serves a route table.
type API struct {
	mux  *http.ServeMux
	huma huma.API
}

// configureHuma sets huma's global settings, which are the same for every API.
var configureHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewErrorWithContext = newHumaError
})

// Idempotent serves a POST that carries an Idempotency-Key: it writes the response that is stored
// for the key, or calls next and stores its response. body is the whole body of the request.
type Idempotent func(w http.ResponseWriter, r *http.Request, key string, body []byte, next http.Handler)

// NewAPI returns an API that serves the routes of a table. Other paths and methods get 404 or 405
// in the form of the request's face. If idempotent is nil, Idempotency-Key is ignored.
func NewAPI(table []Route, guard Guard, idempotent Idempotent) *API {
	configureHuma()
	a := &API{mux: http.NewServeMux()}
	guarded := &guardedMux{mux: a.mux, guard: guard, idempotent: idempotent, routes: map[string]Route{}}
	a.huma = humago.New(guarded, document())
	for _, r := range table {
		guarded.routes[r.Pattern()] = r
		r.mount(a.huma, operation(r))
	}
	a.mux.HandleFunc("/", a.notFound)
	return a
}

// Handle adds a handler that is not part of the table, such as those of protocols.
func (a *API) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, Named(pattern, h)) }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.ContainsRune(r.URL.Path, 0) || strings.Contains(r.URL.RawQuery, "%00") {
		Fail(w, r, errs.New(errs.Malformed, "the URL must not contain the character U+0000"))
		return
	}
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // httptest has no deadlines
	}
	a.mux.ServeHTTP(w, r)
}

// bodyTimeout is how long a client may take to send the body of a request, even if the request is
// refused without reading it.
const bodyTimeout = time.Minute

// notFound serves what no other pattern matches; the errors of ServeMux are plain text.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		Fail(w, r, errs.New(errs.NotFound, "no such path; see GET /openapi.json"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Fail(w, r, errs.New(errs.MethodNotAllowed, "method not allowed; this path supports %s", strings.Join(allowed, ", ")))
}

// guardedMux is the mux that huma registers its handlers on. It calls each after the guard of its
// route and the checks of body and query.
type guardedMux struct {
	mux        *http.ServeMux
	guard      Guard
	idempotent Idempotent
	routes     map[string]Route
}

// HandleFunc implements humago.Mux.
func (g *guardedMux) HandleFunc(pattern string, next func(http.ResponseWriter, *http.Request)) {
	route := g.routes[pattern]
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		Request(r.Context()).Route = pattern
		if r = g.guard(route, w, r); r == nil {
			return
		}
		body, err := readBody(w, r, route)
		if err != nil {
			Fail(w, r, err)
			return
		}
		if err := checkQuery(r.URL.RawQuery); err != nil {
			Fail(w, r, err)
			return
		}
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		keys := r.Header["Idempotency-Key"]
		if len(keys) > 0 && route.Method == http.MethodPost && g.idempotent != nil {
			g.idempotent(w, r, keys[0], body, http.HandlerFunc(next))
			return
		}
		next(w, r)
	})
}

// checkQuery returns Malformed for a query that url.ParseQuery rejects; r.URL.Query would silently
// drop the malformed parameters.
func checkQuery(raw string) error {
	if !strings.ContainsAny(raw, "%;") {
		return nil
	}
	if _, err := url.ParseQuery(raw); err != nil {
		return errs.New(errs.Malformed, "the query string is malformed; special characters must be percent-encoded")
	}
	return nil
}

// ServeHTTP implements humago.Mux.
func (g *guardedMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }
