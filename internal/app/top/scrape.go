package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"steward/internal/app/metrics"
)

// maxScrape bounds how much we read from a server.
const maxScrape = 64 << 20

// scrape is a server's report at one time: counters since its start, and gauges.
type scrape struct {
	at                time.Time
	version           string
	accepted, refused float64
	succeeded, failed float64
	queued, oldestDue float64
	failing           float64
	requests, errors  float64
	latency           buckets
	memory            float64
	// statements and commands count those in embedded databases and key-value stores, by
	// organization.
	statements, commands map[string]float64
	counted              metrics.Organizations
}

// buckets maps a histogram's upper bounds to its cumulative counts.
type buckets map[float64]float64

// scrape asks the server for its metrics.
func (t *top) scrape(ctx context.Context) (scrape, error) {
	body, err := t.get(ctx, "/metrics")
	if err != nil {
		return scrape{}, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return scrape{}, fmt.Errorf("parse the metrics: %w", err)
	}
	s := read(families)
	s.at = time.Now()
	body, err = t.get(ctx, metrics.OrganizationsPath)
	if err != nil {
		return scrape{}, err
	}
	if err := json.Unmarshal([]byte(body), &s.counted); err != nil {
		return scrape{}, fmt.Errorf("parse the organizations: %w", err)
	}
	return s, nil
}

// get returns the body of a 200 response.
func (t *top) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(t.url, "/")+path, nil)
	if err != nil {
		return "", err
	}
	res, err := t.http.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxScrape))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s responds with %s", path, res.Status)
	}
	return string(body), nil
}

// read returns a scrape's figures. A figure that the server does not report is 0.
func read(families map[string]*dto.MetricFamily) scrape {
	all := func(map[string]string) bool { return true }
	result := func(value string) func(map[string]string) bool {
		return func(labels map[string]string) bool { return labels["result"] == value }
	}
	s := scrape{
		accepted:  sum(families["steward_webhook_ingest_accepted_total"], all),
		refused:   sum(families["steward_webhook_ingest_refused_total"], all),
		succeeded: sum(families["steward_webhook_deliveries_total"], result("success")),
		failed:    sum(families["steward_webhook_deliveries_total"], result("failed")),
		queued:    sum(families["steward_webhook_queue_depth"], all),
		oldestDue: sum(families["steward_webhook_oldest_due_age_seconds"], all),
		failing:   sum(families["steward_webhook_failing_destinations"], all),
		requests:  sum(families["steward_http_requests_total"], all),
		errors: sum(families["steward_http_requests_total"], func(labels map[string]string) bool {
			return strings.HasPrefix(labels["status"], "5")
		}),
		latency: bucketsOf(families["steward_http_request_duration_seconds"]),
		memory:  sum(families["process_resident_memory_bytes"], all),

		statements: byOrganization(families["steward_database_statements_total"]),
		commands:   byOrganization(families["steward_kv_commands_total"]),
	}
	for _, m := range families["steward_build_info"].GetMetric() {
		s.version = labelsOf(m)["version"]
	}
	return s
}

// sum adds up the counters or gauges in a family whose labels match.
func sum(f *dto.MetricFamily, matches func(labels map[string]string) bool) (total float64) {
	for _, m := range f.GetMetric() {
		value := m.GetCounter().GetValue() + m.GetGauge().GetValue() // one of them is there
		if matches(labelsOf(m)) && !math.IsNaN(value) {
			total += value
		}
	}
	return total
}

// byOrganization adds up a family's counters for each organization.
func byOrganization(f *dto.MetricFamily) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range f.GetMetric() {
		sums[labelsOf(m)["org"]] += m.GetCounter().GetValue()
	}
	return sums
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// bucketsOf adds up a family's histograms.
func bucketsOf(f *dto.MetricFamily) buckets {
	all := buckets{}
	for _, m := range f.GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			all[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	return all
}

// since returns the counts since an earlier scrape.
func (b buckets) since(earlier buckets) buckets {
	between := buckets{}
	for bound, count := range b {
		between[bound] = increase(earlier[bound], count)
	}
	return between
}

// increase returns how much a counter has grown. If it is smaller than before, a restart reset it.
func increase(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

// quantile returns a value that is at least as large as a share q of the observations, computed like
// histogram_quantile in Prometheus. It returns false if there is none.
func (b buckets) quantile(q float64) (float64, bool) {
	bounds := slices.Sorted(maps.Keys(b))
	if len(bounds) == 0 || b[bounds[len(bounds)-1]] == 0 {
		return 0, false
	}
	rank := q * b[bounds[len(bounds)-1]]
	lower, below := 0.0, 0.0
	for _, bound := range bounds {
		if b[bound] >= rank && !math.IsInf(bound, 1) {
			return lower + (bound-lower)*(rank-below)/(b[bound]-below), true
		}
		if !math.IsInf(bound, 1) {
			lower = bound
			below = b[bound]
		}
	}
	return lower, true // more than the highest bound
}
