// Package tracingtest has an OpenTelemetry collector for tests.
package tracingtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"steward/internal/waittest"
)

// Receiver is an OpenTelemetry collector that keeps the spans that it gets.
type Receiver struct {
	*httptest.Server
	t testing.TB

	mu    sync.Mutex
	spans []*otlp.Span
	text  strings.Builder // everything that came
	raw   bytes.Buffer    // as it came, not compressed
}

// New starts a receiver, and stops it when the test ends.
func New(t testing.TB) *Receiver {
	c := &Receiver{t: t}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *Receiver) serve(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	sent, err := io.ReadAll(body)
	var export otlp.TracesData
	if err == nil {
		err = proto.Unmarshal(sent, &export)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(sent)
	c.text.WriteString(export.String())
	for _, resource := range export.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// Find returns the spans with a name.
func (c *Receiver) Find(name string) (found []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// Wait waits for n spans with a name.
func (c *Receiver) Wait(name string, n int) []*otlp.Span {
	c.t.Helper()
	waittest.True(c.t, fmt.Sprintf("%d spans %s", n, name), func() bool { return len(c.Find(name)) >= n })
	return c.Find(name)
}

// Children returns the spans with a name that have a parent.
func (c *Receiver) Children(of *otlp.Span, name string) (found []*otlp.Span) {
	for _, s := range c.Find(name) {
		if string(s.ParentSpanId) == string(of.SpanId) && string(s.TraceId) == string(of.TraceId) {
			found = append(found, s)
		}
	}
	return found
}

// Text returns everything that came, as text.
func (c *Receiver) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Raw returns everything that came, Protocol Buffers encoded.
func (c *Receiver) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.raw.Bytes())
}
