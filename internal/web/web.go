// Package web turns HTTP requests into typed values, and values and errors into responses.
//
// A management API request passes through Observe (request ID, panics, deadlines, log line), the
// ServeMux, its route's Guard (authentication and permission, in package server), Idempotent if it has an
// Idempotency-Key, our query checks and body decoding (validate.go), huma, which decodes its parameters,
// and finally the handler. The handler returns a value or an error, and Write or Fail writes it in the
// request's Face.
//
// On makes a Route for the table in package server. huma also generates the OpenAPI document. It does not
// write responses, since it supports only one format and its errors contain the request's values.
package web

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/errs"
)

// Route is an entry in the route table.
type Route struct {
	Method     string
	Path       string
	Permission auth.Permission
	// Status is the status for success on the root face.
	Status int

	// ID, Tag and Summary describe the operation in the OpenAPI document. ID is part of the API: with a
	// capital letter it names a method in package client.
	ID      string
	Tag     string
	Summary string

	errors  []int     // further statuses for errors
	other   *response // an alternative response
	small   bool
	recent  bool
	body    reflect.Type // nil if the route takes no body
	maxBody int64
	rules   Rules // nil if Checked has all rules
	mount   func(api huma.API, op huma.Operation)
}

// Pattern returns the route's pattern for a ServeMux.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// WithMaxBody sets a limit for the body, in bytes, instead of MaxBody.
func (r Route) WithMaxBody(n int64) Route {
	r.maxBody = n
	return r
}

// WithRules adds rules that Checked cannot express.
func (r Route) WithRules(rules Rules) Route {
	r.rules = rules
	return r
}

// WithErrors documents error statuses that do not follow from the route's method, path and parameters.
func (r Route) WithErrors(statuses ...int) Route {
	r.errors = statuses
	return r
}

// Small marks a route that adds next to nothing. We serve it even on a full disk, although it writes.
func (r Route) Small() Route {
	r.small = true
	return r
}

// RecentSignIn requires console users to have signed in recently. It does not affect API keys and access
// tokens.
func (r Route) RecentSignIn() Route {
	r.recent = true
	return r
}

// NeedsRecentSignIn reports whether console users must have signed in recently.
func (r Route) NeedsRecentSignIn() bool { return r.recent }

// Adds reports whether the route's requests make the database grow.
func (r Route) Adds() bool {
	return (r.Method == http.MethodPost || r.Method == http.MethodPut) && !r.small
}

// response is a status with its body's type.
type response struct {
	status int
	value  reflect.Type
}

// WithAlternative documents another successful response. The handler's value must implement alternative.
func (r Route) WithAlternative(status int, value any) Route {
	r.other = &response{status: status, value: reflect.TypeOf(value)}
	return r
}

// Group sets a tag on routes.
func Group(tag string, routes ...Route) []Route {
	for i := range routes {
		routes[i].Tag = tag
	}
	return routes
}

// On returns a route. Its pattern looks like `GET /path/{id}`, id names its operation, and status goes
// with the handler's result.
func On[I, O any](pattern, id string, p auth.Permission, status int, summary string,
	handle func(context.Context, *I) (O, error),
) Route {
	method, path, _ := strings.Cut(pattern, " ")
	mustBeExported(pattern, reflect.TypeFor[I]())
	r := Route{Method: method, Path: path, ID: id, Permission: p, Status: status, Summary: summary, maxBody: MaxBody}
	body, takesBody := reflect.TypeFor[I]().FieldByName("Body")
	if takesBody {
		r.body = body.Type
	}
	r.mount = func(api huma.API, op huma.Operation) {
		op.Responses = responses(api.OpenAPI().Components.Schemas, r, reflect.TypeFor[O]())
		huma.Register(api, op, func(ctx context.Context, in *I) (*output, error) {
			request := parsedRequest(ctx)
			if takesBody {
				reflect.ValueOf(in).Elem().FieldByIndex(body.Index).Set(request.body)
			}
			var value O
			if request.faults.Err() == nil {
				var err error
				if value, err = handle(ctx, in); !request.faults.AddAll(err) {
					return &output{Body: func(hc huma.Context) { send(hc, status, value, err) }}, nil
				}
			}
			request.checkBody()
			if request.rules != nil && !request.faults.Full() {
				request.rules(ctx, in, &request.faults)
			}
			return &output{Body: func(hc huma.Context) { send(hc, status, nil, request.faults.Err()) }}, nil
		})
	}
	return r
}

