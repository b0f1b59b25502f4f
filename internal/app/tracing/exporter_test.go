package tracing

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"steward/internal/app/tracing/tracingtest"
)

var (
	traceID  = trace.TraceID{15: 1}
	spanID   = trace.SpanID{7: 2}
	parentID = trace.SpanID{7: 3}
	began    = time.Unix(1700000000, 5)
)

// full returns a span that has everything that spans can have.
func full(t *testing.T) sdk.ReadOnlySpan {
	t.Helper()
	state, err := trace.ParseTraceState("a=1,b=2")
	if err != nil {
		t.Fatal(err)
	}
	at := func(id trace.SpanID, remote bool) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: traceID, SpanID: id, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: remote,
		})
	}
	return tracetest.SpanStub{
		Name:        "GET /x",
		SpanContext: at(spanID, false),
		Parent:      at(parentID, true),
		SpanKind:    trace.SpanKindServer,
		StartTime:   began,
		EndTime:     began.Add(time.Second),
		Attributes: []attribute.KeyValue{
			attribute.Bool("bool", true),
			attribute.Int64("int64", math.MinInt64),
			attribute.Float64("float64", 0.1),
			attribute.String("string", "ä"),
			attribute.String("invalid", "a\xffb"),
			attribute.ByteSlice("bytes", []byte{0, 255}),
			attribute.BoolSlice("bools", []bool{true, false}),
			attribute.Int64Slice("int64s", []int64{1, -1}),
			attribute.Float64Slice("float64s", []float64{math.Inf(1)}),
			attribute.StringSlice("strings", []string{"a", ""}),
			attribute.Slice("slice", attribute.Int64Value(1), attribute.StringValue("a")),
			attribute.Map("map", attribute.String("a", "b")),
			{Key: "empty"},
		},
		Events: []sdk.Event{{
			Name: "event", Time: began, Attributes: []attribute.KeyValue{attribute.Int("n", 1)}, DroppedAttributeCount: 4,
		}},
		Links: []sdk.Link{{
			SpanContext: at(parentID, true), Attributes: []attribute.KeyValue{attribute.Int("n", 2)}, DroppedAttributeCount: 5,
		}},
		Status:            sdk.Status{Code: codes.Error, Description: "failed"},
		DroppedAttributes: 6,
		DroppedEvents:     7,
		DroppedLinks:      8,
		Resource:          resource.NewWithAttributes("https://resource", attribute.String("service.name", "steward")),
		InstrumentationScope: instrumentation.Scope{
			Name: "scope", Version: "v1", SchemaURL: "https://scope", Attributes: attribute.NewSet(attribute.Int("n", 3)),
		},
	}.Snapshot()
}

func number(n int64) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}
}

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

func array(values ...*commonpb.AnyValue) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: values}}}
}

// newTestExporter returns an exporter with valid settings.
func newTestExporter(t *testing.T, url string) *exporter {
	t.Helper()
	e, err := newExporter(url, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.client.CloseIdleConnections)
	return e
}

