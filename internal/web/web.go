// Package web turns HTTP requests into typed values, and values and errors into responses. Of
// Steward it imports auth, budget, decode, encode, errs, id and page.
//
// A request of the management API passes through Observe (request ID, panics, deadlines, log line),
// the ServeMux, the Guard of its route (authentication and permission, in package server),
// Idempotent if it has an Idempotency-Key, the checks of its query and the decoding of its body
// (validate.go), huma, which decodes its parameters, and the handler. The handler returns a value or
// an error, which Write or Fail writes in the form of the request's Face.
//
// On makes the Route of an entry of the table in package server. huma also generates the OpenAPI
// document. It does not write responses, since it knows one form of them only and its errors
// contain values of the request.
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

// Route is an entry of the route table.
type Route struct {
	Method     string
	Path       string
	Permission auth.Permission
	// Status is the status of a successful response on the root face.
	Status int

	// ID, Tag and Summary describe the operation in the OpenAPI document. The id is part of the API:
	// with a capital letter it is the name of a method of package client.
	ID      string
	Tag     string
	Summary string

	errors  []int     // further statuses of its errors
	other   *response // of an alternative value
	small   bool
	recent  bool
	body    reflect.Type // nil if the route takes none
	maxBody int64
	rules   Rules // nil if the bodies have none but those of Checked
	mount   func(api huma.API, op huma.Operation)
}

// Pattern returns the route's pattern for a ServeMux.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// WithMaxBody returns the route with a limit for its body other than MaxBody.
func (r Route) WithMaxBody(n int64) Route {
	r.maxBody = n
	return r
}

// WithRules returns the route with rules of its bodies that Checked cannot express.
func (r Route) WithRules(rules Rules) Route {
	r.rules = rules
	return r
}

// WithErrors returns the route with statuses of its errors that do not follow from its method, path
// and parameters, for the OpenAPI document.
func (r Route) WithErrors(statuses ...int) Route {
	r.errors = statuses
	return r
}

// Small returns the route as one that adds next to nothing, and is served on a full disk although it
// writes.
func (r Route) Small() Route {
	r.small = true
	return r
}

// RecentSignIn returns the route as one for which a user of the console must have signed in recently.
// API keys and access tokens are not affected.
func (r Route) RecentSignIn() Route {
	r.recent = true
	return r
}

// NeedsRecentSignIn reports whether a user of the console must have signed in recently.
func (r Route) NeedsRecentSignIn() bool { return r.recent }

// Adds reports whether requests of the route make the database grow.
func (r Route) Adds() bool {
	return (r.Method == http.MethodPost || r.Method == http.MethodPut) && !r.small
}

// response is a status with the type of its body.
type response struct {
	status int
	value  reflect.Type
}

// WithAlternative returns the route with another successful response, for the OpenAPI document. Its
// handler's value implements Alternative.
func (r Route) WithAlternative(status int, value any) Route {
	r.other = &response{status: status, value: reflect.TypeOf(value)}
	return r
}

// Group returns the routes of a tag.
func Group(tag string, routes ...Route) []Route {
	for i := range routes {
		routes[i].Tag = tag
	}
	return routes
}

// On returns a route with a pattern such as `GET /path/{id}` and the id of its operation, whose
// handler's result is written with status.
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
			request.checkRules(ctx, in)
			return &output{Body: func(hc huma.Context) { send(hc, status, nil, request.faults.Err()) }}, nil
		})
	}
	return r
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
	// Memory is for the bodies of requests and for large responses that are being read. Requests that
	// find no room are refused with 503.
	Memory *budget.Pool
	// Decoding is that of the bodies.
	Decoding *Decoding

	mux  *http.ServeMux
	huma huma.API
}

// defaultMemory is the size of API.Memory if it is not set.
const defaultMemory = 64 << 20

// configureHuma sets huma's global settings, which are the same for every API.
var configureHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewErrorWithContext = newHumaError
	huma.ValidateStrictCasing = true
	useOwnMessages()
})

// Idempotent serves a POST that carries an Idempotency-Key: it writes the response that is stored
// for the key, or calls Next, outside of any transaction, and stores its response.
type Idempotent func(w http.ResponseWriter, r *http.Request, k Keyed)

// Keyed is what is known of a request with an Idempotency-Key.
type Keyed struct {
	Key  string
	Body []byte // the whole body
	// Status is that of the route.
	Status int
	Next   http.Handler
}

// NewAPI returns an API that serves the routes of a table. Other paths and methods get 404 or 405
// in the form of the request's face. If idempotent is nil, Idempotency-Key is ignored.
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

// Handle adds a handler that is not part of the table, such as those of protocols.
func (a *API) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, Named(pattern, h)) }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := checkURL(r.URL); err != nil {
		Fail(w, r, err)
		return
	}
	if r.ContentLength != 0 { // also for a request that is refused without reading its body
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(budget.Body.Limit)) // httptest has no deadlines
	}
	a.mux.ServeHTTP(w, r)
}

// checkURL returns Malformed for characters that cannot be stored, and NotFound for a path with
// empty or dot segments, which ServeMux would redirect.
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
		Fail(w, r, errNoPath())
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Fail(w, r, errs.New(errs.MethodNotAllowed, "method not allowed; this path supports %s", strings.Join(allowed, ", ")))
}

// servedRoute is a route with what its requests are checked against.
type servedRoute struct {
	Route
	schema *bodySchema // nil if the route takes no body
	query  []string    // the names of its parameters
}

// routeMux is the mux that huma registers its handlers on. It calls each after the guard of its
// route and the checks of query and body.
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

// orgOf returns the organization of a request's caller, "" if there is none.
func orgOf(ctx context.Context) string {
	if caller := auth.Lookup(ctx); caller != nil {
		return caller.OrgID
	}
	return ""
}

// noStoreHeader is that of all routes of a table and never modified. Many have credentials in their
// responses, and what the others say is for their caller alone. Clients that have a response can still
// ask for a newer one with its ETag.
var noStoreHeader = []string{"no-store"}

// ServeHTTP implements humago.Mux.
func (m *routeMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// parsed is a request whose query was checked and whose body was decoded.
type parsed struct {
	body   reflect.Value // zero if the route takes none
	schema *bodySchema   // nil if there is no body
	rules  Rules         // nil if there are none
	// isChecked is whether the faults of the body's own rules were added.
	isChecked bool
	faults    errs.Faults // of query and body
}

type parsedKey struct{}

func parsedRequest(ctx context.Context) *parsed { return ctx.Value(parsedKey{}).(*parsed) }

// parse checks the query of a request and decodes its body. It returns Malformed if nothing can be
// said about their values. huma gets an empty object as the body.
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
		p.checkBody() // here, where large bodies take turns
	}
	return p, err
}

// checkBody adds the faults of the body's own rules, once.
func (p *parsed) checkBody() {
	if p.schema != nil && !p.isChecked && !p.faults.Full() {
		p.isChecked = true
		p.schema.check(p.body, &p.faults)
	}
}

// checkRules adds the faults of the body's own rules and of those of the route, for the input of its
// handler.
func (p *parsed) checkRules(ctx context.Context, in any) {
	p.checkBody()
	if p.rules != nil && !p.faults.Full() {
		p.rules(ctx, in, &p.faults)
	}
}
