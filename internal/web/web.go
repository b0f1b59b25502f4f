// Package web turns HTTP requests into typed values, and values and errors into responses.
//
// A management API request passes through Observe (request ID, panics, deadlines, log line), the
// ServeMux, its route's Guard (authentication and permission, in package server), Idempotent if it has an
// Idempotency-Key, the checks and decoding of query, body (validate.go) and parameters, and finally the
// handler. The handler returns a value or an error, and Write or Fail writes it in the request's Face.
//
// On makes a Route for the table in package server. huma generates the OpenAPI document and validates
// against its schemas.
package web

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

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
	maxBody int64
	rules   Rules // nil if Checked has all rules

	input, output reflect.Type
	handle        func(ctx context.Context, in any) (any, error) // in points to an input
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
	return Route{
		Method: method, Path: path, ID: id, Permission: p, Status: status, Summary: summary, maxBody: MaxBody,
		input: reflect.TypeFor[I](), output: reflect.TypeFor[O](),
		handle: func(ctx context.Context, in any) (any, error) { return handle(ctx, in.(*I)) },
	}
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

	mux        *http.ServeMux
	document   *huma.OpenAPI
	guard      Guard
	idempotent Idempotent
}

// defaultMemory is the size of API.Memory in bytes if it is not set.
const defaultMemory = 64 << 20

// configureHuma sets huma's global settings, which are the same for every API.
var configureHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
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
	a := &API{
		Memory: budget.NewPool(defaultMemory, MaxBody), Decoding: NewDecoding(),
		mux: http.NewServeMux(), document: newDocument(), guard: guard, idempotent: idempotent,
	}
	for i, r := range table {
		s := &servedRoute{Route: r, api: a, wildcards: wildcards(r.Pattern())}
		schemas := a.document.Components.Schemas
		op := operation(r)
		op.Extensions["x-order"] = i + 1
		op.Responses = responses(schemas, r)
		s.parameters = parametersOf(r.input, schemas)
		for _, p := range s.parameters {
			op.Parameters = append(op.Parameters, p.document())
		}
		if body, ok := r.input.FieldByName("Body"); ok {
			s.schema = &bodySchema{of: body.Type, schema: schemas.Schema(body.Type, true, ""), registry: schemas}
			op.RequestBody = s.schema.document()
		}
		addErrors(op, r)
		addCondition(op)
		a.document.AddOperation(op)
		a.mux.Handle(r.Pattern(), s)
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
	api        *API
	wildcards  []string
	schema     *bodySchema // nil if the route takes no body
	parameters []parameter
}

// ServeHTTP calls the handler after the route's guard and the checks of query, body and parameters.
func (s *servedRoute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	meta := Request(r.Context())
	meta.Route = s.Pattern()
	meta.Resource = resourceOf(r, s.wildcards)
	w.Header()["Cache-Control"] = noStoreHeader
	if r = s.api.guard(s.Route, w, r); r == nil {
		return
	}
	meta.memory = s.api.Memory.Charge(orgOf(r.Context()), "")
	defer meta.memory.Release()
	body, err := readBody(w, r, s.maxBody, meta.memory)
	if err != nil {
		Fail(w, r, err)
		return
	}
	serve := func(w http.ResponseWriter, r *http.Request) {
		value, err := s.call(r, body)
		if err != nil {
			Fail(w, r, err)
			return
		}
		Write(w, r, s.Status, value)
	}
	keys := r.Header["Idempotency-Key"]
	if len(keys) > 0 && s.Method == http.MethodPost && s.api.idempotent != nil {
		s.api.idempotent(w, r, Keyed{Key: keys[0], Body: body, Status: s.Status, Next: http.HandlerFunc(serve)})
		return
	}
	serve(w, r)
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

// call checks a request and calls the handler. One error reports all faults in query, body and
// parameters.
func (s *servedRoute) call(r *http.Request, body []byte) (any, error) {
	query, err := parseQuery(r.URL)
	if err != nil {
		return nil, err
	}
	in := reflect.New(s.input)
	p := &parsed{}
	err = s.api.Decoding.Do(r.Context(), orgOf(r.Context()), body, func() error {
		return s.decode(r, query, body, in.Elem(), p)
	})
	if err != nil {
		return nil, err
	}
	if err := s.setParameters(in.Elem(), r, query); err != nil {
		p.faults.AddAll(err)
		p.checkBody()
		return nil, p.faults.Err()
	}
	if p.faults.Err() == nil {
		value, err := s.handle(r.Context(), in.Interface())
		if !p.faults.AddAll(err) {
			return value, err
		}
	}
	p.checkBody()
	if p.rules != nil && !p.faults.Full() {
		p.rules(r.Context(), in.Interface(), &p.faults)
	}
	return nil, p.faults.Err()
}

// parsed is a request with a checked query and a decoded body.
type parsed struct {
	body   reflect.Value
	schema *bodySchema // nil if there is no body
	rules  Rules       // nil if there are none
	// isChecked reports whether faults from the body's own rules were added.
	isChecked bool
	faults    errs.Faults
}

// decode checks a request's query and decodes its body into the handler's input. It returns Malformed if
// we cannot say anything about their values.
func (s *servedRoute) decode(r *http.Request, query url.Values, body []byte, in reflect.Value, p *parsed) (err error) {
	s.checkRepeats(&p.faults, query)
	if FaceOf(r.Context()) == Bare {
		s.suggest(&p.faults, query)
	}
	if s.schema == nil {
		return nil
	}
	if p.body, err = s.schema.decode(body, &p.faults); err != nil {
		return err
	}
	in.FieldByName("Body").Set(p.body)
	if len(body) > 0 {
		p.schema = s.schema
		p.rules = s.rules
	}
	if p.faults.Err() != nil {
		p.checkBody() // we do it here because large bodies take turns here
	}
	return nil
}

// checkBody adds faults from the body's own rules, once.
func (p *parsed) checkBody() {
	if p.schema != nil && !p.isChecked && !p.faults.Full() {
		p.isChecked = true
		p.schema.check(p.body, &p.faults)
	}
}
