package web

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/errs"
	"steward/internal/page"
)

// sharedHeaders documents the headers that several responses have.
func sharedHeaders() map[string]*huma.Header {
	text := func(doc, example string) *huma.Header {
		return &huma.Header{Description: doc, Schema: &huma.Schema{Type: "string", Examples: []any{example}}}
	}
	number := func(doc string, example int) *huma.Header {
		return &huma.Header{Description: doc, Schema: &huma.Schema{Type: "integer", Examples: []any{example}}}
	}
	return map[string]*huma.Header{
		"X-Request-Id": text("Id of the request, also in the log and in errors: the client's own, if it sent one",
			"req_01jcq3v5w8z9d6y4k2m7n0p1rt"),
		"Steward-Version": text("Major version of the API", Version),
		"ETag":            text("Version of the resource, for If-Match and, where the operation has it, If-None-Match", `"3"`),
		"X-Total-Count":   number("Number of items in the whole list; absent if it is too expensive to count", 42),
		"Steward-Searched-To": text("Time of the last receipt that the search looked at; absent if it is complete",
			"2026-11-15T08:30:00.123Z"),
		"Link":                   text("Links to other pages: first, prev, next, last", `</thread?limit=10&offset=0>; rel="first"`),
		"Cache-Control":          text("Responses are not to be stored by caches", "no-store"),
		"X-Content-Type-Options": text("Browsers are to use the Content-Type as it is", "nosniff"),
		"X-Accel-Buffering":      text("Proxies are not to buffer the response", "no"),
		"Retry-After":            number("Seconds to wait before the next attempt", 1),
		"WWW-Authenticate":       text("The expected scheme", "Bearer"),
		"RateLimit-Limit":        number("Requests that are allowed at once; present if there is a rate limit", 50),
		"RateLimit-Remaining":    number("Requests that are left", 49),
		"RateLimit-Reset":        number("Seconds until the next request is allowed", 0),
	}
}

