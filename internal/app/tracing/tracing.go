// Package tracing exports traces of requests, database operations and deliveries to an OpenTelemetry
// collector, by OTLP over HTTP.
//
// A trace begins with a request (Handler, BeginS3), or with one of the sender if that sends a traceparent. Operations
// of the database within a request (Database) and attempts to deliver an event (Attempt) are spans
// in it. The traceparent of its request is stored with the receipt of an event, among its headers; so the replica
// that delivers it, whichever that is, goes on with the trace.
//
// Spans have patterns of routes, identifiers and statuses. They have no paths, queries, headers, addresses, SQL
// or texts of errors, any of which may contain a credential.
package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// stopTimeout bounds how long Stop waits for the collector.
	stopTimeout = time.Second
	// logInterval is the time between two lines in the log about a collector that fails.
	logInterval = time.Minute
)

// Options are the options of Start.
type Options struct {
	// Endpoint is the URL of the collector, without a path.
	Endpoint string
	// Ratio is the part of the traces that is recorded, from 0 to 1.
	Ratio float64
	// Version is that of the program.
	Version string
	Log     *slog.Logger
}

// Tracer makes spans. Those that ended wait in a bounded queue for the exporter, and are dropped when it is
// full, so that a collector that is slow or gone delays nothing.
type Tracer struct {
	provider   *sdk.TracerProvider
	tracer     trace.Tracer
	propagator propagation.TraceContext
}

// Start returns a tracer that exports to a collector. The exporter reads the headers, certificates, timeout and
// compression of requests to the collector from the environment (OTEL_EXPORTER_OTLP_HEADERS and others), and the
// SDK the attributes of the process and the size of the queue.
func Start(ctx context.Context, o Options) (*Tracer, error) {
	if strings.HasPrefix(o.Endpoint, "http:") && (setting("CERTIFICATE") != "" || setting("CLIENT_CERTIFICATE") != "") {
		return nil, errors.New("--otlp-endpoint: must be https:// with OTEL_EXPORTER_OTLP_CERTIFICATE or …_CLIENT_CERTIFICATE")
	}
	exporter, err := newExporter(o.Endpoint, o.Version)
	if err != nil { // what could be read is used
		o.Log.Warn("some settings for exporting traces are invalid, and ignored", "error", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "steward"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil { // what could be read is there
		o.Log.Warn("traces do not fully describe the process; see OTEL_RESOURCE_ATTRIBUTES", "error", err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&quietExporter{SpanExporter: exporter, log: o.Log}),
		sdk.WithResource(described),
		sdk.WithSampler(sampler(o.Ratio)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("steward")}, nil
}

// sampler returns a sampler of a part of the traces, chosen by their ids, so that all processes with the same
// ratio choose the same ones. That a sender wants its trace to be recorded does not raise the ratio: senders
// are not trusted. One that does not want it is respected.
func sampler(ratio float64) sdk.Sampler {
	chosen := sdk.TraceIDRatioBased(ratio)
	return sdk.ParentBased(chosen, sdk.WithRemoteParentSampled(chosen))
}

// Stop exports what has ended, for at most a second.
func (t *Tracer) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged why
}

// ID returns the id of the trace that a context belongs to, or "" if it is not recorded.
func ID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// quietExporter logs errors of an exporter, at most one a minute, and returns none.
type quietExporter struct {
	sdk.SpanExporter
	log *slog.Logger

	mu   sync.Mutex
	next time.Time // of a line in the log
	lost int       // spans since the last one
}

// ExportSpans implements sdk.SpanExporter.
func (e *quietExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.report(err, len(spans))
	}
	return nil
}

func (e *quietExporter) report(err error, lost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += lost
	if time.Now().Before(e.next) {
		return
	}
	e.log.Warn("traces were not exported", "spans", e.lost, "error", err)
	e.next = time.Now().Add(logInterval)
	e.lost = 0
}
