package metrics_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"steward/internal/app/metrics"
	"steward/internal/budget"
	"steward/internal/resource"
	"steward/internal/web"
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

// everyMetric returns a scrape of metrics that have all been used once.
func everyMetric(t *testing.T) string {
	m := metrics.New("v1")
	server, err := m.Serve("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	m.Served(web.Served{Meta: &web.Meta{Route: "GET /cli/region"}, Status: 200, Took: time.Millisecond})
	m.ServedS3(web.Served{Meta: &web.Meta{}, Method: "PUT", Status: 503, Took: time.Second})
	m.ServedS3(web.Served{Meta: &web.Meta{}, Method: "BREW", Status: 405, Took: time.Second})
	m.Commit(3, time.Millisecond)
	m.SlowWrite("POST /session")
	m.Invalidated(time.Millisecond)
	m.TokenIssued("urn:ietf:params:oauth:grant-type:device_code")
	m.TokenRefused("made-up", "unsupported_grant_type")
	m.LogoutSent(true)
	m.LogoutSent(false)
	m.IngestAccepted("org_1")
	m.IngestRefused("too_large")
	m.Delivered(t.Context(), "success", time.Second)
	m.MailTried("reset", true, false)
	m.MailTried("reset", false, true)
	seven := func() float64 { return 7 }
	m.Read(metrics.MailQueued, seven)
	m.BackupFailed()
	m.Backups(func() metrics.Backups { return metrics.Backups{LastSuccess: 7, Duration: 7, Bytes: 7, Due: 7} })
	m.Read(metrics.QueueDepth, seven)
	m.Read(metrics.OldestDueAge, seven)
	m.Read(metrics.FailingDestinations, seven)
	m.Read(metrics.TailLag, seven)
	m.Read(metrics.Ready, seven)
	m.Read(metrics.DatabaseReachable, seven)
	m.Read(metrics.DiskFree, seven)
	m.Read(metrics.DiskReserve, seven)
	m.Read(metrics.CertificatesFailing, seven)
	m.Read(metrics.ConnectionsUsed, seven)
	m.Read(metrics.ConnectionsLimit, seven)
	m.Read(metrics.InFlightBytes, seven)
	m.Read(metrics.InFlightSockets, seven)
	m.Read(metrics.OpenSockets, seven)
	m.Read(metrics.OpenTails, seven)
	m.Read(metrics.StoredObjects, seven)
	m.Read(metrics.StoredBytes, seven)
	m.CertificateExpiry("steward.example.com", seven)
	m.Pool("ingest", func() budget.Usage { return budget.Usage{Total: 9, Common: 4, Reserve: 3, Owners: 2, Refused: 1} })
	use := resource.Use{
		Org: "org_1", ID: "db_1", Operations: 3, In: 4, Out: 5, Time: 6 * time.Second, Refused: 7, Connections: 8, Memory: 9, Disk: 10,
	}
	m.Databases(func() []resource.Use { return []resource.Use{use} })
	stores := use
	stores.ID = "kv_1"
	m.Stores(func() []resource.Use { return []resource.Use{stores} })
	return get(t, "http://"+server.Address+"/metrics")
}

func TestMetricsCountWhatIsReported(t *testing.T) {
	scrape := everyMetric(t)
	for _, line := range []string{
		`steward_http_requests_total{route="GET /cli/region",status="200"} 1`,
		`steward_http_request_duration_seconds_count{route="GET /cli/region"} 1`,
		`steward_s3_requests_total{method="PUT",status="503"} 1`,
		`steward_s3_requests_total{method="unknown",status="405"} 1`,
		`steward_s3_request_duration_seconds_count{method="PUT"} 1`,
		`steward_storage_objects 7`,
		`steward_tls_certificate_expiry_timestamp_seconds{domain="steward.example.com"} 7`,
		`steward_tls_certificates_failing 7`,
		`steward_ready 7`,
		`steward_db_reachable 7`,
		`steward_disk_free_bytes 7`,
		`steward_disk_reserve_bytes 7`,
		`steward_webhook_tail_lag_seconds 7`,
		`steward_budget_size{pool="ingest"} 9`,
		`steward_budget_used{pool="ingest"} 7`,
		`steward_budget_organizations{pool="ingest"} 2`,
		`steward_budget_refused_total{pool="ingest"} 1`,
		`steward_storage_bytes 7`,
		`steward_database_statements_total{org="org_1",resource="db_1"} 3`,
		`steward_database_bytes_total{direction="in",org="org_1",resource="db_1"} 4`,
		`steward_database_bytes_total{direction="out",org="org_1",resource="db_1"} 5`,
		`steward_database_statement_seconds_total{org="org_1",resource="db_1"} 6`,
		`steward_database_refused_total{org="org_1",resource="db_1"} 7`,
		`steward_database_connections{org="org_1",resource="db_1"} 8`,
		`steward_database_size_bytes{org="org_1",resource="db_1"} 10`,
		`steward_kv_commands_total{org="org_1",resource="kv_1"} 3`,
		`steward_kv_bytes_total{direction="in",org="org_1",resource="kv_1"} 4`,
		`steward_kv_bytes_total{direction="out",org="org_1",resource="kv_1"} 5`,
		`steward_kv_refused_total{org="org_1",resource="kv_1"} 7`,
		`steward_kv_connections{org="org_1",resource="kv_1"} 8`,
		`steward_kv_memory_bytes{org="org_1",resource="kv_1"} 9`,
		`steward_kv_log_bytes{org="org_1",resource="kv_1"} 10`,
		`steward_db_commit_writes_sum 3`,
		`steward_db_commit_wait_seconds_count 1`,
		`steward_db_slow_writes_total{route="POST /session"} 1`,
		`steward_cache_invalidation_lag_seconds_count 1`,
		`steward_oauth_tokens_issued_total{grant="device_code"} 1`,
		`steward_oauth_tokens_refused_total{code="unsupported_grant_type",grant="unknown"} 1`,
		`steward_oauth_logout_tokens_total{result="success"} 1`,
		`steward_oauth_logout_tokens_total{result="failed"} 1`,
		`steward_webhook_ingest_accepted_total 1`,
		`steward_webhook_ingest_refused_total{reason="too_large"} 1`,
		`steward_webhook_deliveries_total{result="success"} 1`,
		`steward_webhook_attempt_duration_seconds_sum 1`,
		`steward_webhook_queue_depth 7`,
		`steward_webhook_oldest_due_age_seconds 7`,
		`steward_webhook_in_flight_bytes 7`,
		`steward_webhook_in_flight_sockets 7`,
		`steward_thread_open_sockets 7`,
		`steward_backup_failures_total 1`,
		`steward_backup_last_success_timestamp_seconds 7`,
		`steward_backup_last_duration_seconds 7`,
		`steward_backup_last_size_bytes 7`,
		`steward_backup_due_timestamp_seconds 7`,
		`steward_build_info{version="v1"} 1`,
	} {
		if !strings.Contains(scrape, "\n"+line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if !strings.Contains(scrape, "\n"+name+" ") {
			t.Errorf("missing: %s", name)
		}
	}
}

func TestMetricNamesFollowConventions(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(everyMetric(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (steward_\w+) `).FindAllStringSubmatch(everyMetric(t), -1) {
		if !bytes.Contains(docs, []byte("`"+match[1]+"`")) {
			t.Errorf("docs/monitoring.md does not mention %s", match[1])
		}
	}
}
