package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/client"
)

// recorder is a server that records requests and answers each with the next of its answers. The last
// answer is repeated.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	requests []recorded
}

type recorded struct {
	method, path string
	header       http.Header
	body         string
}

type answer func(w http.ResponseWriter, r *http.Request)

func serve(t *testing.T, answers ...answer) (*recorder, *client.Client) {
	t.Helper()
	s := &recorder{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, recorded{r.Method, r.URL.RequestURI(), r.Header.Clone(), string(body)})
		s.mu.Unlock()
		answers[min(n, len(answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s, client.New(s.URL+"/", "sk_test")
}

func (s *recorder) all() []recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// status answers with a status, headers in pairs, and a body.
func status(code int, body string, headers ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// cut closes the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const project = `{"id":"prj_1","name":"shop"}`

func TestRequestHasKeyUserAgentAndBody(t *testing.T) {
	s, c := serve(t, status(201, project))
	got, err := c.CreateProject(t.Context(), client.NewProject{Name: "shop"})
	if err != nil || got.ID != "prj_1" || got.Name != "shop" {
		t.Fatalf("%+v, %v", got, err)
	}
	r := s.all()[0]
	if r.method != "POST" || r.path != "/cli/project" || r.body != `{"name":"shop"}` {
		t.Errorf("sent %+v", r)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sk_test", "User-Agent": "steward-go", "Content-Type": "application/json",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(r.header.Get("Idempotency-Key")) < 20 {
		t.Errorf("Idempotency-Key: %q", r.header.Get("Idempotency-Key"))
	}
}

func TestParametersAreEscaped(t *testing.T) {
	s, c := serve(t, status(200, `[]`))
	if _, err := c.GetThread(t.Context(), "a/b?c d"); err == nil {
		t.Error("a list was decoded as a thread")
	}
	since := time.Date(2026, 11, 15, 9, 30, 0, 123e6, time.FixedZone("CET", 3600))
	_, err := c.ListDeliveries(t.Context(), "wh_1", &client.ListDeliveriesParams{
		Status: client.ListDeliveriesParamsStatusFailed, Since: since, Limit: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{s.all()[0].path, s.all()[1].path}
	want := []string{"/thread/a%2Fb%3Fc%20d", "/webhook/delivery-list/wh_1?limit=5&since=2026-11-15T08%3A30%3A00.123Z&status=failed"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRetriesKeepTheIdempotencyKey(t *testing.T) {
	for _, code := range []int{429, 503} {
		s, c := serve(t, status(code, "", "Retry-After", "0"), cut, status(201, project))
		if _, err := c.CreateProject(t.Context(), client.NewProject{Name: "shop"}); err != nil {
			t.Fatal(err)
		}
		keys := map[string]bool{}
		for _, r := range s.all() {
			keys[r.header.Get("Idempotency-Key")] = true
			if r.body != `{"name":"shop"}` {
				t.Errorf("body %q", r.body)
			}
		}
		if len(s.all()) != 3 || len(keys) != 1 {
			t.Errorf("%d requests with %d keys", len(s.all()), len(keys))
		}
	}
}

func TestLostConnectionIsRetriedOnlyIfSafe(t *testing.T) {
	for _, test := range []struct {
		name string
		call func(ctx context.Context, c *client.Client) error
		want int
	}{
		{"GET", func(ctx context.Context, c *client.Client) error { _, err := c.ListProjects(ctx, nil); return err }, 2},
		{"PUT", func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateWebhook(ctx, "wh_1", client.WebhookPatch{})
			return err
		}, 2},
		{"PUT with If-Match", func(ctx context.Context, c *client.Client) error {
			_, err := c.With("If-Match", `"1"`).UpdateWebhook(ctx, "wh_1", client.WebhookPatch{})
			return err
		}, 1},
		{"DELETE", func(ctx context.Context, c *client.Client) error { return c.DeleteWebhook(ctx, "wh_1") }, 1},
		{"POST by Do", func(ctx context.Context, c *client.Client) error {
			_, err := c.Do(ctx, "POST", "/in/wh_1/token", nil)
			return err
		}, 1},
	} {
		// The first connection is closed after the request; net/http itself repeats only on used ones.
		s, c := serve(t, cut, status(500, ""))
		if err := test.call(t.Context(), c); err == nil {
			t.Errorf("%s: no error", test.name)
		}
		if got := len(s.all()); got != test.want {
			t.Errorf("%s: %d requests, want %d", test.name, got, test.want)
		}
	}
}

func TestRetriesAreBounded(t *testing.T) {
	s, c := serve(t, status(503, "", "Retry-After", "0"))
	c.MaxRetries = 2
	_, err := c.ListProjects(t.Context(), nil)
	if !client.IsUnavailable(err) || len(s.all()) != 3 {
		t.Errorf("%d requests, %v", len(s.all()), err)
	}
	s, c = serve(t, status(429, "", "Retry-After", "3600"))
	_, err = c.ListProjects(t.Context(), nil)
	var e *client.Error
	if !errors.As(err, &e) || e.RetryAfter != time.Hour || !client.IsRateLimited(err) || len(s.all()) != 1 {
		t.Errorf("%d requests, %v", len(s.all()), err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCancelEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, c := serve(t, status(503, "", "Retry-After", "1000"))
	c.MaxWait = time.Hour
	c.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) { // told of a retry before it waits
		cancel()
		return len(p), nil
	}), nil))
	_, err := c.ListProjects(ctx, nil)
	if !errors.Is(err, context.Canceled) || !client.IsUnavailable(err) {
		t.Error(err) // and not after an hour
	}
	_, err = c.ListProjects(ctx, nil)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestServerThatDoesNotListenIsRetried(t *testing.T) {
	s, c := serve(t, cut)
	s.Close()
	c.MaxRetries = 1
	err := c.DeleteWebhook(t.Context(), "wh_1") // repeated although it is a DELETE: nobody has seen it
	if err == nil || !strings.Contains(err.Error(), "DELETE /webhook/delete/wh_1: dial tcp") {
		t.Error(err)
	}
}

const problem = `{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"the request has invalid values",
	"code":"invalid","request_id":"req_1","errors":[{"location":"body.name","message":"required"}],"errors_omitted":3}`

func TestProblemsAreErrors(t *testing.T) {
	_, c := serve(t, status(422, problem, "Content-Type", "application/problem+json"))
	_, err := c.CreateProject(t.Context(), client.NewProject{})
	var e *client.Error
	if !errors.As(err, &e) || !client.IsInvalid(err) || client.IsNotFound(err) {
		t.Fatal(err)
	}
	if e.Status != 422 || e.Code != client.CodeInvalid || e.RequestID != "req_1" || e.FieldsOmitted != 3 ||
		!slices.Equal(e.Fields, []client.FieldError{{Location: "body.name", Message: "required"}}) {
		t.Errorf("%+v", e)
	}
	want := "POST /cli/project: the request has invalid values; body.name: required; and 3 more (422, request req_1)"
	if err.Error() != want {
		t.Errorf("%s, want %s", err, want)
	}
}

func TestOtherResponsesAreErrors(t *testing.T) {
	for _, test := range []struct {
		answer answer
		want   string
	}{
		{status(502, "<html>", "Content-Type", "text/html"), "GET /cli/region: bad gateway (502)"},
		{status(404, "{", "Content-Type", "application/problem+json", "X-Request-Id", "r1"), "GET /cli/region: not found (404, request r1)"},
		{
			status(301, "", "Location", "https://other.example/cli/region"),
			"GET /cli/region: the server redirects to https://other.example/cli/region; check the base URL (301)",
		},
		{status(200, "<html>"), "decode response: invalid character '<' looking for beginning of value"},
	} {
		_, c := serve(t, test.answer)
		if _, err := c.ListRegions(t.Context()); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

func TestCaptureAndWith(t *testing.T) {
	s, c := serve(t, status(200, `{"id":"wh_1","name":"orders","later":1}`, "ETag", `"3"`))
	var res client.Response
	if _, err := c.Capture(&res).GetWebhook(t.Context(), "wh_1"); err != nil {
		t.Fatal(err)
	}
	if res.Status != 200 || res.ETag() != `"3"` || !strings.Contains(string(res.Body), "later") {
		t.Errorf("%+v", res)
	}
	if _, err := c.With("If-Match", res.ETag()).UpdateWebhook(t.Context(), "wh_1", client.WebhookPatch{Name: new("o")}); err != nil {
		t.Fatal(err)
	}
	if got := s.all()[1].header.Get("If-Match"); got != `"3"` {
		t.Errorf("If-Match: %s", got)
	}
	if c.Header.Get("If-Match") != "" {
		t.Error("With changed the client")
	}
}

func TestDoSendsAnything(t *testing.T) {
	s, c := serve(t, status(200, `{"a":1}`))
	for _, body := range []any{nil, []byte(`{"x":1}`), json.RawMessage(`{"x":1}`), map[string]int{"x": 1}} {
		res, err := c.Do(t.Context(), "PUT", "status?q=a b&q=c", body)
		if err != nil || string(res.Body) != `{"a":1}` {
			t.Fatalf("%v, %v", res, err)
		}
	}
	for i, r := range s.all() {
		want := `{"x":1}`
		if i == 0 {
			want = ""
		}
		if r.body != want || r.path != "/status?q=a+b&q=c" {
			t.Errorf("%+v", r)
		}
	}
}

func TestFieldsOfUpdates(t *testing.T) {
	for _, test := range []struct {
		body any
		want string
	}{
		{client.WebhookPatch{}, `{}`},
		{client.WebhookPatch{Description: client.Clear[string]()}, `{"description":null}`},
		{client.WebhookPatch{Description: client.Set(""), Name: new("n")}, `{"name":"n","description":""}`},
		{client.OAuthClientPatch{Scopes: []string{}}, `{"scopes":[]}`},
		{client.BucketConfigPatch{TTL: client.Set[int64](0), CORS: client.Clear[client.CORS]()}, `{"cors":null,"ttl":0}`},
		{client.DestinationPatch{Config: &client.DestinationConfig{URL: "https://a", AdditionalProperties: map[string]any{"x": 1}}}, `{"config":{"url":"https://a","x":1}}`},
		{client.NewAPIKey{Name: "k"}, `{"name":"k"}`},
		{client.NewAPIKey{Name: "k", Scopes: []string{}}, `{"name":"k","scopes":[]}`},
	} {
		got, err := json.Marshal(test.body)
		if err != nil {
			t.Fatal(err)
		}
		if !equalJSON(t, string(got), test.want) {
			t.Errorf("%T: %s, want %s", test.body, got, test.want)
		}
	}
	var patch client.WebhookPatch
	if err := json.Unmarshal([]byte(`{"description":null}`), &patch); err != nil || patch.Description.IsZero() {
		t.Errorf("%+v, %v", patch, err)
	}
}

func equalJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(x)
	other, _ := json.Marshal(y)
	return string(one) == string(other)
}

func TestUnknownFieldsOfDestinationsAreKept(t *testing.T) {
	text := `{"url":"https://a","headers":{"X-A":"1"},"team":"shop","nested":{"a":[1]}}`
	var config client.DestinationConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if config.URL != "https://a" || config.Headers["X-A"] != "1" || len(config.AdditionalProperties) != 2 {
		t.Errorf("%+v", config)
	}
	again, err := json.Marshal(config)
	if err != nil || !equalJSON(t, string(again), text) {
		t.Errorf("%s, %v", again, err)
	}
}
