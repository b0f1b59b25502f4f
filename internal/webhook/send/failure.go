package send

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// connectError means that an attempt got no connection.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// errRequest means that HTTP does not allow the request.
var errRequest = errors.New("the request cannot be sent over HTTP")

// describe words a failed attempt for users. It tells them the kind of failure and facts they already
// know, nothing else: network errors reveal this machine's addresses, its resolver and its private
// networks.
func describe(ctx context.Context, r Request, err error) string {
	var refused *refusedError
	var noConnection *connectError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, errRequest):
		return errRequest.Error()
	case errors.Is(context.Cause(ctx), errNoResponse):
		return errNoResponse.Error()
	case errors.Is(ctx.Err(), context.Canceled):
		return "the attempt was cancelled"
	case errors.As(err, &noConnection):
		return "the destination could not be reached: " + connectReason(ctx, r, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "the destination did not answer within " + seconds(r.Timeout)
	}
	return responseFailure(err)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

func connectReason(ctx context.Context, r Request, err error) string {
	var lookup *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "no connection within " + seconds(r.Timeout)
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return fmt.Sprintf("the name %s was not found", hostOf(r.URL))
	case errors.As(err, &lookup):
		return fmt.Sprintf("the name %s could not be resolved", hostOf(r.URL))
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no connection within " + seconds(dialTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	}
	if reason := tlsReason(r, err); reason != "" {
		return "TLS: " + reason
	}
	if isClosed(err) {
		return "it closed the connection"
	}
	return "no connection could be made"
}

// hostOf returns the host in a URL that parsed before.
func hostOf(text string) string {
	to, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return to.Hostname()
}

// tlsReason returns why there is no TLS session, or "" if something else failed.
func tlsReason(r Request, err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var remote *net.OpError
	switch {
	case errors.As(err, &authority):
		return "the certificate is signed by an unknown authority"
	case errors.As(err, &name):
		return "the certificate is not valid for " + hostOf(r.URL)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(err, &invalid), errors.As(err, &verification):
		return "the certificate is not valid"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak it"
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert, worded by its number alone
		return "the server refused the handshake: " + strings.TrimPrefix(remote.Err.Error(), "tls: ")
	case strings.HasPrefix(err.Error(), "tls: "):
		return "the handshake failed"
	}
	return ""
}

// responseFailure returns why a sent request got no response.
func responseFailure(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the destination reset the connection"
	case isClosed(err):
		return "the destination closed the connection without answering"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the destination did not answer in time"
	}
	return fmt.Sprintf("the response is not valid HTTP, or has more than %d KiB of headers", maxResponseHeaders>>10)
}

// isClosed reports whether the other side closed the connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "server closed idle connection")
}
