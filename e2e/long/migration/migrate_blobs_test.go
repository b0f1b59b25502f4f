package migration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/internal/db/dbtest"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// movingInstallation keeps its addresses when it is started again. It listens again when its rows were moved, and
// nobody else may have its port by then.
func movingInstallation(t *testing.T) *installation.Steward {
	t.Helper()
	return installation.Start(t, "sqlite", "--listen", porttest.Address(porttest.Free(t)), "--s3-listen", porttest.Address(porttest.Free(t)))
}

// migrateBytes returns the command that moves rows and bytes. env has the credentials.
func migrateBytes(s *installation.Steward, to, blobURL string, env []string) *exec.Cmd {
	s.T.Helper()
	cmd := s.Command("migrate", "--to", to, "--blob-url", blobURL)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// begin starts a command, and returns the lines that it writes.
func begin(s *installation.Steward, cmd *exec.Cmd) *bufio.Scanner {
	s.T.Helper()
	out, err := cmd.StdoutPipe()
	s.Must(err)
	cmd.Stderr = cmd.Stdout
	s.Must(cmd.Start())
	return bufio.NewScanner(out)
}

// mustRun runs a command, and returns what it prints, in which there are some texts.
func mustRun(t *testing.T, cmd *exec.Cmd, want ...string) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, text := range want {
		if !strings.Contains(string(out), text) {
			t.Errorf("there is no %q in %s", text, out)
		}
	}
	return string(out)
}

// mustFail runs a command that fails with some text.
func mustFail(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("want %q: %v: %s", want, err, out)
	}
}

// writer stores, replaces and deletes objects of a bucket, and repeats each request until it succeeds.
type writer struct {
	copyBucket
	content  map[string][]byte
	deleted  []string
	requests atomic.Int64 // that succeeded
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("traffic/%d", n)
		w.write(key, fmt.Appendf(nil, "%s of %s, %0*d", key, w.name, rand.IntN(2000), n))
		switch earlier := fmt.Sprintf("traffic/%d", n/2); n % 5 {
		case 1:
			w.write(earlier, []byte("replaced: "+earlier))
		case 3:
			w.remove(earlier)
		}
	}
}

func (w *writer) write(key string, content []byte) {
	w.repeat(func(ctx context.Context) error {
		_, err := w.client.Client.PutObject(ctx, w.name, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
		return err
	})
	w.content[key] = content
	w.deleted = slices.DeleteFunc(w.deleted, func(k string) bool { return k == key })
}

func (w *writer) remove(key string) {
	w.repeat(func(ctx context.Context) error {
		return w.client.RemoveObject(ctx, w.name, key, minio.RemoveObjectOptions{})
	})
	delete(w.content, key)
	w.deleted = append(w.deleted, key)
}

// repeat sends a request until it succeeds, as a careful client does.
func (w *writer) repeat(request func(context.Context) error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), installation.RequestTimeout)
		err := request(ctx)
		cancel()
		if err == nil {
			w.requests.Add(1)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// mustHaveAll compares all objects, and looks for those that were deleted.
func (w *writer) mustHaveAll(t *testing.T) {
	t.Helper()
	w.mustHave(t, w.content)
	for _, key := range w.deleted {
		if _, err := w.client.Client.StatObject(t.Context(), w.name, key, minio.StatObjectOptions{}); minio.ToErrorResponse(err).Code != minio.NoSuchKey {
			t.Errorf("%s was deleted: %v", key, err)
		}
	}
}

// during runs the writers while f does.
func during(writers []*writer, f func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() { w.run(ctx) })
	}
	defer all.Wait()
	defer stop()
	f()
}