// export sends spans to a receiver and returns what came there.
func export(t *testing.T, spans ...sdk.ReadOnlySpan) *tracepb.TracesData {
	t.Helper()
	c := tracingtest.New(t)
	if err := newTestExporter(t, c.URL).ExportSpans(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	got := &tracepb.TracesData{}
	if err := proto.Unmarshal(c.Raw(), got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEverythingInASpanArrives(t *testing.T) {
	boolean := func(b bool) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: b}}
	}
	float := func(f float64) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}
	}
	const sampledAndRemote = 0x301
	want := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:  &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name", Value: text("steward")}}},
		SchemaUrl: "https://resource",
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{
				Name: "scope", Version: "v1", Attributes: []*commonpb.KeyValue{{Key: "n", Value: number(3)}},
			},
			SchemaUrl: "https://scope",
			Spans: []*tracepb.Span{{
				TraceId:           traceID[:],
				SpanId:            spanID[:],
				ParentSpanId:      parentID[:],
				TraceState:        "a=1,b=2",
				Flags:             sampledAndRemote,
				Name:              "GET /x",
				Kind:              tracepb.Span_SPAN_KIND_SERVER,
				StartTimeUnixNano: 1700000000_000000005,
				EndTimeUnixNano:   1700000001_000000005,
				Attributes: []*commonpb.KeyValue{
					{Key: "bool", Value: boolean(true)},
					{Key: "int64", Value: number(math.MinInt64)},
					{Key: "float64", Value: float(0.1)},
					{Key: "string", Value: text("ä")},
					{Key: "invalid", Value: text("a\uFFFDb")},
					{Key: "bytes", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{0, 255}}}},
					{Key: "bools", Value: array(boolean(true), boolean(false))},
					{Key: "int64s", Value: array(number(1), number(-1))},
					{Key: "float64s", Value: array(float(math.Inf(1)))},
					{Key: "strings", Value: array(text("a"), text(""))},
					{Key: "slice", Value: array(number(1), text("a"))},
					{Key: "map", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{
						KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{{Key: "a", Value: text("b")}}},
					}}},
					{Key: "empty", Value: &commonpb.AnyValue{}},
				},
				DroppedAttributesCount: 6,
				Events: []*tracepb.Span_Event{{
					TimeUnixNano: 1700000000_000000005, Name: "event",
					Attributes: []*commonpb.KeyValue{{Key: "n", Value: number(1)}}, DroppedAttributesCount: 4,
				}},
				DroppedEventsCount: 7,
				Links: []*tracepb.Span_Link{{
					TraceId: traceID[:], SpanId: parentID[:], TraceState: "a=1,b=2", Flags: sampledAndRemote,
					Attributes: []*commonpb.KeyValue{{Key: "n", Value: number(2)}}, DroppedAttributesCount: 5,
				}},
				DroppedLinksCount: 8,
				Status:            &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "failed"},
			}},
		}},
	}}}
	if diff := cmp.Diff(want, export(t, full(t)), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestKindsAndStatusesArrive(t *testing.T) {
	for kind, want := range map[trace.SpanKind]tracepb.Span_SpanKind{
		trace.SpanKindUnspecified: tracepb.Span_SPAN_KIND_UNSPECIFIED,
		trace.SpanKindInternal:    tracepb.Span_SPAN_KIND_INTERNAL,
		trace.SpanKindServer:      tracepb.Span_SPAN_KIND_SERVER,
		trace.SpanKindClient:      tracepb.Span_SPAN_KIND_CLIENT,
		trace.SpanKindProducer:    tracepb.Span_SPAN_KIND_PRODUCER,
		trace.SpanKindConsumer:    tracepb.Span_SPAN_KIND_CONSUMER,
	} {
		if got := spanMessage(tracetest.SpanStub{SpanKind: kind}.Snapshot()).Kind; got != want {
			t.Errorf("%v is sent as %v", kind, got)
		}
	}
	for status, want := range map[codes.Code]tracepb.Status_StatusCode{
		codes.Unset: tracepb.Status_STATUS_CODE_UNSET,
		codes.Ok:    tracepb.Status_STATUS_CODE_OK,
		codes.Error: tracepb.Status_STATUS_CODE_ERROR,
	} {
		if got := spanMessage(tracetest.SpanStub{Status: sdk.Status{Code: status}}.Snapshot()).Status.Code; got != want {
			t.Errorf("%v is sent as %v", status, got)
		}
	}
	root := spanMessage(tracetest.SpanStub{}.Snapshot())
	if root.ParentSpanId != nil || root.Flags != 0x100 || root.StartTimeUnixNano != 0 {
		t.Errorf("a span without a parent and times is sent as %v", root)
	}
}

// TestSpansAreGrouped sends spans of two scopes and two resources.
func TestSpansAreGrouped(t *testing.T) {
	of := func(service, scope string) sdk.ReadOnlySpan {
		return tracetest.SpanStub{
			Resource:             resource.NewSchemaless(attribute.String("service.name", service)),
			InstrumentationScope: instrumentation.Scope{Name: scope},
		}.Snapshot()
	}
	var got []string
	for _, r := range export(t, of("a", "x"), of("a", "y"), of("b", "x"), of("a", "x")).ResourceSpans {
		for _, s := range r.ScopeSpans {
			got = append(got, r.Resource.Attributes[0].Value.GetStringValue()+s.Scope.Name+strings.Repeat(".", len(s.Spans)))
		}
	}
	if want := []string{"ax..", "ay.", "bx."}; !slices.Equal(got, want) {
		t.Errorf("spans came in the groups %v, want %v", got, want)
	}
}

func TestHeadersAndCompression(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-general=1")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Basic%20c2VjcmV0, x-list = a%2Cb=c ,content-type=text/plain,")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	c := tracingtest.New(t)
	var got http.Header
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		c.Config.Handler.ServeHTTP(w, r)
	}))
	defer collector.Close()
	if err := newTestExporter(t, collector.URL).ExportSpans(t.Context(), []sdk.ReadOnlySpan{full(t)}); err != nil {
		t.Fatal(err)
	}
	if len(c.Find("GET /x")) != 1 {
		t.Error("the span did not arrive")
	}
	for name, want := range map[string]string{
		"Authorization":    "Basic c2VjcmV0",
		"X-List":           "a,b=c",
		"X-General":        "",
		"Content-Type":     "application/x-protobuf",
		"Content-Encoding": "gzip",
		"User-Agent":       "Steward/1.2.3",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
}

