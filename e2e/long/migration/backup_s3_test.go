package migration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/internal/db"
	"steward/internal/waittest"
)

// backupBucket is a place for backups in a bucket of another installation, and the key that opens them.
type backupBucket struct {
	copyBucket
	target    string
	env       []string
	recipient string
	identity  string // file
}

func newBackupBucket(t *testing.T, cluster copyBucket, origin string) backupBucket {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b := backupBucket{
		copyBucket: cluster, target: fmt.Sprintf("s3://%s/backups?endpoint=%s&region=us-east-1", cluster.name, origin),
		env:       []string{"AWS_ACCESS_KEY_ID=" + cluster.accessKey, "AWS_SECRET_ACCESS_KEY=" + cluster.secretKey},
		recipient: identity.Recipient().String(), identity: filepath.Join(t.TempDir(), "identity"),
	}
	if err := os.WriteFile(b.identity, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs a command that needs no installation, or that of s if it makes a backup.
func (b backupBucket) run(s *installation.Steward, args ...string) (string, error) {
	s.T.Helper()
	cmd := s.Command(args...)
	if args[0] == "restore" || args[1] == "verify" || args[1] == "list" {
		cmd.Args = cmd.Args[:len(cmd.Args)-2]
	}
	cmd.Env = append(append(cmd.Env, b.env...), "STEWARD_DATABASE_URL=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b backupBucket) must(s *installation.Steward, says string, args ...string) {
	s.T.Helper()
	if out, err := b.run(s, args...); err != nil || !strings.Contains(out, says) {
		s.T.Fatalf("%v: %v: %s", args, err, out)
	}
}

func (b backupBucket) refuse(s *installation.Steward, says string, args ...string) {
	s.T.Helper()
	if out, err := b.run(s, args...); err == nil || !strings.Contains(out, says) {
		s.T.Errorf("%v: %v: %s, want %q", args, err, out, says)
	}
}

// keys returns the objects of a place of the repository.
func (b backupBucket) keys(t *testing.T, place string) (keys []string) {
	t.Helper()
	for o := range b.client.Client.ListObjects(t.Context(), b.name, minio.ListObjectsOptions{Prefix: "backups/" + place + "/", Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

func (b backupBucket) get(t *testing.T, key string) []byte {
	t.Helper()
	o, err := b.client.Client.GetObject(t.Context(), b.name, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(o)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestBackupsOnS3 makes encrypted backups of a running installation in a bucket, changes objects there, and
// restores.
func TestBackupsOnS3(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	content, _ := openCopyBucket(s).fill(t)
	cluster := openCopyBucket(installation.Start(t, "sqlite"))
	b := newBackupBucket(t, cluster, cluster.origin)
	b.must(s, "was added", "backup", b.target, "--with-key", "--recipient", b.recipient)
	before := b.keys(t, "backup-blobs")
	b.must(s, "0 older backups", "backup", b.target, "--with-key", "--recipient", b.recipient, "--keep", "2")
	if after := b.keys(t, "backup-blobs"); len(after) != len(before) || len(before) < copyObjects {
		t.Errorf("%d blobs became %d", len(before), len(after))
	}
	b.must(s, "1 older backups", "backup", b.target, "--with-key", "--recipient", b.recipient, "--keep", "2")
	b.must(s, "CREATED", "backup", "list", b.target)
	b.must(s, "The backup is complete", "backup", "verify", b.target, "--identity", b.identity)
	b.refuse(s, "--identity", "backup", "verify", b.target)
	b.refuse(s, "are encrypted", "backup", b.target)
	b.refuse(s, "other recipients", "backup", b.target, "--recipient", newBackupBucket(t, cluster, cluster.origin).recipient)

	for _, key := range []string{newest(b.keys(t, "archives")), b.keys(t, "backup-blobs")[copyObjects/2]} {
		name := path.Base(key)
		whole := b.get(t, key)
		flipped := append([]byte(nil), whole...)
		flipped[len(flipped)/2] ^= 1
		for _, changed := range [][]byte{flipped, whole[:len(whole)-1]} {
			b.put(t, key, changed)
			b.refuse(s, name, "backup", "verify", b.target, "--identity", b.identity)
		}
		if strings.Contains(key, "/backup-blobs/") {
			if err := b.client.Client.RemoveObject(t.Context(), b.name, key, minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
			b.refuse(s, name, "backup", "verify", b.target, "--identity", b.identity)
		}
		b.put(t, key, whole)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	b.must(s, "Restored and checked", "restore", b.target, "--data", restored, "--identity", b.identity)
	s.Stop()
	s.Dir = restored
	s.Start()
	openCopyBucket(s).mustHave(t, content)
}

// newest returns the key of the newest archive: the keys begin with the ends of the ids.
func newest(keys []string) string {
	return slices.MaxFunc(keys, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
}

// dyingProxy is a proxy in front of a cluster that breaks all connections while it is dead. It dies at the
// first part of an archive.
type dyingProxy struct {
	*httptest.Server
	armed, dead atomic.Bool
}

func newDyingProxy(t *testing.T, origin string) *dyingProxy {
	t.Helper()
	target, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	p := &dyingProxy{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme = target.Scheme
		r.Out.URL.Host = target.Host
		r.Out.Host = r.In.Host // it is signed
	}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/archives/") && r.URL.Query().Has("partNumber") && p.armed.CompareAndSwap(true, false) {
			p.dead.Store(true)
		}
		if p.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// TestScheduledBackupsOnS3 has two replicas make backups in a bucket whose server dies during the first one.
func TestScheduledBackupsOnS3(t *testing.T) {
	t.Parallel()
	cluster := openCopyBucket(installation.Start(t, "sqlite"))
	proxy := newDyingProxy(t, cluster.origin)
	proxy.armed.Store(true)
	b := newBackupBucket(t, cluster, proxy.URL)
	blobURL, env := cluster.blobURL(cluster.origin)
	s := installation.Prepare(t, "postgres", "--metrics-listen", "127.0.0.1:0", "--blob-url", blobURL, "--backup-to", b.target,
		"--backup-schedule", "1h", "--backup-keep", "1", "--backup-recipients", b.recipient)
	s.Env = append(env, b.env...)
	s.Start()
	replica := s.Replica()

	waittest.True(t, "a failure", func() bool { return backupStatus(s).LastError != "" })
	if got := backupStatus(replica); got.LastSuccessAt != "" || !strings.HasPrefix(got.LastError, "the backup failed") {
		t.Errorf("the status is %+v", got)
	}
	if got := failures(s) + failures(replica); got != 1 {
		t.Errorf("%d failures are counted, want 1", got)
	}
	if halves := b.halves(t); halves != 1 {
		t.Errorf("%d uploads of archives are not completed, want 1", halves)
	}
	content, _ := openCopyBucket(s).fill(t)
	second := s.SecondOrganization()
	other, _ := openCopyBucket(second).fill(t)

	proxy.dead.Store(false)
	var last string
	for range 2 {
		makeDue(s)
		waittest.True(t, "a backup", func() bool {
			got := backupStatus(s)
			return got.LastSuccessAt > last && got.LastError == "" && len(b.keys(t, "archives")) == 1
		})
		last = backupStatus(s).LastSuccessAt
	}
	waittest.True(t, "the end of what was half uploaded", func() bool { return b.halves(t) == 0 })
	b.must(s, "The backup is complete", "backup", "verify", b.target, "--identity", b.identity)

	key, err := os.ReadFile(filepath.Join(s.Dir, "master.key"))
	s.Must(err)
	b.env = append(b.env, "STEWARD_MASTER_KEY="+strings.TrimSpace(string(key)))
	s.Stop()
	replica.Stop()
	restored := installation.Prepare(t, "sqlite")
	restored.Key = s.Key
	restored.Steward.Key = s.Key
	restored.Env = []string{b.env[len(b.env)-1]}
	b.must(s, "Restored and checked", "restore", b.target, "--data", filepath.Join(restored.Dir, "data"), "--identity", b.identity)
	restored.Dir = filepath.Join(restored.Dir, "data")
	restored.Start()
	openCopyBucket(restored).mustHave(t, content)
	tenant := restored.As(second.Key)
	tenant.ReadOrganization()
	openCopyBucket(tenant).mustHave(t, other)
}

// halves returns how many uploads of archives are not completed.
func (b backupBucket) halves(t *testing.T) int {
	t.Helper()
	found, err := b.client.ListMultipartUploads(t.Context(), b.name, "backups/", "", "", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	return len(found.Uploads)
}

type scheduledBackup struct {
	LastSuccessAt string `json:"last_success_at"`
	LastError     string `json:"last_error"`
}

func backupStatus(s *installation.Steward) scheduledBackup {
	s.T.Helper()
	var got struct{ Backup scheduledBackup }
	s.Call("GET", "/status", nil).Want(200).Decode(&got)
	return got.Backup
}

// failures returns how many backups of a process have failed.
func failures(s *installation.Steward) (n int) {
	s.T.Helper()
	res, err := installation.Client.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
	s.Must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.Must(err)
	_, after, ok := strings.Cut(string(text), "\nsteward_backup_failures_total ")
	if !ok {
		s.T.Fatal("there is no steward_backup_failures_total")
	}
	_, err = fmt.Sscan(after, &n)
	s.Must(err)
	return n
}

// makeDue has the next backup be due now.
func makeDue(s *installation.Steward) {
	s.T.Helper()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{URL: s.Database})
	s.Must(err)
	const day = 24 * 3600 * 1_000_000
	_, err = d.Exec(ctx, `UPDATE backup_schedule SET failed_at = failed_at - $1, began_at = began_at - $1`, day)
	s.Must(err)
	s.Must(d.Close())
}
