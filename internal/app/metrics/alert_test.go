package metrics_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// healthy are the series of an installation of two replicas in which nothing is wrong, over four hours: a value a minute, in the
// notation of promtool.
const healthy = `
up{job="steward", instance="a"} 1x240
up{job="steward", instance="b"} 1x240
steward_ready{instance="a"} 1x240
steward_db_reachable{instance="a"} 1x240
steward_http_requests_total{status="200"} 0+6000x240
steward_http_requests_total{status="500"} 0+1x240
steward_http_request_duration_seconds_bucket{le="0.5"} 0+6000x240
steward_http_request_duration_seconds_bucket{le="+Inf"} 0+6000x240
steward_s3_requests_total{status="200"} 0+6000x240
steward_s3_requests_total{status="503"} 0+1x240
steward_webhook_ingest_refused_total{reason="unavailable"} 0x240
steward_webhook_ingest_refused_total{reason="too_large"} 0+60x240
steward_budget_refused_total{pool="api"} 0+6x240
steward_webhook_oldest_due_age_seconds 10x240
steward_webhook_deliveries_total{result="success"} 0+60x240
steward_webhook_deliveries_total{result="failed"} 0+6x240
steward_webhook_queue_depth 200000-100x240
steward_webhook_tail_lag_seconds 0x240
steward_db_commit_wait_seconds_bucket{le="0.1"} 0+600x240
steward_db_commit_wait_seconds_bucket{le="+Inf"} 0+600x240
steward_db_connections_used{instance="a"} 3x240
steward_db_connections_limit{instance="a"} 33x240
steward_cache_invalidation_lag_seconds_bucket{le="0.5"} 0+60x240
steward_cache_invalidation_lag_seconds_bucket{le="+Inf"} 0+60x240
steward_oauth_tokens_refused_total{code="invalid_client"} 0+1x240
steward_mail_failures_total 0+1x240
steward_mail_sent_total{kind="reset"} 0+1x240
steward_mail_dropped_total 0x240
steward_disk_free_bytes{instance="a"} 9000000000x240
steward_disk_reserve_bytes{instance="a"} 268435456x240
steward_tls_certificate_expiry_timestamp_seconds{domain="example.com"} 8000000x240
steward_tls_certificates_failing{instance="a"} 0x240
steward_backup_due_timestamp_seconds 86400x240
process_open_fds{job="steward", instance="a"} 100x240
process_max_fds{job="steward", instance="a"} 65536x240
steward_build_info{version="v1", instance="a"} 1x240
steward_build_info{version="v1", instance="b"} 1x240`

// faults are the series that differ while something is wrong, by the alert that tells of it.
var faults = map[string]string{
	"StewardDown":                `up{job="steward", instance="b"} 1x180 0x60`,
	"StewardNotReady":            `steward_ready{instance="a"} 1x180 0x60`,
	"StewardDatabaseUnreachable": `steward_db_reachable{instance="a"} 1x180 0x60`,
	"StewardErrors":              `steward_http_requests_total{status="500"} 0+120x240`,
	"StewardSlow":                `steward_http_request_duration_seconds_bucket{le="0.5"} 0+5000x240`,
	"StewardStorageFails":        `steward_s3_requests_total{status="503"} 0+120x240`,
	"StewardIngestRefused":       `steward_webhook_ingest_refused_total{reason="unavailable"} 0+1x240`,
	"StewardBudgetRefuses":       `steward_budget_refused_total{pool="api"} 0+120x240`,
	"StewardDeliveriesLate":      `steward_webhook_oldest_due_age_seconds 0+60x240`,
	"StewardDeliveriesFail":      `steward_webhook_deliveries_total{result="failed"} 0+90x240`,
	"StewardQueueGrows":          `steward_webhook_queue_depth 0+1000x240`,
	"StewardTailsLag":            `steward_webhook_tail_lag_seconds 0x180 0+60x60`,
	"StewardCommitsSlow":         `steward_db_commit_wait_seconds_bucket{le="0.1"} 0+500x240`,
	"StewardConnectionsBusy":     `steward_db_connections_used{instance="a"} 33x240`,
	"StewardCachesStale":         `steward_cache_invalidation_lag_seconds_bucket{le="0.5"} 0+50x240`,
	"StewardTokensRefused":       `steward_oauth_tokens_refused_total{code="invalid_client"} 0+120x240`,
	"StewardMailFails":           `steward_mail_sent_total{kind="reset"} 0x240`,
	"StewardMailDropped":         `steward_mail_dropped_total 0x230 1x10`,
	"StewardDiskLow":             `steward_disk_free_bytes{instance="a"} 500000000x240`,
	"StewardCertificateExpires":  `steward_tls_certificate_expiry_timestamp_seconds{domain="example.com"} 500000x240`,
	"StewardCertificateFails":    `steward_tls_certificates_failing{instance="a"} 0x180 1x60`,
	"StewardBackupOverdue":       `steward_backup_due_timestamp_seconds 7200x240`,
	"StewardFileDescriptors":     `process_open_fds{job="steward", instance="a"} 60000x240`,
	"StewardVersionsDiffer":      `steward_build_info{version="v2", instance="c"} 1x240`,
	// Less than the reserve is also little.
	"StewardDiskFull StewardDiskLow": `steward_disk_free_bytes{instance="a"} 200000000x240`,
}

