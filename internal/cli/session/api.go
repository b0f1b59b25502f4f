package session

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
	"steward/internal/cli/exit"
)

// API calls routes in the management API and returns their bodies as they are: -o json prints the
// server's own text.
type API struct{ Client *client.Client }

// maxRetries caps how often we repeat a request: only a few times, because somebody waits for it.
const maxRetries = 3

// newAPI returns a context's API. Its tokens are stored under the name, unless that is "".
func (e *Env) newAPI(file contexts.File, name string, c contexts.Context) *API {
	var transport http.RoundTripper = http.DefaultTransport
	if e.Verbose {
		transport = &requestLog{Env: e, next: transport}
	}
	calls := client.New(c.URL, "")
	calls.HTTP.Transport = &credentials{file: file, name: name, context: c, next: transport}
	calls.UserAgent = "steward-cli/" + e.Version
	calls.MaxRetries = maxRetries
	return &API{calls}
}

// requestLog prints each request to standard error.
type requestLog struct {
	*Env
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *requestLog) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	res, err := l.next.RoundTrip(req)
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		l.Note("%s %s: %v (%v)", req.Method, req.URL.RequestURI(), err, took)
		return nil, err
	}
	l.Note("%s %s: %s (%v, %s)", req.Method, req.URL.RequestURI(), res.Status, took, res.Header.Get("X-Request-Id"))
	return res, nil
}

// Request is a call to a route.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         any // encoded as JSON unless it is nil or json.RawMessage
}

// target returns the path with its query.
func (r Request) target() string {
	if len(r.Query) == 0 {
		return r.Path
	}
	return r.Path + "?" + r.Query.Encode()
}

// Send sends a request and returns its response, or a failure.
func (a *API) Send(ctx context.Context, r Request) (*client.Response, error) {
	res, err := a.Client.Do(ctx, r.Method, r.target(), r.Body)
	if err != nil {
		return nil, a.Failed(err)
	}
	return res, nil
}

// Get returns a GET's body.
func (a *API) Get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	res, err := a.Send(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Failed returns the failure that a request's error stands for.
func (a *API) Failed(err error) error {
	var f *exit.Error
	if errors.As(err, &f) {
		return f
	}
	var refused *client.Error
	if !errors.As(err, &refused) {
		return Unreachable(err, a.Client.BaseURL)
	}
	f = &exit.Error{
		Code: exit.OfStatus(refused.Status), Message: refused.Detail, RequestID: refused.RequestID,
		Advice: advice(refused.Status, a.Client.BaseURL), Cause: err,
	}
	if refused.Code == "" {
		f.Message = fmt.Sprintf("%s responds with %d: %s", a.Client.BaseURL, refused.Status, refused.Detail)
		f.Advice = "Check that the URL is that of a Steward server."
	}
	for _, fault := range refused.Fields {
		f.Details = append(f.Details, strings.TrimPrefix(fault.Location, "body.")+" "+fault.Message)
	}
	if refused.FieldsOmitted > 0 {
		f.Details = append(f.Details, fmt.Sprintf("and %d more", refused.FieldsOmitted))
	}
	return f
}

// advice tells how to go on after a response with a status.
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

// Pages returns a list's items from all pages. If a page is an object, pick is the member with the
// items, and the member next has the next page's cursor, unless the object has all items.
func (a *API) Pages(ctx context.Context, path string, query url.Values, pick string) iter.Seq2[json.RawMessage, error] {
	r := Request{Method: http.MethodGet, Path: path, Query: query}
	if pick == "" {
		return func(yield func(json.RawMessage, error) bool) {
			for item, err := range client.Items[json.RawMessage](ctx, a.Client, r.target()) {
				if err != nil {
					err = a.Failed(err)
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
	return func(yield func(json.RawMessage, error) bool) {
		for {
			items, cursor, err := a.ObjectPage(ctx, r, pick)
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
			r.Query = maps.Clone(r.Query)
			r.Query.Set("cursor", cursor)
		}
	}
}

// ObjectPage returns a page that is an object.
func (a *API) ObjectPage(ctx context.Context, r Request, pick string) (items []json.RawMessage, cursor string, err error) {
	res, err := a.Send(ctx, r)
	if err != nil {
		return nil, "", err
	}
	var page map[string]json.RawMessage
	if err := Decode(res.Body, &page); err != nil {
		return nil, "", err
	}
	if err := Decode(page[pick], &items); err != nil {
		return nil, "", err
	}
	if next, ok := page["next"]; ok {
		err = Decode(next, &cursor)
	}
	return items, cursor, err
}

// Decode decodes a response.
func Decode(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode the server's response: %w", err)
	}
	return nil
}
