package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"steward/client"
	"steward/internal/cli/contexts"
)

// api calls routes of the management API and returns their bodies as they are: what -o json prints is
// what the server said.
type api struct{ client *client.Client }

// maxRetries is how often a request is repeated: few times, because somebody waits for it.
const maxRetries = 3

// newAPI returns the API of a context. The name is that under which its tokens are stored, or "".
func (e *env) newAPI(file contexts.File, name string, c contexts.Context) *api {
	var transport http.RoundTripper = http.DefaultTransport
	if e.verbose {
		transport = &requestLog{env: e, next: transport}
	}
	calls := client.New(c.URL, "")
	calls.HTTP.Transport = &credentials{file: file, name: name, context: c, next: transport}
	calls.UserAgent = "steward-cli/" + e.Version
	calls.MaxRetries = maxRetries
	return &api{calls}
}

// requestLog prints each request to standard error.
type requestLog struct {
	*env
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *requestLog) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	res, err := l.next.RoundTrip(req)
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		l.note("%s %s: %v (%v)", req.Method, req.URL.RequestURI(), err, took)
		return nil, err
	}
	l.note("%s %s: %s (%v, %s)", req.Method, req.URL.RequestURI(), res.Status, took, res.Header.Get("X-Request-Id"))
	return res, nil
}

// request is a call of a route.
type request struct {
	method, path string
	query        url.Values
	body         any // encoded as JSON unless it is nil or json.RawMessage
}

// target returns the path with its query.
func (r request) target() string {
	if len(r.query) == 0 {
		return r.path
	}
	return r.path + "?" + r.query.Encode()
}

// send sends a request and returns its response, or a failure.
func (a *api) send(ctx context.Context, r request) (*client.Response, error) {
	res, err := a.client.Do(ctx, r.method, r.target(), r.body)
	if err != nil {
		return nil, a.failed(err)
	}
	return res, nil
}

// get returns the body of a GET.
func (a *api) get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	res, err := a.send(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// failed returns the failure that an error of a request stands for.
func (a *api) failed(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var refused *client.Error
	if !errors.As(err, &refused) {
		return unreachable(err, a.client.BaseURL)
	}
	f = &failure{
		code: codeOf(refused.Status), message: refused.Detail, requestID: refused.RequestID,
		advice: advice(refused.Status, a.client.BaseURL), cause: err,
	}
	if refused.Code == "" {
		f.message = fmt.Sprintf("%s responds with %d: %s", a.client.BaseURL, refused.Status, refused.Detail)
		f.advice = "Check that the URL is that of a Steward server."
	}
	for _, fault := range refused.Fields {
		f.details = append(f.details, strings.TrimPrefix(fault.Location, "body.")+" "+fault.Message)
	}
	if refused.FieldsOmitted > 0 {
		f.details = append(f.details, fmt.Sprintf("and %d more", refused.FieldsOmitted))
	}
	return f
}

// advice returns what to do after a response with a status.
func advice(status int, origin string) string {
	switch status {
	case http.StatusUnauthorized:
		return "Sign in with `steward login " + origin + "`, or check " + EnvKey + "."
	case http.StatusForbidden:
		return "See who you are with `steward whoami`; an owner can change your role, and a key may be confined to a project or scopes."
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "Try again in a moment."
	case http.StatusInternalServerError:
		return "The server's log has the reason under the request id."
	}
	return ""
}

// pages returns the items of a list on all its pages. pick is the member with the items if a page is an
// object, which then has the cursor of the next page in the member next, or all items.
func (a *api) pages(ctx context.Context, path string, query url.Values, pick string) iter.Seq2[json.RawMessage, error] {
	r := request{method: http.MethodGet, path: path, query: query}
	if pick == "" {
		return a.checked(client.Items[json.RawMessage](ctx, a.client, r.target()))
	}
	return func(yield func(json.RawMessage, error) bool) {
		for {
			items, cursor, err := a.objectPage(ctx, r, pick)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor == "" {
				return
			}
			r.query = maps.Clone(r.query)
			r.query.Set("cursor", cursor)
		}
	}
}

// checked returns items with failures as errors.
func (a *api) checked(items iter.Seq2[json.RawMessage, error]) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for item, err := range items {
			if err != nil {
				err = a.failed(err)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// objectPage returns a page that is an object.
func (a *api) objectPage(ctx context.Context, r request, pick string) (items []json.RawMessage, cursor string, err error) {
	res, err := a.send(ctx, r)
	if err != nil {
		return nil, "", err
	}
	var page map[string]json.RawMessage
	if err := decodeInto(res.Body, &page); err != nil {
		return nil, "", err
	}
	if err := decodeInto(page[pick], &items); err != nil {
		return nil, "", err
	}
	if next, ok := page["next"]; ok {
		err = decodeInto(next, &cursor)
	}
	return items, cursor, err
}

// decodeInto decodes a response.
func decodeInto(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode the server's response: %w", err)
	}
	return nil
}