// mustBeExported panics if a route's input embeds an unexported struct, since huma would leave its
// parameters empty.
func mustBeExported(pattern string, input reflect.Type) {
	for i := range input.NumField() {
		if f := input.Field(i); f.Anonymous && !f.IsExported() {
			panic(pattern + ": the embedded struct " + f.Name + " must be exported")
		}
	}
}

// output leaves writing the response to send.
type output struct{ Body func(huma.Context) }

func send(hc huma.Context, status int, value any, err error) {
	r, w := humago.Unwrap(hc)
	if err != nil {
		Fail(w, r, err)
		return
	}
	Write(w, r, status, value)
}

// Guard decides whether a request may use a route. It returns the request to continue with, whose context
// carries the caller (auth.From), or it writes an error and returns nil.
type Guard func(route Route, w http.ResponseWriter, r *http.Request) *http.Request

// API serves a route table.
type API struct {
	// Memory is for requests' bodies and for large responses that clients are reading. We refuse requests
	// with 503 if there is no room.
	Memory *budget.Pool
	// Decoding decodes the bodies.
	Decoding *Decoding

	mux  *http.ServeMux
	huma huma.API
}

// defaultMemory is the size of API.Memory in bytes if it is not set.
const defaultMemory = 64 << 20

// configureHuma sets huma's global settings, which are the same for every API.
var configureHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewErrorWithContext = newHumaError
	huma.ValidateStrictCasing = true
	useOwnMessages()
})

// Idempotent serves a POST that carries an Idempotency-Key. It writes the response stored for the key, or
// calls Next, outside any transaction, and stores its response.
type Idempotent func(w http.ResponseWriter, r *http.Request, k Keyed)

// Keyed is a request with an Idempotency-Key.
type Keyed struct {
	Key  string
	Body []byte // the whole body
	// Status is the route's.
	Status int
	Next   http.Handler
}

// NewAPI returns an API that serves a table's routes. Other paths and methods get 404 or 405 in the
// request's face. If idempotent is nil, the API ignores Idempotency-Key.
func NewAPI(table []Route, guard Guard, idempotent Idempotent) *API {
	configureHuma()
	a := &API{mux: http.NewServeMux(), Memory: budget.NewPool(defaultMemory, MaxBody), Decoding: NewDecoding()}
	served := &routeMux{api: a, mux: a.mux, guard: guard, idempotent: idempotent, routes: map[string]*servedRoute{}}
	a.huma = humago.New(served, document())
	for i, r := range table {
		op := operation(r)
		op.Extensions["x-order"] = i + 1
		s := &servedRoute{Route: r}
		if r.body != nil {
			s.schema = newBodySchema(r.body, a.huma.OpenAPI().Components.Schemas)
			op.RequestBody = s.schema.document()
			op.SkipValidateBody = true // routeMux decodes the body
		}
		served.routes[r.Pattern()] = s
		r.mount(a.huma, op)
		documented := documentedOperation(a.huma.OpenAPI(), r)
		s.query = queryNames(documented)
		if r.other != nil {
			addAlternative(a.huma.OpenAPI().Components.Schemas, documented, r)
		}
		addErrors(documented, r)
		addCondition(documented)
	}
	a.mux.HandleFunc("/", a.notFound)
	return a
}

// Handle adds a handler outside the table, such as a protocol's.
func (a *API) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, Named(pattern, h)) }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := checkURL(r.URL); err != nil {
		Fail(w, r, err)
		return
	}
	if r.ContentLength != 0 { // even for a request that we refuse without reading its body
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(budget.Body.Limit)) // fails for httptest, which has no deadlines
	}
	a.mux.ServeHTTP(w, r)
}

// checkURL returns Malformed for characters that cannot be stored, and NotFound for a path with empty or
// dot segments, which ServeMux would redirect.
func checkURL(u *url.URL) error {
	if strings.ContainsRune(u.Path, 0) || strings.Contains(u.RawQuery, "%00") {
		return errs.New(errs.Malformed, "the URL must not contain the character U+0000")
	}
	if !utf8.ValidString(u.Path) {
		return errs.New(errs.Malformed, "the path of the URL is not UTF-8")
	}
	escaped := u.EscapedPath()
	if clean := path.Clean("/" + escaped); escaped != clean && escaped != clean+"/" {
		return errNoPath()
	}
	return nil
}

