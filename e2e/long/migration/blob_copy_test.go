package migration

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// copyBucket is a bucket of an installation, as the process that runs now serves it.
type copyBucket struct {
	name, origin, accessKey, secretKey string
	client                             *minio.Core
}

// openCopyBucket returns a bucket of an installation, which it creates if there is none.
func openCopyBucket(s *installation.Steward) copyBucket {
	s.T.Helper()
	path := "/resource/" + s.OrgID + "/local"
	var list struct {
		S3 []struct{ Env map[string]string }
	}
	s.Call("GET", path, nil).Want(200).Decode(&list)
	if len(list.S3) == 0 {
		s.Call("POST", path, object{"resources": []object{{"type": "s3"}}}).Want(201)
		s.Call("GET", path, nil).Want(200).Decode(&list)
	}
	env := list.S3[0].Env
	b := copyBucket{
		name: env["S3_BUCKET"], origin: env["S3_ENDPOINT"],
		accessKey: env["S3_ACCESS_KEY_ID"], secretKey: env["S3_SECRET_ACCESS_KEY"],
	}
	client, err := minio.NewCore(strings.TrimPrefix(b.origin, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(b.accessKey, b.secretKey, ""), Region: env["S3_REGION"], BucketLookup: minio.BucketLookupPath,
	})
	s.Must(err)
	b.client = client
	return b
}

// copyObjects is the number of small objects.
const copyObjects = 40

