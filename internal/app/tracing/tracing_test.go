package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"steward/internal/web"
)

// failing is an exporter whose collector is gone.
type failing struct{}

func (failing) ExportSpans(context.Context, []sdk.ReadOnlySpan) error {
	return errors.New("connection refused")
}

func (failing) Shutdown(context.Context) error { return nil }

func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := &quietExporter{SpanExporter: failing{}, log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 90 {
			if err := e.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, 10)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "spans=600") {
			t.Errorf("%d lines: %s", n, out.String())
		}
	})
}

// TestStalledCollectorDelaysNothing has a collector that never responds, and more spans than the queue has room for:
// requests end, and so does Stop.
func TestStalledCollectorDelaysNothing(t *testing.T) {
	released := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	defer collector.Close()
	defer close(released)
	tracer, err := Start(t.Context(), Options{Endpoint: collector.URL, Ratio: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	h := tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served++
		tracer.Served(web.Served{Meta: &web.Meta{Route: "GET /x"}, Context: r.Context()})
	}))
	for range 5 * sdk.DefaultMaxQueueSize {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
	}
	tracer.Stop()
	if served != 5*sdk.DefaultMaxQueueSize {
		t.Errorf("%d requests were served", served)
	}
}

// TestSendersDoNotDecide that more traces are recorded, but may ask for theirs not to be.
func TestSendersDoNotDecide(t *testing.T) {
	const (
		low  = "00000000000000000000000000000001"
		high = "ffffffffffffffffffffffffffffffff"
	)
	for _, test := range []struct {
		ratio    float64
		id, flag string
		recorded bool
	}{
		{1, high, "01", true},
		{1, high, "00", false},
		{0, low, "01", false},
		{0.5, low, "01", true},
		{0.5, high, "01", false},
	} {
		tracer, err := Start(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Ratio: test.ratio, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/x", nil)
		sent := "00-" + test.id + "-00f067aa0ba902b7-" + test.flag
		r.Header.Set("Traceparent", sent)
		tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := ID(r.Context()) != ""; got != test.recorded {
				t.Errorf("ratio %v, trace %s-%s: recorded %t", test.ratio, test.id, test.flag, got)
			}
			if own := tracer.Traceparent(r.Context()); (own != "") != test.recorded || own == sent {
				t.Errorf("ratio %v, trace %s-%s: traceparent %q", test.ratio, test.id, test.flag, own)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
		tracer.Stop()
	}
}

func TestOperationsOfARequestAreBounded(t *testing.T) {
	tracer, err := Start(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Ratio: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Stop()
	if tracer.Database(t.Context(), "read") != nil {
		t.Error("a background job has a span")
	}
	tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		spans := 0
		for range maxOperations + 10 {
			if end := tracer.Database(r.Context(), "read"); end != nil {
				end(nil)
				spans++
			}
		}
		if spans != maxOperations || !trace.SpanFromContext(r.Context()).IsRecording() {
			t.Errorf("%d operations have a span", spans)
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
}