// TestObjectsMoveWithTheRows moves an installation from files to an S3 server and back, while two organizations
// write and uploads of parts are under way.
func TestObjectsMoveWithTheRows(t *testing.T) {
	t.Parallel()
	s := movingInstallation(t)
	other := installation.Start(t, "sqlite")
	cluster := openCopyBucket(other)
	blobURL, env := cluster.blobURL(cluster.origin)
	part := bytes.Repeat([]byte("part1"), 1<<20)
	var writers []*writer
	var uploads []string
	for _, tenant := range []*installation.Steward{s, s.SecondOrganization()} {
		w := &writer{copyBucket: openCopyBucket(tenant), content: map[string][]byte{}}
		w.write("large", bytes.Repeat([]byte(tenant.OrgID), 1<<20))
		w.write("empty", nil)
		uploadID, err := w.client.NewMultipartUpload(t.Context(), w.name, "upload", minio.PutObjectOptions{})
		s.Must(err)
		w.putPart(t, uploadID, 1, part)
		writers = append(writers, w)
		uploads = append(uploads, uploadID)
	}
	database := dbtest.EmptyPostgres(t)
	files := filepath.Join(s.Dir, "blobs")
	during(writers, func() {
		waitForTraffic(t, writers)
		mustRun(t, migrateBytes(s, database, blobURL, env), "copying bytes of objects", "blobs. Nothing was written for",
			"--blob-url '"+blobURL+"'", "--database-url 'postgres://", "and the bytes of objects in the old store")
		secrets(t, s, cluster.secretKey)
		s.Stop()
		s.Database = database
		mustFail(t, s.Serve(), "start with --blob-url 's3://")
		s.Must(os.Rename(files, files+".old"))
		s.Args = append(s.Args, "--blob-url", blobURL)
		s.Env = env
		s.Start()
		waitForTraffic(t, writers)
		mustFail(t, migrateBytes(s, "sqlite:"+s.Dir, blobURL, env), "already: leave it out")
	})
	for i, w := range writers {
		w.putPart(t, uploads[i], 2, []byte("part2"))
		completeUpload(s, w.copyBucket, uploads[i])
		w.content["upload"] = append(bytes.Clone(part), "part2"...)
		w.mustHaveAll(t)
	}

	during(writers, func() {
		mustRun(t, migrateBytes(s, "sqlite:"+s.Dir, "disk", nil), "without --blob-url\n", "without --database-url\n")
		s.Stop()
		s.Database = ""
		refused := s.Serve("--blob-url", blobURL)
		refused.Env = append(refused.Env, env...)
		mustFail(t, refused, "start without --blob-url")
		other.Kill()
		s.Args = s.Args[:len(s.Args)-2]
		s.Env = nil
		s.Start()
		waitForTraffic(t, writers)
	})
	for _, w := range writers {
		w.mustHaveAll(t)
	}
	s.Stop()
	s.Start() // the store is remembered for the first start only
}

