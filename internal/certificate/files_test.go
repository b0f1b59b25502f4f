package certificate_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/certificate"
	"steward/internal/certificate/certtest"
)

// served returns the certificate that a client gets for a name, or nil.
func served(t *testing.T, f *certificate.Files, name string) *tls.Certificate {
	t.Helper()
	c, err := f.Certificate(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stateOf returns the state of the certificate.
func stateOf(t *testing.T, f *certificate.Files) certificate.State {
	t.Helper()
	states, err := f.States(t.Context())
	if err != nil || len(states) != 1 {
		t.Fatalf("States = %v, %v", states, err)
	}
	return states[0]
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	ca := certtest.NewCA(t)
	dir := t.TempDir()
	var log bytes.Buffer
	f := &certificate.Files{Log: slog.New(slog.NewTextHandler(&log, nil))}
	f.Cert, f.Key = ca.Write(dir, "a.example")
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	first := served(t, f, "a.example")
	f.Reload()
	if served(t, f, "a.example") != first || log.Len() > 0 {
		t.Errorf("unchanged files were read again: %s", log.String())
	}
	ca.Write(dir, "b.example")
	f.Reload()
	if served(t, f, "b.example") == nil || served(t, f, "a.example") != nil {
		t.Error("the new certificate is not served")
	}
	if e := f.Expiries(); len(e) != 1 || e[0].Domain != "b.example" || e[0].NotAfter.IsZero() {
		t.Errorf("Expiries = %v", e)
	}
}

// TestExpiredCertificate is not read again, and is logged at the start.
func TestExpiredCertificate(t *testing.T) {
	ca := certtest.NewCA(t)
	dir := t.TempDir()
	var log bytes.Buffer
	f := &certificate.Files{Log: slog.New(slog.NewTextHandler(&log, nil))}
	f.Cert, f.Key = ca.Write(dir, "a.example")
	if err := f.Open(); err != nil || log.Len() > 0 {
		t.Fatalf("%v, %s", err, log.String())
	}
	ca.NotAfter = time.Now().Add(-time.Minute)
	ca.Write(dir, "b.example")
	f.Reload()
	if served(t, f, "a.example") == nil || !strings.Contains(log.String(), "has expired") || stateOf(t, f).LastError == "" {
		t.Errorf("an expired certificate takes the place of another: %s", log.String())
	}
	log.Reset()
	if err := f.Open(); err != nil || served(t, f, "b.example") == nil || !strings.Contains(log.String(), "has expired") {
		t.Errorf("at the start: %v, %s", err, log.String())
	}
}

func TestBrokenFilesLeaveTheLastCertificate(t *testing.T) {
	ca := certtest.NewCA(t)
	dir := t.TempDir()
	var log bytes.Buffer
	f := &certificate.Files{Log: slog.New(slog.NewTextHandler(&log, nil))}
	f.Cert, f.Key = ca.Write(dir, "a.example")
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	other, _ := ca.Issue("b.example")
	for name, change := range map[string]func() error{
		"not PEM":             func() error { return os.WriteFile(f.Cert, []byte("x"), 0o600) },
		"key of another one":  func() error { return os.WriteFile(f.Cert, other, 0o600) },
		"no certificate":      func() error { return os.Remove(f.Cert) },
		"too large":           func() error { return os.WriteFile(f.Cert, make([]byte, 2<<20), 0o600) },
		"empty":               func() error { return os.WriteFile(f.Cert, nil, 0o600) },
		"certificate and key": func() error { return os.WriteFile(f.Key, other, 0o600) },
	} {
		log.Reset()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		f.Reload()
		f.Reload()
		if served(t, f, "a.example") == nil {
			t.Errorf("%s: the last certificate is gone", name)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("%s: %d lines of the log, want 1: %s", name, lines, log.String())
		}
		if s := stateOf(t, f); s.LastError == "" || strings.Contains(s.LastError, dir) || s.NotAfter.IsZero() {
			t.Errorf("%s: the state is %+v", name, s)
		}
		ca.Write(dir, "a.example")
		f.Reload()
		if s := stateOf(t, f); s.LastError != "" || s.Source != certificate.FromFile {
			t.Errorf("%s: the state of the next certificate is %+v", name, s)
		}
	}
}

func TestUnusableFilesAreRefusedAtTheStart(t *testing.T) {
	ca := certtest.NewCA(t)
	dir := t.TempDir()
	f := &certificate.Files{Log: slog.New(slog.DiscardHandler)}
	f.Cert, f.Key = ca.Write(dir)
	if err := f.Open(); err == nil || !strings.Contains(err.Error(), "no subject alternative names") {
		t.Errorf("a certificate without names: %v", err)
	}
	f.Cert, f.Key = f.Key, f.Cert
	if err := f.Open(); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Errorf("certificate and key exchanged: %v", err)
	}
	f.Key = dir + "/none"
	if err := f.Open(); err == nil || !strings.Contains(err.Error(), "--tls-key") {
		t.Errorf("no key: %v", err)
	}
}

func TestNamesOfAFile(t *testing.T) {
	ca := certtest.NewCA(t)
	f := &certificate.Files{Log: slog.New(slog.DiscardHandler)}
	f.Cert, f.Key = ca.Write(t.TempDir(), "a.example", "*.b.example", "127.0.0.1")
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"a.example": true, "A.example": true, "x.b.example": true, "": true,
		"b.example": false, "x.a.example": false, "x.y.b.example": false, "localhost": false,
	} {
		if got := served(t, f, name) != nil; got != want {
			t.Errorf("%q is served: %v", name, got)
		}
	}
}
