package app

import (
	"context"
	"time"

	"steward/internal/app/tracing"
	"steward/internal/web"
)

// trace connects the slices with the tracer. Call it after measure.
func (p *parts) trace(t *tracing.Tracer) {
	p.server.Trace = t.Handler
	done := p.server.Done
	p.server.Done = func(s web.Served) {
		t.Served(s)
		done(s)
	}
	doneS3 := p.storage.server.Done
	p.storage.server.Trace = t.BeginS3
	p.storage.server.Done = func(s web.Served) {
		t.ServedS3(s)
		doneS3(s)
	}
	p.engines.embeddedDB.Begin = t.Database
	p.webhooks.ingest.Traceparent = t.Traceparent
	p.webhooks.sender.Begin = t.Attempt
	delivered := p.webhooks.sender.Delivered
	p.webhooks.sender.Delivered = func(ctx context.Context, result string, took time.Duration) {
		delivered(ctx, result, took)
		t.Delivered(ctx, result)
	}
}
