package operations

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/e2e/installation"
	"steward/internal/certificate/certtest"
	"steward/internal/waittest"
)

// The tests of TLS are not parallel, since they change the transport of all clients.

// trust has the clients of a test trust a CA.
func trust(t *testing.T, roots *x509.CertPool) {
	t.Helper()
	before := http.DefaultTransport
	transport := before.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	http.DefaultTransport = transport
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		http.DefaultTransport = before
	})
}

// startWithFiles starts an installation with a certificate of a CA for this machine, in a directory.
func startWithFiles(t *testing.T, ca *certtest.CA, dir string, args ...string) *installation.Steward {
	t.Helper()
	trust(t, ca.Pool)
	cert, key := ca.Write(dir, "127.0.0.1", "localhost")
	return installation.Start(t, "sqlite", append([]string{"--tls-cert", cert, "--tls-key", key}, args...)...)
}

// leaf returns the certificate that a listener serves for a name, or an error.
func leaf(address, name string, roots *x509.CertPool) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0], nil
}

func TestAPIOverTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	dir := t.TempDir()
	s := startWithFiles(t, ca, dir, "--metrics-listen", "127.0.0.1:0")
	address := s.Addresses().Listen["api"]
	if s.URL != "https://"+address {
		t.Fatalf("the URL is %s, the address %s", s.URL, address)
	}
	t.Run("HTTP/2", func(t *testing.T) {
		res, err := http.Get(s.URL + "/readyz")
		s.Must(err)
		defer res.Body.Close()
		if res.Proto != "HTTP/2.0" || res.StatusCode != http.StatusOK {
			t.Errorf("%s %s", res.Proto, res.Status)
		}
	})
	t.Run("status", func(t *testing.T) {
		served, err := leaf(address, "localhost", ca.Pool)
		s.Must(err)
		got := s.Call("GET", "/status", nil).Want(200).Get("certificates")
		want := []any{object{
			"domains": []any{"localhost", "127.0.0.1"}, "source": "file",
			"not_after": served.NotAfter.Format("2006-01-02T15:04:05.000Z"),
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("tail and ingest", func(t *testing.T) {
		h := s.NewHook("h")
		events := installation.Follow(t, "/webhook/tail", "", 0, func() *installation.Steward { return s })
		s.Ingest(h, "hello")
		events.Wait("receipt", 1)
	})
	t.Run("WebSocket", func(t *testing.T) {
		s.OpenSocket().Do("save", object{"thread_id": "t", "user_data": `{"a":1}`, "metadata": object{}})
	})
	t.Run("requests that cannot be parsed", func(t *testing.T) {
		c, err := tls.Dial("tcp", address, &tls.Config{ServerName: "localhost", RootCAs: ca.Pool})
		s.Must(err)
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprint(c, "GET /thread/%zz HTTP/1.1\r\nHost: a\r\n\r\n")
		s.Must(err)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		s.Must(err)
		defer res.Body.Close()
		if res.StatusCode != 400 || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s", res.Status, res.Header.Get("Content-Type"))
		}
	})
	t.Run("plain HTTP", func(t *testing.T) {
		res, err := http.Get("http://" + address)
		s.Must(err)
		defer res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP gets %s", res.Status)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		out, _ := s.RunDoctor(s.Args...)
		installation.WantChecks(t, out, "TLS certificates  ok  that of localhost, 127.0.0.1 ends on")
		s.Must(os.Chmod(filepath.Join(dir, "key.pem"), 0o644))
		out, _ = s.RunDoctor(s.Args...)
		installation.WantChecks(t, out, "TLS certificates  warning  every user of the machine can read .*key.pem")
	})
	t.Run("metrics", func(t *testing.T) {
		res, err := http.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
		s.Must(err)
		scrape, err := installation.ReadResponse(t, res)
		s.Must(err)
		if !strings.Contains(string(scrape.Body), `steward_tls_certificate_expiry_timestamp_seconds{domain="localhost"} 1.`) {
			t.Errorf("no expiry in %s", scrape.Body)
		}
	})
	t.Run("broken files", func(t *testing.T) {
		certificate := filepath.Join(dir, "cert.pem")
		good, err := os.ReadFile(certificate)
		s.Must(err)
		s.Must(os.Chmod(filepath.Join(dir, "key.pem"), 0o600))
		failing := func(n string) func() bool {
			return func() bool {
				res, err := http.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
				s.Must(err)
				scrape, err := installation.ReadResponse(t, res)
				s.Must(err)
				return strings.Contains(string(scrape.Body), "\nsteward_tls_certificates_failing "+n+"\n")
			}
		}
		s.Must(os.WriteFile(certificate, good[:len(good)/2], 0o600))
		out, code := s.RunDoctor(s.Args...)
		installation.WantChecks(t, out, "TLS certificates  failed  .*; correct --tls-cert and --tls-key")
		if code != 1 {
			t.Errorf("doctor exits with %d", code)
		}
		waittest.True(t, "the metric to tell", failing("1"))
		s.Must(os.WriteFile(certificate, good, 0o600))
		waittest.True(t, "the metric to forget", failing("0"))
	})
	t.Run("changed files", func(t *testing.T) {
		first, err := leaf(address, "localhost", ca.Pool)
		s.Must(err)
		ca.Write(dir, "127.0.0.1", "localhost")
		waittest.True(t, "the new certificate", func() bool {
			now, err := leaf(address, "localhost", ca.Pool)
			s.Must(err)
			return !now.Equal(first)
		})
	})
}

func TestStorageAndStoresOverTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	s := startWithFiles(t, ca, t.TempDir())
	b := s.NewBucket("bucket")
	useBucketOverTLS(b, &tls.Config{RootCAs: ca.Pool}, nil)
	kv := s.NewKVStore("k")
	if !strings.HasPrefix(kv.Address, "rediss://") {
		t.Errorf("the URL of a store is %s", kv.Address)
	}
	out, err := exec.Command("redis-cli", "--no-auth-warning", "-u", kv.Address, "--cacert", ca.File, "SET", "a", "1").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "OK" {
		t.Errorf("redis-cli: %s %v", out, err)
	}
	plain := strings.Replace(kv.Address, "rediss://", "redis://", 1)
	out, _ = exec.Command("redis-cli", "--no-auth-warning", "-u", plain, "SET", "a", "1").CombinedOutput()
	if !strings.Contains(string(out), "requires TLS") {
		t.Errorf("redis-cli without TLS: %s", out)
	}
}

func TestClientCertificates(t *testing.T) {
	ca, clients := certtest.NewCA(t), certtest.NewCA(t)
	s := startWithFiles(t, ca, t.TempDir(), "--client-ca", clients.File)
	s.Call("GET", "/cli/auth/user", nil).Want(200)
	b := s.NewBucket("bucket")
	pair := clients.Pair("client.example")
	useBucketOverTLS(b, &tls.Config{RootCAs: ca.Pool}, &pair)
	kv := s.NewKVStore("k")
	without := kv.Client()
	without.Options().TLSConfig.RootCAs = ca.Pool
	if err := without.Ping(t.Context()).Err(); err == nil {
		t.Error("a key-value store was used without a certificate")
	}
	with := kv.Client()
	with.Options().TLSConfig.RootCAs = ca.Pool
	with.Options().TLSConfig.Certificates = []tls.Certificate{pair}
	if err := with.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a key-value store with a certificate: %v", err)
	}
}

// useBucketOverTLS stores and reads an object. If clients need a certificate, it must fail without.
func useBucketOverTLS(b installation.Bucket, config *tls.Config, certificate *tls.Certificate) {
	b.T.Helper()
	use := func(config *tls.Config) error {
		c, err := minio.New(b.Addresses().Listen["s3"], &minio.Options{
			Creds: credentials.NewStaticV4(b.Access, b.Secret, ""), Secure: true, TrailingHeaders: true, MaxRetries: 1,
			Region: "us-east-1", Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		})
		b.Must(err)
		content := strings.Repeat("x", 20<<20)
		if _, err := c.PutObject(b.T.Context(), b.Name, "o", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{DisableMultipart: true}); err != nil {
			return err
		}
		o, err := c.StatObject(b.T.Context(), b.Name, "o", minio.StatObjectOptions{})
		if err == nil && o.Size != int64(len(content)) {
			b.T.Errorf("the object has %d bytes", o.Size)
		}
		return err
	}
	if certificate != nil {
		if err := use(config.Clone()); err == nil {
			b.T.Error("S3 was used without a certificate")
		}
		config.Certificates = []tls.Certificate{*certificate}
	}
	b.Must(use(config.Clone()))
}
