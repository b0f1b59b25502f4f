package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// defaultTimeout bounds a request to the collector, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise.
	defaultTimeout = 10 * time.Second
	// The exporter retries for up to retryTimeout, first after about firstBackoff and then ever later, up to
	// maxBackoff. These are the SDK's values.
	retryTimeout = time.Minute
	firstBackoff = 5 * time.Second
	maxBackoff   = 30 * time.Second
	// maxResponse caps the bytes that we read from a response, and maxMessage the part of an error
	// that we quote.
	maxResponse = 64 << 10
	maxMessage  = 500
)

// exporter sends spans to a collector by OTLP over HTTP. The SDK's own exporter does the same, but links gRPC.
type exporter struct {
	url      string
	client   *http.Client
	header   http.Header
	compress bool
	redact   *strings.Replacer // removes credentials from the collector's messages
}

// newExporter returns an exporter to a collector, as the variables OTEL_EXPORTER_OTLP_TRACES_… and
// OTEL_EXPORTER_OTLP_… configure it. If some of them are invalid, it also returns an error that says which:
// OpenTelemetry demands that programs start without them. Errors contain no values of headers.
func newExporter(endpoint, version string) (*exporter, error) {
	var invalid []error
	e := &exporter{url: endpoint + "/v1/traces", compress: setting("COMPRESSION") == "gzip"}
	timeout := defaultTimeout
	if value := setting("TIMEOUT"); value != "" {
		if ms, err := strconv.ParseInt(value, 10, 32); err != nil || ms < 0 {
			invalid = append(invalid, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds"))
		} else {
			timeout = time.Duration(ms) * time.Millisecond
		}
	}
	var err error
	if e.header, err = parseHeaders(setting("HEADERS")); err != nil {
		invalid = append(invalid, err)
	}
	e.redact = redactor(e.header)
	if e.header.Get("User-Agent") == "" {
		e.header.Set("User-Agent", "Steward/"+version)
	}
	e.header.Set("Content-Type", "application/x-protobuf")
	if e.compress {
		e.header.Set("Content-Encoding", "gzip")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = tlsConfig(); err != nil {
		invalid = append(invalid, err)
	}
	e.client = &http.Client{
		Transport: transport,
		Timeout:   timeout,
		// Another server must not get the headers, which may hold a credential.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return e, errors.Join(invalid...)
}

// setting returns a variable's value, or "". The one for traces wins over the one for all signals.
func setting(name string) string {
	if v := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); v != "" {
		return v
	}
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + name))
}

// parseHeaders parses a list such as "api-key=secret,x-team=a%2Cb". It leaves out invalid entries.
func parseHeaders(list string) (http.Header, error) {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	header := http.Header{}
	var invalid error
	for i, entry := range strings.Split(list, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		name, escaped, found := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(escaped)
		if !found || err != nil || name == "" || strings.Trim(name, token) != "" {
			// The text may be a credential that was written differently.
			invalid = fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: entry %d is not name=value, URL-encoded", i+1)
			continue
		}
		header.Set(name, strings.TrimSpace(value))
	}
	return header, invalid
}

// redactor returns a replacer for the words in headers: some collectors quote the credential that
// they refuse.
func redactor(header http.Header) *strings.Replacer {
	var pairs []string
	for _, values := range header {
		for word := range strings.FieldsSeq(values[0]) {
			if len(word) >= 8 { // a shorter one, such as "Bearer", is not a credential
				pairs = append(pairs, word, "[redacted]")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// tlsConfig returns the certificates that the variables name, or nil if there are none.
func tlsConfig() (*tls.Config, error) {
	var config tls.Config
	if name := setting("CERTIFICATE"); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", name)
		}
	}
	if certificate, key := setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY"); certificate != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if config.RootCAs == nil && config.Certificates == nil {
		return nil, nil
	}
	return &config, nil
}

// Shutdown implements sdk.SpanExporter. The SDK calls it when no export is in flight.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// ExportSpans implements sdk.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := proto.Marshal(tracesData(spans))
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if e.compress {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, _ = w.Write(body) // a buffer does not fail
		_ = w.Close()
		body = compressed.Bytes()
	}
	started := time.Now()
	for backoff := firstBackoff; ; backoff = min(backoff*3/2, maxBackoff) {
		err := e.send(ctx, body)
		var u *unavailable
		if !errors.As(err, &u) {
			return err
		}
		wait := max(u.retryAfter, backoff/2+rand.N(backoff))
		if wait > retryTimeout-time.Since(started) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// unavailable is the error from a collector that may accept the same request later.
type unavailable struct {
	error
	retryAfter time.Duration // 0 if the collector did not say
}

// send sends a request once.
func (e *exporter) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = e.header.Clone()
	res, err := e.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok && failed.Temporary() {
			return &unavailable{error: err}
		}
		return err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxResponse)) // the status decides, even if reading fails
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return e.rejected(res.Header, answer)
	}
	err = fmt.Errorf("the collector answered %s: %s", res.Status, e.quote(message(res.Header, answer)))
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &unavailable{error: err, retryAfter: retryAfter(res.Header.Get("Retry-After"))}
	}
	return err
}

// rejected returns an error if a response is an ExportTraceServiceResponse that says that the collector did not
// accept all spans, or has a warning. We read its two fields ourselves, because the generated type's package
// imports gRPC.
func (e *exporter) rejected(header http.Header, answer []byte) error {
	if header.Get("Content-Type") != "application/x-protobuf" {
		return nil
	}
	_, partialSuccess := field(answer, 1)
	spans, _ := field(partialSuccess, 1)
	_, text := field(partialSuccess, 2)
	if spans == 0 && len(text) == 0 {
		return nil
	}
	return fmt.Errorf("the collector rejected %d spans: %s", spans, e.quote(text))
}

// message returns the message from a response's google.rpc.Status, or the text if it has another
// format.
func message(header http.Header, answer []byte) []byte {
	if header.Get("Content-Type") == "application/x-protobuf" {
		_, text := field(answer, 2)
		return text
	}
	return answer
}

// field returns a field's last value in an encoded message, as a number or as bytes. Both are zero
// if the message does not have the field, or cannot be read up to it.
func field(encoded []byte, wanted protowire.Number) (number uint64, text []byte) {
	for len(encoded) > 0 {
		n, kind, length := protowire.ConsumeField(encoded)
		if length < 0 {
			break
		}
		if n == wanted {
			_, _, tag := protowire.ConsumeTag(encoded)
			switch kind {
			case protowire.VarintType:
				number, _ = protowire.ConsumeVarint(encoded[tag:])
			case protowire.BytesType:
				text, _ = protowire.ConsumeBytes(encoded[tag:])
			}
		}
		encoded = encoded[length:]
	}
	return number, text
}

// quote quotes the beginning of a collector's message.
func (e *exporter) quote(text []byte) string {
	s := e.redact.Replace(strings.TrimSpace(string(text)))
	return strconv.Quote(s[:min(len(s), maxMessage)])
}

// retryAfter returns how long a Retry-After header asks to wait, or 0 if it is missing or invalid.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, 1e6)) * time.Second // longer than we ever wait
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
