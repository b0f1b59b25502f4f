//go:build bench

package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// bucket is a bucket of an installation and its S3 endpoint.
type bucket struct {
	in *installation
	server
	Name     string `json:"bucket_name"`
	Access   string `json:"access_key"`
	Secret   string `json:"secret_key"`
	Region   string `json:"region"`
	Endpoint string `json:"endpoint"`
}

// bucket creates a bucket.
func (in *installation) bucket() *bucket {
	in.t.Helper()
	var made struct{ Created []bucket }
	in.call("POST", "/resource/"+in.orgID+"/local", map[string]any{"resources": []any{map[string]any{"type": "s3"}}}, &made)
	b := made.Created[0]
	b.in = in
	u, err := url.Parse(b.Endpoint)
	in.Must(err)
	b.server = server{address: u.Host, pid: in.server.pid}
	return &b
}

// unsigned is the hash of a body that is not part of the signature, as clients send it over TLS.
const unsigned = "UNSIGNED-PAYLOAD"

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// sign returns a signed request. size is that of the body, whose hash is part of the signature.
func (b *bucket) sign(method, key, hash string, size int64, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, "http://"+b.address+"/"+b.Name+"/"+key, body)
	b.in.Must(err)
	r.ContentLength = size
	r.Header.Set("X-Amz-Content-Sha256", hash)
	return signer.SignV4(*r, b.Access, b.Secret, "", b.Region)
}

// request returns the bytes of a signed request without its body.
func (b *bucket) request(method, key, hash string, size int) []byte {
	r := b.sign(method, key, hash, int64(size), nil)
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, r.URL.RequestURI(), r.URL.Host)
	if method == http.MethodPut {
		fmt.Fprintf(&text, "Content-Length: %d\r\n", size)
	}
	b.in.Must(r.Header.Write(&text))
	text.WriteString("\r\n")
	return text.Bytes()
}

// do sends a request and discards the response.
func (b *bucket) do(r *http.Request) {
	b.in.t.Helper()
	res, err := client.Do(r)
	b.in.Must(err)
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode >= 300 {
		b.in.t.Fatalf("%s %s: %s, %v", r.Method, r.URL, res.Status, err)
	}
}

// puts stores objects of the same bytes for a time.
func (b *bucket) puts(clients int, duration time.Duration, hash string, body []byte) result {
	prefix := fmt.Sprint(rows.Add(1))
	return load(b.in.t, b.server, clients, duration, func(conn, i int) []byte {
		return append(b.request("PUT", fmt.Sprintf("%s/%d/%d", prefix, conn, i), hash, len(body)), body...)
	})
}

// gets reads objects for a time. keys are those of objects that exist.
func (b *bucket) gets(clients int, duration time.Duration, keys []string) result {
	requests := make([][]byte, len(keys))
	for i, key := range keys {
		requests[i] = b.request("GET", key, hashOf(nil), 0)
	}
	return load(b.in.t, b.server, clients, duration, func(conn, i int) []byte { return requests[(conn+clients*i)%len(keys)] })
}

// newFileServer serves the files below BENCH_DIR.
func newFileServer() http.Handler { return http.FileServer(http.Dir(os.Getenv("BENCH_DIR"))) }

// blobFiles returns the paths of the files with the bytes of objects, below the directory of them all.
func (in *installation) blobFiles() (dir string, paths []string) {
	in.t.Helper()
	dir = filepath.Join(in.Dir, "blobs")
	in.Must(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		paths = append(paths, name)
		return err
	}))
	return dir, paths
}