func errNoPath() error { return errs.New(errs.NotFound, "no such path; see GET /openapi.json") }

// notFound serves all paths and methods that no other pattern matches, because ServeMux's own errors are
// plain text.
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
		Fail(w, r, errNoPath())
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Fail(w, r, errs.New(errs.MethodNotAllowed, "method not allowed; this path supports %s", strings.Join(allowed, ", ")))
}

// servedRoute is a route with everything we need to check its requests.
type servedRoute struct {
	Route
	schema *bodySchema // nil if the route takes no body
	query  []string    // names of query parameters
}

// routeMux is the mux that huma registers its handlers on. It calls each handler after the route's guard
// and the checks of query and body.
type routeMux struct {
	api        *API
	mux        *http.ServeMux
	guard      Guard
	idempotent Idempotent
	routes     map[string]*servedRoute
}

// HandleFunc implements humago.Mux.
func (m *routeMux) HandleFunc(pattern string, next func(http.ResponseWriter, *http.Request)) {
	route := m.routes[pattern]
	names := wildcards(pattern)
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		meta := Request(r.Context())
		meta.Route = pattern
		meta.Resource = resourceOf(r, names)
		w.Header()["Cache-Control"] = noStoreHeader
		if r = m.guard(route.Route, w, r); r == nil {
			return
		}
		meta.memory = m.api.Memory.Charge(orgOf(r.Context()), "")
		defer meta.memory.Release()
		body, err := readBody(w, r, route.maxBody, meta.memory)
		if err != nil {
			Fail(w, r, err)
			return
		}
		serve := func(w http.ResponseWriter, r *http.Request) {
			var p *parsed
			err := m.api.Decoding.Do(r.Context(), orgOf(r.Context()), body, func() (err error) {
				p, err = route.parse(r, body)
				return err
			})
			if err != nil {
				Fail(w, r, err)
				return
			}
			next(w, r.WithContext(context.WithValue(r.Context(), parsedKey{}, p)))
		}
		keys := r.Header["Idempotency-Key"]
		if len(keys) > 0 && route.Method == http.MethodPost && m.idempotent != nil {
			m.idempotent(w, r, Keyed{Key: keys[0], Body: body, Status: route.Status, Next: http.HandlerFunc(serve)})
			return
		}
		serve(w, r)
	})
}

// orgOf returns the caller's organization, or "" without a caller.
func orgOf(ctx context.Context) string {
	if caller := auth.Lookup(ctx); caller != nil {
		return caller.OrgID
	}
	return ""
}

// noStoreHeader is shared by all routes in a table, so nobody may modify it. Many responses contain
// credentials, and all are for their caller alone. Clients that keep a response can still use its ETag to
// ask for a newer one.
var noStoreHeader = []string{"no-store"}

// ServeHTTP implements humago.Mux.
func (m *routeMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// parsed is a request with a checked query and a decoded body.
type parsed struct {
	body   reflect.Value // zero if the route takes no body
	schema *bodySchema   // nil if there is no body
	rules  Rules         // nil if there are none
	// isChecked reports whether faults from the body's own rules were added.
	isChecked bool
	faults    errs.Faults // in query and body
}

type parsedKey struct{}

func parsedRequest(ctx context.Context) *parsed { return ctx.Value(parsedKey{}).(*parsed) }

// parse checks a request's query and decodes its body. It returns Malformed if we cannot say anything
// about their values. huma gets an empty object as the body.
func (s *servedRoute) parse(r *http.Request, body []byte) (*parsed, error) {
	query, err := parseQuery(r.URL)
	if err != nil {
		return nil, err
	}
	p := &parsed{}
	s.checkRepeats(&p.faults, query)
	if FaceOf(r.Context()) == Bare {
		s.suggest(&p.faults, query)
	}
	if s.schema == nil {
		return p, nil
	}
	p.body, err = s.schema.decode(body, &p.faults)
	r.Body = io.NopCloser(strings.NewReader("{}"))
	if err == nil && len(body) > 0 {
		p.schema = s.schema
		p.rules = s.rules
	}
	if p.faults.Err() != nil {
		p.checkBody() // we do it here because large bodies take turns here
	}
	return p, err
}

// checkBody adds faults from the body's own rules, once.
func (p *parsed) checkBody() {
	if p.schema != nil && !p.isChecked && !p.faults.Full() {
		p.isChecked = true
		p.schema.check(p.body, &p.faults)
	}
}