// headerRefs returns references to the shared headers that every response has, and to others.
func headerRefs(others ...string) map[string]*huma.Header {
	refs := map[string]*huma.Header{}
	always := []string{"X-Request-Id", "Steward-Version", "Cache-Control", "X-Content-Type-Options", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
	for _, name := range slices.Concat(always, others) {
		refs[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	return refs
}

// responses documents a route's successful responses, and the errors that all routes have.
func responses(schemas huma.Registry, r Route) map[string]*huma.Response {
	value := r.output
	ok := &huma.Response{Description: http.StatusText(r.Status), Headers: headerRefs(headersOf(value)...)}
	switch {
	case value == reflect.TypeFor[Raw]():
		ok.Content = content("application/octet-stream", &huma.Schema{Type: "string", Format: "binary"})
	case value == reflect.TypeFor[Stream]():
		ok.Content = content("text/event-stream", &huma.Schema{
			Type: "string", Description: "Server-sent events: `id`, `event` and `data`, which is a JSON object",
		})
	case value == reflect.TypeFor[Lines]():
		ok.Content = content(linesType, &huma.Schema{Type: "string", Description: "A JSON object on each line"})
	case r.Status != http.StatusNoContent && value != reflect.TypeFor[None]():
		ok.Content = content("application/json", schemas.Schema(value, true, ""))
	}
	all := map[string]*huma.Response{strconv.Itoa(r.Status): ok}
	moving := value.Implements(reflect.TypeFor[page.Moving]())
	if r.Method == http.MethodGet && ok.Headers["ETag"] != nil && !moving {
		all[notModified] = &huma.Response{Description: "Not Modified: If-None-Match has the current ETag", Headers: headerRefs("ETag")}
	}
	for _, status := range []int{400, 401, 403, 429, 500, 503} {
		all[strconv.Itoa(status)] = errorRef(status)
	}
	if other := r.other; other != nil {
		all[strconv.Itoa(other.status)] = &huma.Response{
			Description: http.StatusText(other.status), Headers: headerRefs(headersOf(other.value)...),
			Content: content("application/json", schemas.Schema(other.value, true, "")),
		}
	}
	return all
}

// notModified is the status for a conditional GET.
const notModified = "304"

func content(mediaType string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mediaType: {Schema: schema}}
}

// headersOf returns the names of the headers that Write sets for a value.
func headersOf(value reflect.Type) []string {
	switch {
	case value.Implements(reflect.TypeFor[page.Versioned]()):
		return []string{"ETag"}
	case value == reflect.TypeFor[Stream]():
		return []string{"Cache-Control", "X-Accel-Buffering"}
	case value.Implements(reflect.TypeFor[headerSetter]()):
		names := []string{"X-Total-Count", "Link"}
		if list, ok := reflect.Zero(value).Interface().(moreHeaders); ok {
			names = append(names, list.MoreHeaders()...)
		}
		return names
	}
	return nil
}

// failures documents routes' errors, each with an example.
var failures = []struct {
	kind    errs.Kind
	doc     string
	example string
	headers []string
}{
	{errs.Malformed, "The body is not JSON, or the URL is malformed", "the body is not valid JSON: error at byte 8", nil},
	{
		errs.Unauthorized, "No API key or access token, or an invalid one",
		"authentication required: send the header Authorization: Bearer <API key>",
		[]string{"WWW-Authenticate"},
	},
	{errs.Forbidden, "The role or scope is not sufficient", "the role owner or admin is required to manage members", nil},
	{
		errs.NotFound, "Something that the request names does not exist",
		"webhook wh_01jcq3v5w8z9d6y4k2m7n0p1rt not found", nil,
	},
	{errs.Conflict, "The request contradicts what is stored", "thread support-1042 was deleted", nil},
	{errs.PreconditionFailed, "If-Match does not have the current ETag", "the resource has changed since it was read", nil},
	{errs.TooLarge, "The body is too large", "the body exceeds 1048576 bytes", nil},
	{errs.UnsupportedMediaType, "The body is not JSON by its Content-Type, or has a Content-Encoding", "the Content-Type must be application/json", nil},
	{errs.Invalid, "Parameters or fields of the body are invalid; `errors` lists them", "the request has invalid values", nil},
	{errs.RateLimited, "Too many requests", "rate limit exceeded", []string{"Retry-After"}},
	{errs.Internal, "Internal error; the log has the cause", "internal error", nil},
	{errs.Unavailable, "Overloaded or shutting down; try again", "the database is unavailable", []string{"Retry-After"}},
}

// errorResponses documents errors by name, such as NotFound.
func errorResponses(schemas huma.Registry) map[string]*huma.Response {
	schema := schemas.Schema(reflect.TypeFor[Problem](), true, "")
	all := map[string]*huma.Response{}
	for _, f := range failures {
		status := statuses[f.kind]
		example := Problem{
			Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: f.example, Code: f.kind,
			RequestID: "req_01jcq3v5w8z9d6y4k2m7n0p1rt",
		}
		if f.kind == errs.Invalid {
			example.Errors = []errs.Fault{{Location: "body.name", Message: required}}
		}
		body := content(Bare.FailureType, schema)
		body[Bare.FailureType].Example = example
		all[responseName(status)] = &huma.Response{Description: f.doc, Headers: headerRefs(f.headers...), Content: body}
	}
	return all
}

func responseName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

func errorRef(status int) *huma.Response {
	return &huma.Response{Ref: "#/components/responses/" + responseName(status)}
}

// addErrors documents the errors that follow from a route's path, parameters and body, and the route's own.
func addErrors(op *huma.Operation, r Route) {
	readsBody := r.Method != http.MethodGet // even if it ignores the body
	has := map[int]bool{404: strings.Contains(r.Path, "{"), 413: readsBody, 415: readsBody, 422: op.RequestBody != nil}
	for _, p := range op.Parameters {
		has[412] = has[412] || p.Name == "If-Match"
		has[422] = has[422] || p.In == "query" || p.Name == "Idempotency-Key"
	}
	for _, status := range r.errors {
		has[status] = true
	}
	for status, can := range has {
		if can {
			op.Responses[strconv.Itoa(status)] = errorRef(status)
		}
	}
}

// addCondition documents the header for a conditional GET.
func addCondition(op *huma.Operation) {
	if op.Responses[notModified] == nil {
		return
	}
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "If-None-Match", In: "header", Description: "Respond with 304 if the resource still has this ETag",
		Schema: &huma.Schema{Type: "string", Examples: []any{`"3"`}},
	})
}
