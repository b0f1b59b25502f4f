package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/resource/libsql"
)

// Databases registers what the clients of embedded databases have used.
func (m *Metrics) Databases(read func() []libsql.Use) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"org", "resource"}, labels...), nil)
	}
	m.registry.MustRegister(&databases{
		read:       read,
		statements: desc("steward_database_statements_total", "Statements of embedded databases that ran, by organization and database."),
		bytes: desc("steward_database_bytes_total",
			"Bytes of the requests to (in) and responses of (out) embedded databases, by organization and database.", "direction"),
		seconds: desc("steward_database_statement_seconds_total",
			"Time that statements of embedded databases ran, without waiting, by organization and database."),
	})
}

// databases reads the use of embedded databases at each scrape, so that those that are deleted have no
// counters any more.
type databases struct {
	read                       func() []libsql.Use
	statements, bytes, seconds *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (d *databases) Describe(to chan<- *prometheus.Desc) {
	to <- d.statements
	to <- d.bytes
	to <- d.seconds
}

// Collect implements prometheus.Collector.
func (d *databases) Collect(to chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
	}
	for _, u := range d.read() {
		counter(d.statements, float64(u.Statements), u.Org, u.Database)
		counter(d.bytes, float64(u.In), u.Org, u.Database, "in")
		counter(d.bytes, float64(u.Out), u.Org, u.Database, "out")
		counter(d.seconds, u.Time.Seconds(), u.Org, u.Database)
	}
}
