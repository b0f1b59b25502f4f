// Package client calls a Steward server's API.
//
//	c := client.New("https://steward.example.com", os.Getenv("STEWARD_KEY"))
//	webhook, err := c.CreateWebhook(ctx, client.NewWebhook{Name: "orders"})
//
// Client has a method for each of the API's operations, generated from its OpenAPI document
// (generated.go). If a list has pages, a second method whose name begins with All returns an iterator
// over all of them. Do sends any other request.
//
// The client retries a request if the server asks for it (429 and 503, after the time in Retry-After),
// and after a lost connection if that is safe. Every POST carries an Idempotency-Key, the same for all
// attempts, so that the server processes it only once. If the server responds with an error, you get an
// *Error.
//
// In an update's body, a Field distinguishes a value, null, and a field that stays unchanged. Other
// optional fields are pointers, or lists and maps that are left out if they are nil.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls one server's API with one key. You may change its fields before you use it. From then on
// it is safe for concurrent use.
type Client struct {
	// BaseURL is the server's URL, such as https://steward.example.com.
	BaseURL string
	// Key is an API key or an access token. If it is empty, requests carry none.
	Key string
	// HTTP sends the requests. The one from New follows no redirects.
	HTTP *http.Client
	// UserAgent is the User-Agent header of each request.
	UserAgent string
	// Header is added to every request.
	Header http.Header
	// Log gets a line for each retry. If it is nil, nothing is logged.
	Log *slog.Logger

	// MaxRetries bounds how often a request is retried.
	MaxRetries int
	// MaxWait bounds how long a request waits for all its retries together. If the server asks for a
	// longer wait, you get its error at once.
	MaxWait time.Duration

	capture *Response
}

// The settings that New uses.
const (
	DefaultUserAgent  = "steward-go"
	DefaultMaxRetries = 5
	DefaultMaxWait    = time.Minute
)

// New returns a client for the server at baseURL. The key is an API key or an access token.
func New(baseURL, key string) *Client {
	return &Client{
		BaseURL: strings.TrimRight(baseURL, "/"),
		Key:     key,
		HTTP: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		UserAgent:  DefaultUserAgent,
		MaxRetries: DefaultMaxRetries,
		MaxWait:    DefaultMaxWait,
	}
}

// With returns a client that adds a header to every request, for instance If-Match with a Response's
// ETag, or an Idempotency-Key that outlives the process.
func (c *Client) With(name, value string) *Client {
	with := *c
	with.Header = c.Header.Clone()
	if with.Header == nil {
		with.Header = http.Header{}
	}
	with.Header.Set(name, value)
	return &with
}

// Capture returns a client that stores each response in res, including errors. It is not safe for
// concurrent use.
func (c *Client) Capture(res *Response) *Client {
	with := *c
	with.capture = res
	return &with
}

// Response is the server's response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// ETag returns the resource's version, for If-Match.
func (r *Response) ETag() string { return r.Header.Get("ETag") }

// RequestID returns the request's id in the server's log.
func (r *Response) RequestID() string { return r.Header.Get("X-Request-Id") }

// Decode decodes the body, which is JSON.
func (r *Response) Decode(value any) error {
	if err := json.Unmarshal(r.Body, value); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	return nil
}

// Do sends a request to a path, which may have a query. It sends a []byte or json.RawMessage unchanged,
// sends no body if it is nil, and encodes anything else as JSON. It returns an *Error for a status other
// than 2xx. Do does not repeat a POST after the connection is lost, since it does not know whether the
// path supports Idempotency-Key.
func (c *Client) Do(ctx context.Context, method, path string, body any) (*Response, error) {
	path, rawQuery, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, fmt.Errorf("parse query: %w", err)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return c.send(ctx, request{method: method, path: path, query: query(values), body: body})
}

// request is a request before we send it.
type request struct {
	method string
	path   string // escaped
	query  query
	body   any
	// repeatable reports whether the server supports Idempotency-Key for this POST.
	repeatable bool
}

// maxResponse bounds the responses that we read, in bytes. The server's pages have about 8 MiB.
const maxResponse = 256 << 20

// send sends a request, retries it if necessary, and returns the response or an *Error.
func (c *Client) send(ctx context.Context, r request) (*Response, error) {
	body, err := encodeBody(r.body)
	if err != nil {
		return nil, err
	}
	header := c.header(r, body)
	safe := r.canRepeat(header)
	retry := &backoff{client: c}
	for {
		res, err := c.attempt(ctx, r, header, body)
		if err == nil && c.capture != nil {
			*c.capture = *res
		}
		if err == nil && res.Status/100 == 2 {
			return res, nil
		}
		wait, again := retry.next(ctx, res, err, safe)
		if !again {
			return res, r.failure(ctx, res, err)
		}
		c.logRetry(ctx, r, res, err, wait)
		if sleep(ctx, wait) != nil {
			return nil, r.failure(ctx, res, err)
		}
	}
}

// failure returns the error for a request that we do not retry.
func (r request) failure(ctx context.Context, res *Response, err error) error {
	if err == nil {
		err = newError(res)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("%s %s: %w", r.method, r.path, err)
}

func encodeBody(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return b, nil
	case json.RawMessage:
		return b, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return text, nil
}

// header returns a request's header, the same for all attempts.
func (c *Client) header(r request, body []byte) http.Header {
	h := http.Header{}
	h.Set("Accept", "application/json")
	h.Set("User-Agent", c.UserAgent)
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	if r.method == http.MethodPost {
		h.Set("Idempotency-Key", rand.Text())
	}
	maps.Copy(h, c.Header)
	return h
}

// attempt sends a request once.
func (c *Client) attempt(ctx context.Context, r request, header http.Header, body []byte) (*Response, error) {
	res, err := c.open(ctx, r, header, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	if len(content) > maxResponse {
		return nil, fmt.Errorf("the response is larger than %d bytes", maxResponse)
	}
	return &Response{Status: res.StatusCode, Header: res.Header, Body: content}, nil
}

// open sends a request once and leaves the response's body unread.
func (c *Client) open(ctx context.Context, r request, header http.Header, body []byte) (*http.Response, error) {
	target := c.BaseURL + r.path
	if len(r.query) > 0 {
		target += "?" + url.Values(r.query).Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = header.Clone()
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, sendError(err)
	}
	return res, nil
}

// Stream sends a GET for a path, with its query, and returns the response's body as it arrives. The caller
// must close it. It does not repeat the request.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.stream(ctx, request{method: http.MethodGet, path: path})
}

// stream sends a request once and returns the response's body, which the caller must close.
func (c *Client) stream(ctx context.Context, r request) (io.ReadCloser, error) {
	header := c.header(r, nil)
	header.Set("Accept", "*/*")
	res, err := c.open(ctx, r, header, nil)
	if err != nil {
		return nil, r.failure(ctx, nil, err)
	}
	if err := checkStatus(res); err != nil {
		res.Body.Close()
		return nil, r.failure(ctx, nil, err)
	}
	return res.Body, nil
}

// checkStatus returns an open response's error, if its status is one.
func checkStatus(res *http.Response) error {
	if res.StatusCode/100 == 2 {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	return newError(&Response{Status: res.StatusCode, Header: res.Header, Body: body})
}

// sendError removes method and URL from http.Client's errors, because failure adds them.
func sendError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// decode decodes a response's body.
func decode[T any](res *Response, err error) (T, error) {
	var value T
	if err != nil {
		return value, err
	}
	if err := res.Decode(&value); err != nil {
		return value, err
	}
	return value, nil
}

// content returns a response's body.
func content(res *Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
