package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/tracing/tracingtest"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

func attributeOf(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

const tracedKey = "a-root-key-that-no-span-contains"

// startTraced starts a server that exports its traces to a collector, and returns where it listens. It is stopped
// when the test ends.
func startTraced(t *testing.T, databaseURL, collectorURL string) datadir.Addresses {
	t.Helper()
	return startServer(t, t.TempDir(), map[string]string{"database-url": databaseURL, "otlp-endpoint": collectorURL})
}

// startServer starts a server on a directory, in which it writes its log, and returns where it listens. It is
// stopped when the test ends.
func startServer(t *testing.T, dir string, settings map[string]string) datadir.Addresses {
	t.Helper()
	all := map[string]string{
		"data": dir, "listen": "127.0.0.1:0", "s3-listen": "127.0.0.1:0", "kv-listen": "127.0.0.1:0", "metrics-listen": "127.0.0.1:0",
		"drain-delay": "0s",
	}
	maps.Copy(all, settings)
	cfg, err := config.Load(all, []string{"STEWARD_ROOT_KEY=" + tracedKey, "STEWARD_MASTER_KEY=" + strings.Repeat("0123456789abcdef", 4)})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, session.Program{Out: io.Discard, Err: log}, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := waittest.Receive(t, "the server to stop", ended); err != nil {
			t.Error(err)
		}
		_ = log.Close()
	})
	var a datadir.Addresses
	waittest.True(t, "steward.json", func() bool {
		content, err := os.ReadFile(filepath.Join(dir, "steward.json"))
		return err == nil && json.Unmarshal(content, &a) == nil
	})
	return a
}

// call sends a request as the owner and returns the fields of its response.
func call(t *testing.T, method, url, body string, headers ...string) map[string]any {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+tracedKey)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var fields map[string]any
	if err := json.NewDecoder(res.Body).Decode(&fields); err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %v %v", method, url, res.StatusCode, fields, err)
	}
	return fields
}

// newTracedWebhook creates a webhook with a destination and returns its ingest path.
func newTracedWebhook(t *testing.T, a datadir.Addresses, destination string) string {
	t.Helper()
	hook := call(t, "POST", a.BaseURL+"/webhook/create", `{"name":"orders"}`)
	call(t, "POST", fmt.Sprintf("%s/webhook/destination-create/%v", a.BaseURL, hook["id"]),
		fmt.Sprintf(`{"type":"url","config":{"url":%q}}`, destination))
	return strings.TrimPrefix(hook["url"].(string), a.BaseURL)
}

// databaseURLs returns the setting of the database for each engine.
func databaseURLs(t *testing.T) map[string]func() string {
	return map[string]func() string{
		db.SQLite.String():   func() string { return "" },
		db.Postgres.String(): func() string { return dbtest.Postgres(t) },
	}
}

// TestTracesLeadFromTheRequestToTheDestination follows an event, and looks for what spans must not contain.
func TestTracesLeadFromTheRequestToTheDestination(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	for name, databaseURL := range databaseURLs(t) {
		t.Run(name, func(t *testing.T) {
			c := tracingtest.New(t)
			a := startTraced(t, databaseURL(), c.URL)
			arrived := make(chan http.Header, 10)
			sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header }))
			t.Cleanup(sink.Close)
			path := newTracedWebhook(t, a, sink.URL+"/hooks/secret-of-the-destination")

			made := c.Wait("POST /webhook/create", 1)[0]
			if len(c.Children(made, "db.write")) == 0 {
				t.Error("the request that created the webhook has no write")
			}
			if attributeOf(made, "steward.organization") == "" {
				t.Error("the request has no organization")
			}
			const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
			call(t, "POST", a.BaseURL+path+"?signature=secret-of-the-query", `{"body":"secret-of-the-body"}`,
				"Traceparent", "00-"+trace+"-00f067aa0ba902b7-01", "X-Token", "secret-of-a-header", "Cookie", "id=secret-of-a-cookie")
			sent := waittest.Receive(t, "the delivery", arrived)
			attempt := c.Wait("webhook.attempt", 1)[0]
			request := c.Wait("/in/{id}/{token}", 1)[0]
			if got := hex.EncodeToString(request.TraceId); got != trace {
				t.Errorf("the request is in the trace %s, not in that of its sender", got)
			}
			if len(c.Children(request, "db.write")) != 1 || len(c.Children(request, "webhook.attempt")) != 1 {
				t.Error("the request of the event has no write or no attempt")
			}
			if want := "00-" + trace + "-" + hex.EncodeToString(attempt.SpanId) + "-01"; sent.Get("Traceparent") != want {
				t.Errorf("the destination got the traceparent %q, want %q", sent.Get("Traceparent"), want)
			}
			all := c.Text()
			token := path[strings.LastIndex(path, "/")+1:]
			for _, secret := range []string{tracedKey, token, "secret-of", "x-token", "authorization", strings.TrimPrefix(sink.URL, "http://")} {
				if strings.Contains(strings.ToLower(all), strings.ToLower(secret)) {
					t.Errorf("spans contain %q", secret)
				}
			}
		})
	}
}

// TestAttemptOfAnotherReplicaIsInTheTrace sends an event to each of two replicas. One of them has the lease of the
// destination, and delivers both.
func TestAttemptOfAnotherReplicaIsInTheTrace(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	url := dbtest.Postgres(t)
	collectors := []*tracingtest.Receiver{tracingtest.New(t), tracingtest.New(t)}
	replicas := []datadir.Addresses{startTraced(t, url, collectors[0].URL), startTraced(t, url, collectors[1].URL)}
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(sink.Close)
	path := newTracedWebhook(t, replicas[0], sink.URL)
	for _, a := range replicas {
		call(t, "POST", a.BaseURL+path, `{}`)
	}
	elsewhere := 0
	for i, c := range collectors {
		request := c.Wait("/in/{id}/{token}", 1)[0]
		waittest.True(t, "the attempt in the trace of its request", func() bool {
			return len(c.Children(request, "webhook.attempt"))+len(collectors[1-i].Children(request, "webhook.attempt")) == 1
		})
		elsewhere += len(collectors[1-i].Children(request, "webhook.attempt"))
	}
	if elsewhere != 1 {
		t.Errorf("%d events were delivered by the replica that had not received them", elsewhere)
	}
}

// TestExemplarsAndLogNameTraces finds the trace of a request in the metrics and in the log.
func TestExemplarsAndLogNameTraces(t *testing.T) {
	c := tracingtest.New(t)
	dir := t.TempDir()
	a := startServer(t, dir, map[string]string{"otlp-endpoint": c.URL, "log-format": "json"})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	call(t, "GET", a.BaseURL+"/cli/auth/user", "", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	waittest.True(t, "the line in the log", func() bool {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, `"route":"GET /cli/auth/user"`) && strings.Contains(line, `"trace_id":"`+trace+`"`) &&
				strings.Contains(line, `"organization":"org_`) {
				return true
			}
		}
		return false
	})
	req, err := http.NewRequest("GET", "http://"+a.Listen["metrics"]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text")
	waittest.True(t, "an exemplar", func() bool {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, `steward_http_request_duration_seconds_bucket{route="GET /cli/auth/user"`) &&
				strings.Contains(line, `# {trace_id="`+trace+`"}`) {
				return true
			}
		}
		return false
	})
}