func TestInvalidSettingsAreIgnored(t *testing.T) {
	for name, value := range map[string]string{
		"HEADERS":     "Authorization: Bearer secret==,x-good=1,secret,x-bad=%secret",
		"TIMEOUT":     "10s",
		"CERTIFICATE": filepath.Join(t.TempDir(), "missing.pem"),
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
		e, err := newExporter("https://127.0.0.1:1", "")
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		if e.client.Timeout != defaultTimeout || len(e.header) > 3 || name == "HEADERS" && e.header.Get("X-Good") != "1" {
			t.Errorf("%s=%s: timeout %v, headers %v", name, value, e.client.Timeout, e.header)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, "")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem")
	if _, err := Start(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a certificate is accepted for http://")
	}
}

// writePEM writes a file and returns its name.
func writePEM(t *testing.T, kind string, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCertificates exports to a collector whose certificate only OTEL_EXPORTER_OTLP_CERTIFICATE makes trusted, and
// which demands a certificate of its clients.
func TestCertificates(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := tracingtest.New(t)
	var shown []*x509.Certificate
	collector := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.TLS.PeerCertificates
		c.Config.Handler.ServeHTTP(w, r)
	}))
	collector.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	collector.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	collector.StartTLS()
	defer collector.Close()

	spans := []sdk.ReadOnlySpan{full(t)}
	if err := newTestExporter(t, collector.URL).ExportSpans(t.Context(), spans); err == nil {
		t.Error("the exporter trusts any certificate")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", writePEM(t, "CERTIFICATE", collector.Certificate().Raw))
	if err := newTestExporter(t, collector.URL).ExportSpans(t.Context(), spans); err == nil {
		t.Error("the exporter needs no certificate of its own")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", writePEM(t, "CERTIFICATE", certificate))
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", writePEM(t, "PRIVATE KEY", encodedKey))
	if err := newTestExporter(t, collector.URL).ExportSpans(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	if len(c.Find("GET /x")) != 1 || len(shown) != 1 || !bytes.Equal(shown[0].Raw, certificate) {
		t.Error("the span did not arrive with the client's certificate")
	}
}

// transport answers requests without a network, so that tests can use a fake clock.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string, header ...string) *http.Response {
	res := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		res.Header.Set(header[i], header[i+1])
	}
	return res
}

