package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/resource"
)

// Databases registers how much the clients of embedded databases use.
func (m *Metrics) Databases(read func() []resource.Use) {
	m.registry.MustRegister(&resources{read: read, metrics: []resourceMetric{
		counterOf("steward_database_statements_total", "Statements of embedded databases that ran, by organization and database.",
			func(u resource.Use) float64 { return float64(u.Operations) }),
		counterOf("steward_database_bytes_total", "Bytes of the requests to (in) and responses of (out) embedded databases, by organization and database.",
			func(u resource.Use) float64 { return float64(u.In) }).directed("in"),
		counterOf("steward_database_bytes_total", "Bytes of the requests to (in) and responses of (out) embedded databases, by organization and database.",
			func(u resource.Use) float64 { return float64(u.Out) }).directed("out"),
		counterOf("steward_database_statement_seconds_total", "Time that statements of embedded databases ran, without waiting, by organization and database.",
			func(u resource.Use) float64 { return u.Time.Seconds() }),
		counterOf("steward_database_refused_total", "Requests and statements of embedded databases that were refused because there was no room, by organization and database.",
			func(u resource.Use) float64 { return float64(u.Refused) }),
		gaugeOf("steward_database_connections", "Requests to embedded databases that are being served and open transactions, by organization and database.",
			func(u resource.Use) float64 { return float64(u.Connections) }),
		gaugeOf("steward_database_size_bytes", "Size of the files of embedded databases that are open, by organization and database.",
			func(u resource.Use) float64 { return float64(u.Disk) }),
	}})
}

// Stores registers how much the clients of embedded key-value stores use.
func (m *Metrics) Stores(read func() []resource.Use) {
	m.registry.MustRegister(&resources{read: read, metrics: []resourceMetric{
		counterOf("steward_kv_commands_total", "Commands of embedded key-value stores that ran, by organization and store.",
			func(u resource.Use) float64 { return float64(u.Operations) }),
		counterOf("steward_kv_bytes_total", "Bytes of the requests to (in) and replies of (out) embedded key-value stores, by organization and store.",
			func(u resource.Use) float64 { return float64(u.In) }).directed("in"),
		counterOf("steward_kv_bytes_total", "Bytes of the requests to (in) and replies of (out) embedded key-value stores, by organization and store.",
			func(u resource.Use) float64 { return float64(u.Out) }).directed("out"),
		counterOf("steward_kv_refused_total", "Commands and connections of embedded key-value stores that were refused because there was no room, by organization and store.",
			func(u resource.Use) float64 { return float64(u.Refused) }),
		gaugeOf("steward_kv_connections", "Clients of embedded key-value stores that are connected, by organization and store.",
			func(u resource.Use) float64 { return float64(u.Connections) }),
		gaugeOf("steward_kv_memory_bytes", "Size of the keys and values of embedded key-value stores that are open, by organization and store.",
			func(u resource.Use) float64 { return float64(u.Memory) }),
		gaugeOf("steward_kv_log_bytes", "Size of the logs of embedded key-value stores that are open, by organization and store.",
			func(u resource.Use) float64 { return float64(u.Disk) }),
	}})
}

// resourceMetric is a metric that each resource has.
type resourceMetric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(u resource.Use) float64
	desc       *prometheus.Desc
	// direction is a label's value; "" if there is none.
	direction string
}

func counterOf(name, help string, value func(u resource.Use) float64) resourceMetric {
	return newResourceMetric(resourceMetric{name: name, help: help, kind: prometheus.CounterValue, value: value})
}

func gaugeOf(name, help string, value func(u resource.Use) float64) resourceMetric {
	return newResourceMetric(resourceMetric{name: name, help: help, kind: prometheus.GaugeValue, value: value})
}

func newResourceMetric(r resourceMetric) resourceMetric {
	labels := []string{"org", "resource"}
	if r.direction != "" {
		labels = append(labels, "direction")
	}
	r.desc = prometheus.NewDesc(r.name, r.help, labels, nil)
	return r
}

// directed returns the metric with the label direction.
func (r resourceMetric) directed(direction string) resourceMetric {
	r.direction = direction
	return newResourceMetric(r)
}

// resources reads the resources' usage at each scrape, so that deleted ones have no counters any
// more.
type resources struct {
	read    func() []resource.Use
	metrics []resourceMetric
}

// Describe implements prometheus.Collector.
func (r *resources) Describe(to chan<- *prometheus.Desc) {
	for _, m := range r.metrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (r *resources) Collect(to chan<- prometheus.Metric) {
	for _, u := range r.read() {
		for _, m := range r.metrics {
			labels := []string{u.Org, u.ID}
			if m.direction != "" {
				labels = append(labels, m.direction)
			}
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(u), labels...)
		}
	}
}