func (w *writer) putPart(t *testing.T, uploadID string, number int, content []byte) {
	t.Helper()
	_, err := w.client.PutObjectPart(t.Context(), w.name, "upload", uploadID, number, bytes.NewReader(content), int64(len(content)), minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForTraffic waits until the writers have written something.
func waitForTraffic(t *testing.T, writers []*writer) {
	t.Helper()
	for _, w := range writers {
		first := w.requests.Load()
		waittest.Until(t, "objects", func() (int64, bool) { n := w.requests.Load(); return n, n > first+30 })
	}
}

// secrets fails if a secret is in the log of a process.
func secrets(t *testing.T, s *installation.Steward, secret string) {
	t.Helper()
	if strings.Contains(s.Log(), secret) {
		t.Errorf("the secret key is in the log: %s", s.Log())
	}
}

// TestMoveOfObjectsThatFailsLeavesTheServerAsItWas has the S3 server end in the middle and when the server has
// stopped serving, and kills the server. Each time the same command goes on.
func TestMoveOfObjectsThatFailsLeavesTheServerAsItWas(t *testing.T) {
	t.Parallel()
	s := movingInstallation(t)
	b := openCopyBucket(s)
	content, _ := b.fill(t)
	put := func(key string) {
		content[key] = []byte(key)
		b.put(t, key, content[key])
	}
	other := installation.Start(t, "sqlite", "--s3-listen", porttest.Address(porttest.Free(t)))
	cluster := openCopyBucket(other)
	g := newGate(t, cluster.origin, copyObjects/2)
	blobURL, env := cluster.blobURL(g.URL)
	database := dbtest.EmptyPostgres(t)
	command := func() *exec.Cmd { return migrateBytes(s, database, blobURL, env) }

	broken := command()
	lines := begin(s, broken)
	waittest.Receive(t, "half of the writes", g.blocked)
	other.Kill()
	g.limit.Store(1 << 30)
	g.CloseClientConnections()
	if said, err := rest(lines), broken.Wait(); err == nil || !strings.Contains(said, "copy the bytes of blob ") || strings.Contains(said, cluster.secretKey) {
		t.Errorf("%v: %s", err, said)
	}
	put("after the S3 server ended")
	secrets(t, s, cluster.secretKey)
	other.Start()
	mustFail(t, s.Command("migrate", "--to", database), "was begun with --blob-url s3://")
	mustFail(t, migrateBytes(s, database, strings.Replace(blobURL, "/blobs", "/other", 1), env), "was begun with --blob-url s3://")

	g.limit.Store(g.writes.Load() + 3)
	killed := command()
	lines = begin(s, killed)
	waittest.Receive(t, "some writes", g.blocked)
	s.Kill()
	if said, err := rest(lines), killed.Wait(); err == nil {
		t.Errorf("the server was killed: %s", said)
	}
	s.Start()
	put("after the server was killed")
	g.limit.Store(1 << 30)

	late := command()
	slow := beginPut(t, b, "last")
	lines = begin(s, late)
	for lines.Scan() && lines.Text() != "stopping the server" {
		t.Log(lines.Text())
	}
	other.Kill()
	content["last"] = slow.finish(t)
	if said, err := rest(lines), late.Wait(); err == nil || !strings.Contains(said, "copy the bytes of blob ") {
		t.Errorf("%v: %s", err, said)
	}
	waittest.True(t, "the server to start again", func() bool {
		_, err := b.client.Client.StatObject(t.Context(), b.name, "last", minio.StatObjectOptions{})
		return err == nil
	})
	b.mustHave(t, content)
	other.Start()

	put("before the end")
	s.Stop()
	mustRun(t, command(), "Moved") // without a server
	s.Must(os.RemoveAll(filepath.Join(s.Dir, "blobs")))
	s.Database = database
	s.Args = append(s.Args, "--blob-url", blobURL)
	s.Env = env
	s.Start()
	b.mustHave(t, content)
}

// rest returns the lines that are left.
func rest(lines *bufio.Scanner) string {
	var all strings.Builder
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
	}
	return all.String()
}

// slowPut is a request that has sent a part of its body.
type slowPut struct {
	body *io.PipeWriter
	err  chan error
}

// slowHalf is half of the body of a slowPut.
var slowHalf = bytes.Repeat([]byte("slow"), 64<<10)

func beginPut(t *testing.T, b copyBucket, key string) slowPut {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	p := slowPut{w, make(chan error, 1)}
	go func() {
		_, err := b.client.Client.PutObject(context.Background(), b.name, key, r, 2*int64(len(slowHalf)), minio.PutObjectOptions{})
		p.err <- err
	}()
	if _, err := w.Write(slowHalf); err != nil {
		t.Fatal(err)
	}
	return p
}

// finish sends what is left, and returns the whole body.
func (p slowPut) finish(t *testing.T) []byte {
	t.Helper()
	if _, err := p.body.Write(slowHalf); err != nil {
		t.Fatal(err)
	}
	if err := p.body.Close(); err != nil {
		t.Fatal(err)
	}
	if err := waittest.Receive(t, "the response", p.err); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(slowHalf, 2)
}