func TestRetries(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers func(attempt int) *http.Response
		// The exporter succeeds or gives up at the last of the attempts, this many seconds after the first one.
		attempts    int
		least, most time.Duration
		fails       bool
	}{
		{"backoff", func(n int) *http.Response {
			if n < 3 {
				return respond([]int{429, 502, 504}[n], "")
			}
			return respond(200, "")
		}, 4, 11 * time.Second, 36 * time.Second, false},
		{"Retry-After in seconds", func(n int) *http.Response {
			return respond([]int{503, 200}[n], "", "Retry-After", "20")
		}, 2, 20 * time.Second, 20 * time.Second, false},
		{"Retry-After as a date", func(n int) *http.Response {
			return respond([]int{429, 200}[n], "", "Retry-After", time.Now().Add(30*time.Second).UTC().Format(http.TimeFormat))
		}, 2, 29 * time.Second, 30 * time.Second, false},
		{"Retry-After that is too late", func(int) *http.Response {
			return respond(503, "", "Retry-After", "61")
		}, 1, 0, 0, true},
		{"enormous Retry-After", func(int) *http.Response {
			return respond(503, "", "Retry-After", "18446744073709551615")
		}, 1, 0, 0, true},
		{"no success within a minute", func(int) *http.Response {
			return respond(503, "", "Retry-After", "30")
		}, 3, 60 * time.Second, 60 * time.Second, true},
		{"permanent error", func(int) *http.Response { return respond(400, "") }, 1, 0, 0, true},
		{"redirect", func(int) *http.Response {
			return respond(307, "", "Location", "https://elsewhere.example/v1/traces")
		}, 1, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newTestExporter(t, "http://collector")
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				e.client.Transport = transport(func(r *http.Request) (*http.Response, error) {
					if sent, err := io.ReadAll(r.Body); err != nil || len(sent) == 0 || r.Host != "collector" {
						t.Errorf("attempt %d to %s has %d bytes: %v", attempts, r.Host, len(sent), err)
					}
					attempts++
					return test.answers(attempts - 1), nil
				})
				began := time.Now()
				err := e.ExportSpans(t.Context(), []sdk.ReadOnlySpan{full(t)})
				took := time.Since(began)
				if attempts != test.attempts || took < test.least || took > test.most || (err != nil) != test.fails {
					t.Errorf("%d attempts in %v: %v", attempts, took, err)
				}
			})
		})
	}
}

// TestHangingCollectorIsTriedForAMinute has a collector that does not respond until the timeout.
func TestHangingCollectorIsTriedForAMinute(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500")
	e := newTestExporter(t, "http://collector")
	attempts := 0
	e.client.Transport = transport(func(r *http.Request) (*http.Response, error) {
		attempts++
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := e.ExportSpans(t.Context(), []sdk.ReadOnlySpan{full(t)})
		if took := time.Since(began); err == nil || attempts < 3 || took < 10*time.Second || took > retryTimeout+2500*time.Millisecond {
			t.Errorf("%d attempts in %v: %v", attempts, took, err)
		}
		attempts = 0
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began = time.Now()
		err = e.ExportSpans(ctx, []sdk.ReadOnlySpan{full(t)})
		if took := time.Since(began); err == nil || attempts != 1 || took != 3*time.Second {
			t.Errorf("%d attempts in %v, after the caller's deadline: %v", attempts, took, err)
		}
	})
}

func TestCollectorsMessageIsReported(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer a-long-secret")
	status := protowire.AppendTag(nil, 1, protowire.VarintType)
	status = protowire.AppendVarint(status, 3)
	status = protowire.AppendTag(status, 2, protowire.BytesType)
	status = protowire.AppendString(status, "no room")
	partial := protowire.AppendTag(nil, 1, protowire.BytesType)
	partial = protowire.AppendBytes(partial, status) // it has fields of the same numbers and types
	const protobuf = "application/x-protobuf"
	for _, test := range []struct {
		status            int
		contentType, body string
		want              string // "": no error
	}{
		{200, "", "", ""},
		{200, protobuf, "", ""},
		{200, protobuf, "\x0a\x00", ""}, // an empty partial success
		{200, protobuf, "\xff\xff", ""},
		{200, "text/plain", "fine", ""},
		{202, protobuf, string(partial), `rejected 3 spans: "no room"`},
		{400, protobuf, string(status), `: "no room"`},
		{401, "text/plain", "unknown key: a-long-secret, Bearer\n", `: "unknown key: [redacted], Bearer"`},
		{413, "text/html", strings.Repeat("x", 10*maxResponse), `: "` + strings.Repeat("x", maxMessage) + `"`},
		{404, "", "", `: ""`},
	} {
		e := newTestExporter(t, "http://collector")
		e.client.Transport = transport(func(*http.Request) (*http.Response, error) {
			return respond(test.status, test.body, "Content-Type", test.contentType), nil
		})
		err := e.ExportSpans(t.Context(), []sdk.ReadOnlySpan{full(t)})
		if (err == nil) != (test.want == "") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%d %s %.50q: %v", test.status, test.contentType, test.body, err)
		}
		var u *unavailable
		if errors.As(err, &u) {
			t.Errorf("%d is tried again", test.status)
		}
	}
}