// fill stores objects of several sizes, and begins an upload.
func (b copyBucket) fill(t *testing.T) (content map[string][]byte, uploadID string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	content = map[string][]byte{"large": make([]byte, 20<<20), "empty": {}}
	for i := range copyObjects {
		content[fmt.Sprintf("dir/%02d", i)] = make([]byte, 100*i+1)
	}
	for key, bytes := range content {
		_, _ = random.Read(bytes)
		b.put(t, key, bytes)
	}
	uploadID, err := b.client.NewMultipartUpload(t.Context(), b.name, "upload", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.PutObjectPart(t.Context(), b.name, "upload", uploadID, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{}); err != nil {
		t.Fatal(err)
	}
	return content, uploadID
}

func (b copyBucket) put(t *testing.T, key string, content []byte) {
	t.Helper()
	_, err := b.client.Client.PutObject(t.Context(), b.name, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// mustHave compares all objects.
func (b copyBucket) mustHave(t *testing.T, content map[string][]byte) {
	t.Helper()
	for key, want := range content {
		o, err := b.client.Client.GetObject(t.Context(), b.name, key, minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d: %v", key, len(got), len(want), err)
		}
	}
}

// blobURL returns the --blob-url of a bucket behind an origin, and the environment with its
// credentials.
func (b copyBucket) blobURL(origin string) (blobURL string, env []string) {
	return fmt.Sprintf("s3://%s/blobs?endpoint=%s&region=us-east-1", b.name, origin),
		[]string{"STEWARD_BLOB_ACCESS_KEY=" + b.accessKey, "STEWARD_BLOB_SECRET_KEY=" + b.secretKey}
}

// copyCommand returns `steward blob copy`.
func copyCommand(s *installation.Steward, from, to string, env []string) *exec.Cmd {
	s.T.Helper()
	cmd := s.Command("blob", "copy", "--from", from, "--to", to)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

var copySummary = regexp.MustCompile(`(\d+) blobs were copied \(.*\), (\d+) were there already, (\d+) failed`)

// mustCopy runs a command and returns how many blobs it copied and skipped.
func mustCopy(t *testing.T, cmd *exec.Cmd) (copied, skipped int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	copied, skipped, failed := summaryOf(t, string(out))
	if failed != 0 {
		t.Errorf("%d blobs failed: %s", failed, out)
	}
	return copied, skipped
}

func summaryOf(t *testing.T, text string) (copied, skipped, failed int) {
	t.Helper()
	found := copySummary.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("there is no summary in %q", text)
	}
	for i, to := range []*int{&copied, &skipped, &failed} {
		if _, err := fmt.Sscan(found[i+1], to); err != nil {
			t.Fatal(err)
		}
	}
	return copied, skipped, failed
}

// gate is a proxy in front of a cluster that passes some writes on and keeps others waiting.
type gate struct {
	*httptest.Server
	writes  atomic.Int64 // that have arrived
	limit   atomic.Int64 // of writes that are passed on
	blocked chan struct{}
}

func newGate(t *testing.T, origin string, limit int64) *gate {
	t.Helper()
	target, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{blocked: make(chan struct{}, 1)}
	g.limit.Store(limit)
	proxy := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme = target.Scheme
		r.Out.URL.Host = target.Host
		r.Out.Host = r.In.Host // it is signed
	}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && g.writes.Add(1) > g.limit.Load() {
			select {
			case g.blocked <- struct{}{}:
			default:
			}
			_, _ = io.Copy(io.Discard, r.Body) // net/http notices the end of a connection only then
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// TestBlobCopyMovesAnInstallation copies the files of an installation to a cluster, killed once and
// continued, while the server is running and again after it was stopped. It serves from there, and
// moves back.
func TestBlobCopyMovesAnInstallation(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		b := openCopyBucket(s)
		content, uploadID := b.fill(t)
		blobs := copyObjects + 4 // the large one has two parts, the empty one, and that of the upload
		cluster := openCopyBucket(installation.Start(t, "sqlite"))
		g := newGate(t, cluster.origin, copyObjects/2)
		blobURL, env := cluster.blobURL(g.URL)

		killed := copyCommand(s, "disk", blobURL, env)
		s.Must(killed.Start())
		waittest.Receive(t, "half of the writes", g.blocked)
		s.Must(killed.Process.Signal(syscall.SIGKILL))
		_ = killed.Wait() // returns that it was killed

		g.limit.Store(1 << 30)
		copied, skipped := mustCopy(t, copyCommand(s, "disk", blobURL, env))
		if copied+skipped != blobs || copied == 0 || skipped == 0 {
			t.Errorf("%d blobs were copied and %d skipped, want %d in all and some of each", copied, skipped, blobs)
		}
		content["later"] = []byte("stored while the server was running")
		b.put(t, "later", content["later"])
		s.Stop()
		if copied, skipped := mustCopy(t, copyCommand(s, "disk", blobURL, env)); copied != 1 || skipped != blobs {
			t.Errorf("%d blobs were copied and %d skipped after the stop, want 1 and %d", copied, skipped, blobs)
		}

		files := filepath.Join(s.Dir, "blobs")
		s.Must(os.RemoveAll(files))
		s.Args, s.Env = []string{"--blob-url", blobURL}, env
		s.Start()
		b = openCopyBucket(s)
		b.mustHave(t, content)
		completeUpload(s, b, uploadID)
		content["upload"] = []byte("part")
		b.mustHave(t, content)
		s.Stop()

		if copied, skipped := mustCopy(t, copyCommand(s, blobURL, "disk", env)); copied != blobs+1 || skipped != 0 {
			t.Errorf("%d blobs were copied back and %d skipped, want %d and 0", copied, skipped, blobs+1)
		}
		s.Args, s.Env = nil, nil
		s.Start()
		openCopyBucket(s).mustHave(t, content)
	})
}

// completeUpload completes an upload with the parts that the server lists.
func completeUpload(s *installation.Steward, b copyBucket, uploadID string) {
	s.T.Helper()
	ctx := s.T.Context()
	parts, err := b.client.ListObjectParts(ctx, b.name, "upload", uploadID, 0, 100)
	s.Must(err)
	var complete []minio.CompletePart
	for _, p := range parts.ObjectParts {
		complete = append(complete, minio.CompletePart{PartNumber: p.PartNumber, ETag: p.ETag})
	}
	_, err = b.client.CompleteMultipartUpload(ctx, b.name, "upload", uploadID, complete, minio.PutObjectOptions{})
	s.Must(err)
}

// TestBlobCopyFailsVisibly has a file that is missing, and a cluster that cannot be reached.
func TestBlobCopyFailsVisibly(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		b := openCopyBucket(s)
		b.put(t, "lost", []byte("lost"))
		files, err := filepath.Glob(filepath.Join(s.Dir, "blobs", "*", "*"))
		s.Must(err)
		if len(files) != 1 {
			t.Fatalf("files: %v", files)
		}
		s.Must(os.Remove(files[0]))
		b.put(t, "kept", []byte("kept"))
		cluster := installation.Start(t, "sqlite")
		target := openCopyBucket(cluster)
		blobURL, env := target.blobURL(target.origin)
		out, err := copyCommand(s, "disk", blobURL, env).CombinedOutput()
		copied, _, failed := summaryOf(t, string(out))
		if err == nil || copied != 1 || failed != 1 || !strings.Contains(string(out), filepath.Base(files[0])+": open: blob: not found") {
			t.Errorf("%v: %s", err, out)
		}
		cluster.Stop()
		if out, err := copyCommand(s, "disk", blobURL, env).CombinedOutput(); err == nil || !strings.Contains(string(out), "--blob-url") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func TestBlobCopyShowsABarOnATerminal(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	b := openCopyBucket(s)
	b.put(t, "large", make([]byte, 5<<20))
	cluster := openCopyBucket(installation.Start(t, "sqlite"))
	blobURL, env := cluster.blobURL(cluster.origin)
	cmd := copyCommand(s, "disk", blobURL, env)
	terminal, err := pty.Start(cmd)
	s.Must(err)
	defer func() { _ = terminal.Close() }()
	out, _ := io.ReadAll(terminal) // ends with an error when the process does
	s.Must(cmd.Wait())
	if !strings.Contains(string(out), "copying") || !strings.Contains(string(out), "%") {
		t.Errorf("there is no bar in %q", out)
	}
	summaryOf(t, string(out))
}
