package app

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"steward/internal/app/datadir"
	"steward/internal/app/tracing/tracingtest"
	"steward/internal/waittest"
)

// clientTrace is a trace that clients of resources have begun.
const (
	clientTrace       = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientTraceparent = "00-" + clientTrace + "-00f067aa0ba902b7-01"
)

// newTracedResource creates a resource, and returns it and its organization.
func newTracedResource(t *testing.T, a datadir.Addresses, kind, name string) (made map[string]any, org string) {
	t.Helper()
	user := call(t, "GET", a.BaseURL+"/cli/auth/user", "")
	org = user["organizations"].([]any)[0].(map[string]any)["id"].(string)
	res := call(t, "POST", fmt.Sprintf("%s/resource/%s/local", a.BaseURL, org),
		fmt.Sprintf(`{"resources":[{"type":%q,"name":%q}]}`, kind, name))
	return res["created"].([]any)[0].(map[string]any), org
}

// wantSpan fails unless a span is in the trace of the client, and describes a request of an organization.
func wantSpan(t *testing.T, s *otlp.Span, org, resource string) {
	t.Helper()
	if got := hex.EncodeToString(s.TraceId); got != clientTrace {
		t.Errorf("%s is in the trace %s, not in that of its client", s.Name, got)
	}
	if attributeOf(s, "steward.organization") != org || attributeOf(s, "steward.resource") != resource {
		t.Errorf("%s has the attributes %v", s.Name, s.Attributes)
	}
}

// TestS3RequestsAreTraced stores an object in the trace of a client.
func TestS3RequestsAreTraced(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	for name, databaseURL := range databaseURLs(t) {
		t.Run(name, func(t *testing.T) {
			c := tracingtest.New(t)
			a := startTraced(t, databaseURL(), c.URL)
			bucket, org := newTracedResource(t, a, "s3", "invoices")
			url := call(t, "GET", a.BaseURL+"/storage/presign/invoices?operation=upload&key=secret-of-the-key", "")["presigned_url"].(string)
			put := func(url string) int {
				req, err := http.NewRequest("PUT", url, strings.NewReader("secret-of-the-body"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Traceparent", clientTraceparent)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				return res.StatusCode
			}
			if status := put(url); status != http.StatusOK {
				t.Fatalf("the upload got %d", status)
			}
			span := c.Wait("s3.PutObject", 1)[0]
			wantSpan(t, span, org, "invoices")
			if len(c.Children(span, "db.write")) == 0 {
				t.Error("the upload has no write")
			}
			if status := put(url + "0"); status != http.StatusForbidden {
				t.Fatalf("a wrong signature got %d", status)
			}
			wantSpan(t, c.Wait("s3.PutObject", 2)[1], "", "")
			for _, secret := range []string{"secret-of", bucket["access_key"].(string), bucket["secret_key"].(string), "Signature"} {
				if strings.Contains(c.Text(), secret) {
					t.Errorf("spans contain %q", secret)
				}
			}
			waittest.True(t, "the organization in the list of those that use the server", func() bool {
				listed := get(t, "http://"+a.Listen["metrics"]+"/debug/organizations")
				return strings.Contains(listed, `"s3_requests":1,"s3_bytes":18,`)
			})
		})
	}
}

// TestDatabaseRequestsAreTraced runs statements in the trace of a client: one that shares its commit, and a batch.
func TestDatabaseRequestsAreTraced(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	c := tracingtest.New(t)
	a := startTraced(t, "", c.URL)
	database, org := newTracedResource(t, a, "db", "orders")
	run := func(requests string) {
		t.Helper()
		call(t, "POST", database["url"].(string)+"v3/pipeline", `{"requests":[`+requests+`,{"type":"close"}]}`,
			"Authorization", "Bearer "+database["password"].(string), "Traceparent", clientTraceparent)
	}
	run(`{"type":"sequence","sql":"CREATE TABLE secrets_of (a); CREATE TABLE u (a)"}`)
	run(`{"type":"execute","stmt":{"sql":"INSERT INTO u VALUES ('secret-of-the-row')"}}`)
	spans := c.Wait("/db/{id}/", 2)
	for i, statements := range []int{2, 1} {
		wantSpan(t, spans[i], org, database["username"].(string))
		if n := len(c.Children(spans[i], "db.statement")); n != statements {
			t.Errorf("request %d has %d statements, want %d", i, n, statements)
		}
	}
	for _, secret := range []string{"secret", database["password"].(string)} {
		if strings.Contains(c.Text(), secret) {
			t.Errorf("spans contain %q", secret)
		}
	}
}
