// Package tracing exports traces of requests, database operations and deliveries to an OpenTelemetry
// collector, by OTLP over HTTP.
//
// A trace begins with a request (Handler, BeginS3), or continues the sender's if that sends a
// traceparent. Database operations within a request (Database) and attempts to deliver an event
// (Attempt) are spans in it. We store the request's traceparent with the event's receipt, among its
// headers; so whichever replica delivers the event continues the trace.
//
// Spans have route patterns, identifiers and statuses. They have no paths, queries, headers,
// addresses, SQL or error texts, any of which may contain a credential.
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
	// logInterval is the time between two log lines about a failing collector.
	logInterval = time.Minute
)

// Options configures Start.
type Options struct {
	// Endpoint is the collector's URL, without a path.
	Endpoint string
	// Ratio is the share of traces that we record, from 0 to 1.
	Ratio float64
	// Version is the program's.
	Version string
	Log     *slog.Logger
}

// Tracer makes spans. Ended spans wait in a bounded queue for the exporter, and are dropped when it
// is full, so that a slow or dead collector delays nothing.
type Tracer struct {
	provider   *sdk.TracerProvider
	tracer     trace.Tracer
	propagator propagation.TraceContext
}

// Start returns a tracer that exports to a collector. The exporter reads its headers, certificates,
// timeout and compression from the environment (OTEL_EXPORTER_OTLP_HEADERS and others), and the SDK
// reads the process's attributes and the queue's size.
func Start(ctx context.Context, o Options) (*Tracer, error) {
	if strings.HasPrefix(o.Endpoint, "http:") && (setting("CERTIFICATE") != "" || setting("CLIENT_CERTIFICATE") != "") {
		return nil, errors.New("--otlp-endpoint: must be https:// with OTEL_EXPORTER_OTLP_CERTIFICATE or …_CLIENT_CERTIFICATE")
	}
	exporter, err := newExporter(o.Endpoint, o.Version)
	if err != nil { // use the settings that could be read
		o.Log.Warn("some settings for exporting traces are invalid, and ignored", "error", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "steward"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil { // use the attributes that could be read
		o.Log.Warn("traces do not fully describe the process; see OTEL_RESOURCE_ATTRIBUTES", "error", err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&quietExporter{SpanExporter: exporter, log: o.Log}),
		sdk.WithResource(described),
		sdk.WithSampler(sampler(o.Ratio)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("steward")}, nil
}

// sampler returns a sampler that chooses a share of the traces by their ids, so that all processes
// with the same ratio choose the same ones. A sender cannot raise the ratio by asking for its trace
// to be recorded, since we do not trust senders. We do respect one that asks us not to.
func sampler(ratio float64) sdk.Sampler {
	chosen := sdk.TraceIDRatioBased(ratio)
	return sdk.ParentBased(chosen, sdk.WithRemoteParentSampled(chosen))
}

// Stop exports the ended spans, for at most a second.
func (t *Tracer) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged why
}

// ID returns the id of a context's trace, or "" if it is not recorded.
func ID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// quietExporter logs an exporter's errors, at most one a minute, and returns none.
type quietExporter struct {
	sdk.SpanExporter
	log *slog.Logger

	mu   sync.Mutex
	next time.Time // when to log again
	lost int       // spans since the last line
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
