package tracing

import (
	"context"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"steward/internal/web"
	"steward/internal/webhook/queue"
)

// maxOperations caps the database operations that have a span in one request: sockets and live tails
// last for days.
const maxOperations = 1000

// operations counts a request's database operations.
type operations struct{ n atomic.Int64 }

type operationsKey struct{}

// Handler returns a handler that starts a span for each request. Served describes it once the route
// is known.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := t.begin(t.propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		defer trace.SpanFromContext(ctx).End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// begin returns a context with a request's span.
func (t *Tracer) begin(parent context.Context) context.Context {
	ctx, span := t.tracer.Start(parent, "request", trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		ctx = context.WithValue(ctx, operationsKey{}, &operations{})
	}
	return ctx
}

// BeginS3 implements s3.Server.Trace. ServedS3 ends the span.
func (t *Tracer) BeginS3(ctx context.Context, traceparent string) context.Context {
	return t.begin(t.propagator.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent}))
}

// ServedS3 describes an S3 request's span, and ends it.
func (t *Tracer) ServedS3(s web.Served) {
	t.Served(s)
	trace.SpanFromContext(s.Context).End()
}

// Traceparent implements webhook.Ingest.Traceparent: it identifies a request's span, or returns ""
// if that is not recorded.
func (t *Tracer) Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	if trace.SpanFromContext(ctx).IsRecording() {
		t.propagator.Inject(ctx, carrier)
	}
	return carrier["traceparent"]
}

// Served describes the span of a request that has been served.
func (t *Tracer) Served(s web.Served) {
	span := trace.SpanFromContext(s.Context)
	if !span.IsRecording() {
		return
	}
	span.SetName(s.Route)
	span.SetAttributes(
		attribute.String("http.request.method", methodLabel(s.Method)),
		attribute.String("http.route", s.Route),
		attribute.Int("http.response.status_code", s.Status),
		attribute.Int("http.response.body.size", s.Bytes),
		attribute.String("steward.request", s.ID),
	)
	setIfKnown(span, "steward.organization", s.OrgID)
	setIfKnown(span, "steward.resource", s.Resource)
	if s.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// methodLabel returns a known method as it is; any other would be the client's text.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "_OTHER"
}

func setIfKnown(span trace.Span, key, value string) {
	if value != "" {
		span.SetAttributes(attribute.String(key, value))
	}
}

// Database implements db.Observer.Begin. Operations outside a trace have no span, because background
// loops do many.
func (t *Tracer) Database(ctx context.Context, operation string) (end func(error)) {
	count, traced := ctx.Value(operationsKey{}).(*operations)
	if !traced || count.n.Add(1) > maxOperations {
		return nil
	}
	_, span := t.tracer.Start(ctx, "db."+operation, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.operation.name", operation)))
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Attempt implements webhook.Sender.Begin. An attempt's span belongs to the trace of the receipt's
// request; if that was not traced, it begins a new trace.
func (t *Tracer) Attempt(ctx context.Context, task *queue.Task, received string) (context.Context, string) {
	carrier := propagation.MapCarrier{"traceparent": received}
	ctx, span := t.tracer.Start(t.propagator.Extract(ctx, carrier), "webhook.attempt", trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(
		attribute.String("steward.organization", task.OrgID),
		attribute.String("steward.webhook", task.WebhookID()),
		attribute.String("steward.destination", task.DestinationID),
		attribute.String("steward.receipt", task.ReceiptID()),
		attribute.String("steward.delivery", task.DeliveryID()),
		attribute.Int("steward.attempt", task.Retries),
	)
	return ctx, t.Traceparent(ctx)
}

// Delivered ends an attempt's span.
func (t *Tracer) Delivered(ctx context.Context, result string) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("steward.result", result))
	if result != "success" {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
