// Package web owns how HTTP requests become typed values and how values and errors become answers.
//
// The walk of a management request: Observe (id, panic, log line) → ServeMux → the route's guard (authentication, permission: package server)
// → the body's rules (checkedBody) → Idempotency, where a key was sent → huma (parameters and body into a typed input, validated) → the
// handler, which returns a value or an error → Write or Fail, in the form of the request's Face.
//
// A Route is made by On, from one line of the table in package server. huma gives decoding, validation and the OpenAPI document; its
// way of writing answers and errors is not used, since there are two faces and it echoes values.
package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steward/internal/auth"
	"steward/internal/errs"
)

// Route is one line of the route table.
type Route struct {
	Method     string
	Path       string
	Permission auth.Permission
	// Status is the status of success on the root face.
	Status  int
	Summary string

	takesBody bool
	maxBody   int64
	mount     func(api huma.API, op huma.Operation)
}

// Pattern is the route's place in a ServeMux.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// WithMaxBody gives the route with another limit for its body than MaxBody.
func (r Route) WithMaxBody(n int64) Route {
	r.maxBody = n
	return r
}

// On makes a route: `GET /path/{id}`, who may, the status of success, what it does, and the method that does it.
func On[I, O any](pattern string, p auth.Permission, status int, summary string, handle func(context.Context, *I) (O, error)) Route {
	method, path, _ := strings.Cut(pattern, " ")
	mustBeExported(pattern, reflect.TypeFor[I]())
	_, takesBody := reflect.TypeFor[I]().FieldByName("Body")
	return Route{
		Method: method, Path: path, Permission: p, Status: status, Summary: summary, takesBody: takesBody, maxBody: MaxBody,
		mount: func(api huma.API, op huma.Operation) {
			op.Responses = responses(api.OpenAPI().Components.Schemas, status, reflect.TypeFor[O]())
			huma.Register(api, op, func(ctx context.Context, in *I) (*answer, error) {
				value, err := handle(ctx, in)
				return &answer{Body: func(hc huma.Context) { send(hc, status, value, err) }}, nil
			})
		},
	}
}

// mustBeExported keeps a trap shut: huma passes over embedded structs that are not exported, so that their parameters would stay empty.
func mustBeExported(pattern string, input reflect.Type) {
	for i := range input.NumField() {
		if f := input.Field(i); f.Anonymous && !f.IsExported() {
			panic(pattern + ": the embedded struct " + f.Name + " must be exported")
		}
	}
}

// answer hands the writing over to send.
type answer struct{ Body func(huma.Context) }

func send(hc huma.Context, status int, value any, err error) {
	r, w := humago.Unwrap(hc)
	if err != nil {
		Fail(w, r, err)
		return
	}
	Write(w, r, status, value)
}

// Guard decides whether a request may use a route. It gives the request to go on with, in whose context auth.From finds the caller; or it
// answers itself and gives nil.
type Guard func(route Route, w http.ResponseWriter, r *http.Request) *http.Request

// API is the table made live.
type API struct {
	mux  *http.ServeMux
	huma huma.API
}

// hooks are huma's process-wide settings; they are the same for every API.
var hooks sync.Once

// Idempotent serves a POST that carries an Idempotency-Key: it writes the response that is stored for the key, or calls next
// and stores its response. body is the whole body of the request.
type Idempotent func(w http.ResponseWriter, r *http.Request, key string, body []byte, next http.Handler)

// NewAPI mounts a table. Requests for paths or methods that are not in it get 404 or 405 in the face's own form. Without
// idempotent, Idempotency-Key is ignored.
func NewAPI(table []Route, guard Guard, idempotent Idempotent) *API {
	hooks.Do(func() {
		huma.DefaultArrayNullable = false
		huma.NewErrorWithContext = fromHuma
	})
	a := &API{mux: http.NewServeMux()}
	wrapped := &guardedMux{mux: a.mux, guard: guard, idempotent: idempotent, routes: map[string]Route{}}
	a.huma = humago.New(wrapped, document())
	for _, r := range table {
		wrapped.routes[r.Pattern()] = r
		r.mount(a.huma, operation(r))
	}
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// Handle adds a route that stands outside the table: health, documents, protocols.
func (a *API) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, Named(pattern, h)) }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.ContainsRune(r.URL.Path, 0) || strings.Contains(r.URL.RawQuery, "%00") {
		Fail(w, r, errs.New(errs.Malformed, "the address must not hold the character U+0000"))
		return
	}
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a writer that has none is a test's
	}
	a.mux.ServeHTTP(w, r)
}

// bodyTime is how long a request's body may take to arrive, also that of a request which was refused before anybody read it: one that
// never comes must not hold its connection for ever.
const bodyTime = time.Minute

// unknown answers what no other pattern took. ServeMux would do it in plain text.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		Fail(w, r, errs.New(errs.NotFound, "there is no such path; GET /openapi.json lists those that are"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Fail(w, r, errs.New(errs.MethodNotAllowed, "this path takes %s", strings.Join(allowed, ", ")))
}

// guardedMux is what huma registers its handlers on: each gets its route's guard and rules in front.
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
		body, err := checkedBody(w, r, route)
		if err == nil {
			err = checkQuery(r.URL.RawQuery)
		}
		if err != nil {
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

// checkQuery refuses a query with a broken part, which parsing would leave out: a filter must not get lost without a word.
func checkQuery(raw string) error {
	if !strings.ContainsAny(raw, "%;") {
		return nil
	}
	if _, err := url.ParseQuery(raw); err != nil {
		return errs.New(errs.Malformed, "the query is not in the form a=b&c=d, with %% and two hexadecimal digits for special characters")
	}
	return nil
}

// ServeHTTP implements humago.Mux.
func (g *guardedMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// responses documents what a route answers: its value, or a Problem.
func responses(schemas huma.Registry, status int, value reflect.Type) map[string]*huma.Response {
	ok := &huma.Response{Description: http.StatusText(status), Headers: headersOf(value)}
	switch {
	case value == reflect.TypeFor[Raw]():
		ok.Content = map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
	case status != http.StatusNoContent && value != reflect.TypeFor[None]():
		ok.Content = map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(value, true, "")}}
	}
	problem := schemas.Schema(reflect.TypeFor[Problem](), true, "")
	return map[string]*huma.Response{
		strconv.Itoa(status): ok,
		"4XX":                {Description: "Refused", Content: map[string]*huma.MediaType{Bare.FailureType: {Schema: problem}}},
	}
}