// slower are buckets above the ones in healthy, for the histograms.
const slower = `
steward_http_request_duration_seconds_bucket{le="4"} 0+6000x240
steward_db_commit_wait_seconds_bucket{le="2"} 0+600x240
steward_cache_invalidation_lag_seconds_bucket{le="5"} 0+60x240`

// TestEachAlertFiresAtItsFaultAlone runs promtool: each fault must raise its alert, and nothing else.
func TestEachAlertFiresAtItsFaultAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	path, err := exec.Command("../../../tools/promtool").Output()
	if err != nil {
		t.Fatalf("promtool is missing, which tools/deps fetches: %v", err)
	}
	rules, err := filepath.Abs("../../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	fmt.Fprintf(&tests, "rule_files: [%s]\nevaluation_interval: 5m\ntests:\n", rules)
	proven := map[string]bool{}
	writeAlertTest(&tests, "nothing", "")
	for names, series := range faults {
		writeAlertTest(&tests, names, series)
		for name := range strings.FieldsSeq(names) {
			proven[name] = true
		}
	}
	for _, r := range alerts(t) {
		if !proven[r.Alert] {
			t.Errorf("no fault raises %s", r.Alert)
		}
	}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, []byte(tests.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(strings.TrimSpace(string(path)), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// writeAlertTest writes a test of the alerts that fire when one series is another than in health.
func writeAlertTest(w *strings.Builder, alerts, fault string) {
	fmt.Fprintf(w, "- name: %s\n  interval: 1m\n  input_series:\n", alerts)
	name, _, _ := strings.Cut(fault, " ")
	if i := strings.Index(fault, "}"); i > 0 {
		name = fault[:i+1]
	}
	for line := range strings.Lines(strings.TrimSpace(healthy+slower) + "\n" + fault + "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line != fault && name != "" && strings.HasPrefix(line, name+" ") {
			continue
		}
		end := strings.LastIndex(line, "}") + 1
		if end == 0 {
			end = strings.Index(line, " ")
		}
		fmt.Fprintf(w, "  - {series: '%s', values: '%s'}\n", line[:end], strings.TrimSpace(line[end:]))
	}
	fmt.Fprintf(w, "  promql_expr_test:\n  - expr: count by (alertname) (ALERTS{alertstate=\"firing\"})\n    eval_time: 4h\n    exp_samples: [")
	if fault != "" {
		for name := range strings.FieldsSeq(alerts) {
			fmt.Fprintf(w, "{labels: '{alertname=\"%s\"}', value: 1}, ", name)
		}
	}
	fmt.Fprintf(w, "]\n")
}
