package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"steward/internal/waittest"
)

// get returns the body of a 200 response.
func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s %v", url, res.StatusCode, body, err)
	}
	return string(body)
}

func TestRunningServerServesMetrics(t *testing.T) {
	a := startServer(t, t.TempDir(), nil)
	get(t, a.BaseURL+"/healthz")
	scrape := "http://" + a.Listen["metrics"] + "/metrics"
	waittest.True(t, "the request to be counted", func() bool {
		return strings.Contains(get(t, scrape), `steward_http_requests_total{route="GET /healthz",status="200"} 1`)
	})
	res, err := http.Get(a.S3URL + "/bucket/key") // refused, because it is not signed
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	counted := fmt.Sprintf("steward_s3_requests_total{method=\"GET\",status=\"%d\"} 1", res.StatusCode)
	waittest.True(t, "the S3 request to be counted", func() bool { return strings.Contains(get(t, scrape), counted) })
	if !strings.Contains(get(t, scrape), "\nsteward_storage_bytes 0\n") {
		t.Error("the size of the objects is missing")
	}
}
