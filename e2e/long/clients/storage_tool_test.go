package clients

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// tools runs S3 clients that are programs, in a home directory without any configuration of theirs.
type tools struct {
	installation.Bucket
	home string
}

func newTools(b installation.Bucket) tools { return tools{b, b.T.TempDir()} }

// run runs a program with the bucket's credentials, and returns what it prints.
func (c tools) run(program string, args ...string) string {
	c.T.Helper()
	out, err := c.try(program, args...)
	if err != nil {
		c.T.Fatalf("%s %s: %v", program, args, err)
	}
	return out
}

func (c tools) try(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = c.home
	cmd.Env = []string{
		"HOME=" + c.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"RESTIC_PASSWORD=secret", "AWS_ACCESS_KEY_ID=" + c.Access, "AWS_SECRET_ACCESS_KEY=" + c.Secret, "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// writeTree writes 50 files below a directory, and returns the directory.
func (c tools) writeTree() string {
	c.T.Helper()
	root := filepath.Join(c.home, "tree")
	for i := range 50 {
		name := fmt.Sprintf("dir %d/ü+%%20&=#/file-%d.txt", i%5, i)
		switch i {
		case 0:
			name = "top.txt"
		case 1:
			name = "quo'te \"[x]\".bin"
		}
		path := filepath.Join(root, name)
		c.Must(os.MkdirAll(filepath.Dir(path), 0o700))
		content := installation.RandomText(1 + i*i*31)
		if i == 49 {
			content = installation.RandomText(17 << 20) // in parts
		}
		c.Must(os.WriteFile(path, []byte(content), 0o600))
	}
	return root
}

// sums returns the hashes of all files below a directory.
func (c tools) sums(root string) map[string]string {
	c.T.Helper()
	sums := map[string]string{}
	c.Must(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		sums[strings.TrimPrefix(path, root)] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	}))
	return sums
}

// checkSync synchronizes a tree up and down, up again after a change, and compares.
func (c tools) checkSync(up, down func(local string)) {
	c.T.Helper()
	root := c.writeTree()
	up(root)
	if n := c.Bucket.ListObjects("prefix=tree/").Total; n != 50 {
		c.T.Errorf("%d objects after the first sync", n)
	}
	c.Must(os.WriteFile(filepath.Join(root, "top.txt"), []byte("changed and longer"), 0o600))
	c.Must(os.Remove(filepath.Join(root, "dir 2/ü+%20&=#/file-2.txt")))
	up(root)
	if n := c.Bucket.ListObjects("prefix=tree/").Total; n != 49 {
		c.T.Errorf("%d objects after the second sync", n)
	}
	copied := filepath.Join(c.home, "copy")
	c.Must(os.Mkdir(copied, 0o700))
	down(copied)
	if diff := cmp.Diff(c.sums(root), c.sums(copied)); diff != "" {
		c.T.Errorf("after the sync (-want +got):\n%s", diff)
	}
}

// eachTool runs a test of a program with each database and blob store, in a bucket named photos.
func eachTool(t *testing.T, test func(t *testing.T, c tools)) {
	t.Helper()
	t.Parallel()
	installation.EachStorage(t, func(t *testing.T, s *installation.Steward) { test(t, newTools(s.NewBucket("photos"))) })
}

func TestS3cmd(t *testing.T) {
	eachTool(t, func(t *testing.T, c tools) {
		config := fmt.Sprintf("[default]\naccess_key = %s\nsecret_key = %s\nhost_base = %s\nhost_bucket = %[3]s\nuse_https = False\n"+
			"signature_v2 = False\nmultipart_chunk_size_mb = 5\n", c.Access, c.Secret, c.Addresses().Listen["s3"])
		c.Must(os.WriteFile(filepath.Join(c.home, ".s3cfg"), []byte(config), 0o600))
		c.checkSync(
			func(local string) { c.run("s3cmd", "sync", "--delete-removed", local+"/", "s3://photos/tree/") },
			func(local string) { c.run("s3cmd", "sync", "s3://photos/tree/", local+"/") },
		)
		if got := c.run("s3cmd", "ls", "s3://photos/tree/"); !strings.Contains(got, "DIR") || !strings.Contains(got, "top.txt") {
			t.Errorf("ls: %s", got)
		}
		if got := c.run("s3cmd", "info", "s3://photos/tree/top.txt"); !strings.Contains(got, "File size: 18") {
			t.Errorf("info: %s", got)
		}
		c.run("s3cmd", "cp", "s3://photos/tree/top.txt", "s3://photos/copy.txt")
		c.run("s3cmd", "del", "--recursive", "s3://photos/tree/")
		c.Bucket.CheckTotals(1, 18)
	})
}

func TestRclone(t *testing.T) {
	eachTool(t, func(t *testing.T, c tools) {
		remote := ":s3,provider=Other,env_auth=true,region=us-east-1,endpoint='" + c.Addresses().S3URL + "':photos/"
		rclone := func(args ...string) string {
			return c.run("rclone", append([]string{"--config", "", "--retries", "1"}, args...)...)
		}
		c.checkSync(
			func(local string) {
				rclone("sync", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", local, remote+"tree")
			},
			func(local string) { rclone("sync", remote+"tree", local) },
		)
		if got := rclone("check", "--download", filepath.Join(c.home, "tree"), remote+"tree"); !strings.Contains(got, "0 differences found") {
			t.Errorf("check: %s", got)
		}
		if got := rclone("cat", "--offset", "2", "--count", "3", remote+"tree/top.txt"); got != "ang" {
			t.Errorf("a range: %q", got)
		}
		rclone("moveto", remote+"tree/top.txt", remote+"moved.txt")
		rclone("purge", remote+"tree")
		c.Bucket.CheckTotals(1, 18)
	})
}

// TestRestic backs a tree up twice, restores it, and removes the older snapshot with its data.
func TestRestic(t *testing.T) {
	eachTool(t, func(t *testing.T, c tools) {
		restic := func(args ...string) string {
			return c.run("restic", append([]string{"-r", "s3:" + c.Addresses().S3URL + "/photos/backups", "--no-cache"}, args...)...)
		}
		root := c.writeTree()
		restic("init")
		restic("backup", root)
		c.Must(os.WriteFile(filepath.Join(root, "top.txt"), []byte("changed and longer"), 0o600))
		restic("backup", root)
		restic("check", "--read-data")
		restored := filepath.Join(c.home, "restored")
		restic("restore", "latest", "--target", restored)
		if diff := cmp.Diff(c.sums(root), c.sums(filepath.Join(restored, root))); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
		restic("forget", "--keep-last", "1", "--prune")
		restic("check")
		if n := c.Bucket.ListObjects("prefix=backups/snapshots/").Total; n != 1 {
			t.Errorf("%d snapshots are left", n)
		}
	})
}

// TestDuplicity makes a full backup and an incremental one, and restores both.
func TestDuplicity(t *testing.T) {
	eachTool(t, func(t *testing.T, c tools) {
		duplicity := func(args ...string) string {
			return c.run("/usr/bin/duplicity", append(args, "--no-encryption", "--s3-endpoint-url", c.Addresses().S3URL)...)
		}
		root := c.writeTree()
		const target = "boto3+s3://photos/backups"
		duplicity("full", root, target)
		first := c.sums(root)
		c.Must(os.WriteFile(filepath.Join(root, "top.txt"), []byte("changed and longer"), 0o600))
		duplicity("incremental", root, target)
		duplicity("verify", "--compare-data", target, root)
		c.Must(os.RemoveAll(filepath.Join(c.home, ".cache")))
		restored := filepath.Join(c.home, "restored")
		duplicity("restore", target, restored)
		if diff := cmp.Diff(c.sums(root), c.sums(restored)); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
		if first["/top.txt"] == c.sums(restored)["/top.txt"] {
			t.Error("the incremental backup was not restored")
		}
		duplicity("full", root, target)
		before := c.Bucket.ListObjects("prefix=backups/").Total
		duplicity("remove-all-but-n-full", "1", "--force", target)
		if after := c.Bucket.ListObjects("prefix=backups/").Total; after >= before {
			t.Errorf("%d objects after the removal of old backups, %d before", after, before)
		}
	})
}

// TestLitestream replicates a database of SQLite while a program writes it, and restores it elsewhere.
func TestLitestream(t *testing.T) {
	out, err := exec.Command("../../../tools/litestream").Output()
	if err != nil {
		t.Fatalf("tools/litestream: %v", err)
	}
	program := strings.TrimSpace(string(out))
	eachTool(t, func(t *testing.T, c tools) {
		database := filepath.Join(c.home, "app.db")
		config := filepath.Join(c.home, "litestream.yml")
		c.Must(os.WriteFile(config, fmt.Appendf(nil, "dbs:\n  - path: %s\n    replica:\n      type: s3\n      bucket: photos\n      path: app\n"+
			"      endpoint: %s\n      region: us-east-1\n      force-path-style: true\n", database, c.Addresses().S3URL), 0o600))
		write := filepath.Join(c.home, "write.py")
		c.Must(os.WriteFile(write, []byte(`import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS t (x BLOB)")
for _ in range(200):
    db.execute("INSERT INTO t VALUES (?)", (os.urandom(5000),))
`), 0o600))
		for range 2 {
			c.run(program, "replicate", "-config", config, "-exec", "/usr/bin/python3 "+write+" "+database)
		}
		c.run(program, "replicate", "-config", config, "-once") // it may have ended before the last second's writes were sent
		restored := filepath.Join(c.home, "restored.db")
		c.run(program, "restore", "-config", config, "-o", restored, database)
		const query = `import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*), sum(length(x)) FROM t").fetchone())`
		want, got := c.run("/usr/bin/python3", "-c", query, database), c.run("/usr/bin/python3", "-c", query, restored)
		if got != want || !strings.Contains(want, "(400, 2000000)") {
			t.Errorf("restored %s of %s", got, want)
		}
	})
}

// TestBoto3 uses the AWS SDK for Python.
func TestBoto3(t *testing.T) {
	script, err := filepath.Abs("../../clients/s3.py")
	if err != nil {
		t.Fatal(err)
	}
	eachTool(t, func(_ *testing.T, c tools) { c.run("/usr/bin/python3", script, c.Addresses().S3URL, c.Name) })
}

// aws runs Debian's awscli.
func (c tools) aws(args ...string) string {
	c.T.Helper()
	return c.run("/usr/bin/aws", append([]string{"--endpoint-url", c.Addresses().S3URL}, args...)...)
}

// TestJavaScriptSDK uses the AWS SDK for JavaScript: the current one, and the first that signs the checksum of an empty
// body into presigned URLs.
func TestJavaScriptSDK(t *testing.T) {
	t.Parallel()
	installation.EachStorage(t, func(_ *testing.T, s *installation.Steward) {
		script, err := filepath.Abs("../../clients/s3.mjs")
		s.Must(err)
		for i, version := range []string{"current", "3.729"} {
			c := newTools(s.NewBucket(fmt.Sprint("sdk-", i)))
			c.run("node", script, s.Addresses().S3URL, c.Name, version)
		}
	})
}

func TestAwscli(t *testing.T) {
	eachTool(t, checkAwscli)
}

func checkAwscli(t *testing.T, c tools) {
	t.Helper()
	c.checkSync(
		func(local string) { c.aws("s3", "sync", "--delete", "--only-show-errors", local, "s3://photos/tree") },
		func(local string) { c.aws("s3", "sync", "--only-show-errors", "s3://photos/tree", local) },
	)
	c.aws("s3", "rm", "--recursive", "--only-show-errors", "s3://photos/")

	large := filepath.Join(c.home, "large")
	c.Must(os.WriteFile(large, []byte(installation.RandomText(100<<20)), 0o600))
	c.aws("s3", "cp", "--only-show-errors", large, "s3://photos/large")
	if head := c.aws("s3api", "head-object", "--bucket", "photos", "--key", "large"); !strings.Contains(head, `-13\"`) {
		t.Errorf("not in 13 parts of 8 MiB: %s", head)
	}
	c.aws("s3", "cp", "--only-show-errors", "s3://photos/large", large+"-copy")
	if diff := cmp.Diff(c.sums(large), c.sums(large+"-copy")); diff != "" {
		t.Errorf("100 MiB (-want +got):\n%s", diff)
	}
	part := filepath.Join(c.home, "part")
	c.aws("s3api", "get-object", "--bucket", "photos", "--key", "large", "--range", "bytes=8388600-8388615", part)
	c.wantSlice(part, large, 8388600, 16)
	c.Bucket.CheckTotals(1, 100<<20)

	wrong := c
	wrong.Secret = "wrong" + c.Secret[5:]
	if out, err := wrong.try("/usr/bin/aws", "--endpoint-url", c.Addresses().S3URL, "s3", "ls", "s3://photos"); err == nil || !strings.Contains(out, "SignatureDoesNotMatch") {
		t.Errorf("a wrong secret: %s", out)
	}
	address := strings.TrimSpace(c.aws("s3", "presign", "s3://photos/large"))
	c.run("curl", "-sSf", "-r", "10-19", "-o", part, address)
	c.wantSlice(part, large, 10, 10)
}

// TestReadmePresigns runs what the README says about presigned URLs.
func TestReadmePresigns(t *testing.T) {
	t.Parallel()
	c := newTools(installation.Start(t, "sqlite").NewBucket("invoices"))
	c.Must(os.WriteFile(filepath.Join(c.home, "hello.txt"), []byte("hello"), 0o600))
	c.aws("s3", "cp", "--only-show-errors", "hello.txt", "s3://invoices/2026/hello.txt")
	c.run("/usr/bin/aws", "configure", "set", "default.s3.signature_version", "s3v4")
	readme, err := os.ReadFile("../../../README.md")
	c.Must(err)
	_, script, _ := strings.Cut(string(readme), "```python\n")
	script, _, ok := strings.Cut(script, "```\n")
	if !ok {
		t.Fatal("the README has no Python")
	}
	script = strings.ReplaceAll(script, "http://127.0.0.1:9000", c.Addresses().S3URL)
	for what, address := range map[string]string{
		"boto3":   c.run("/usr/bin/python3", "-c", script),
		"aws-cli": c.aws("s3", "presign", "s3://invoices/2026/hello.txt"),
	} {
		if got := c.run("curl", "-sSf", strings.TrimSpace(address)); got != "hello" {
			t.Errorf("%s: %q", what, got)
		}
	}
	unsigned := strings.ReplaceAll(script, "s3v4", "s3")
	if got := c.run("curl", "-sS", strings.TrimSpace(c.run("/usr/bin/python3", "-c", unsigned))); !strings.Contains(got, "s3v4") {
		t.Errorf("a signature of version 2: %s", got)
	}
}

// wantSlice fails unless a file is a part of another one.
func (c tools) wantSlice(part, whole string, offset, length int64) {
	c.T.Helper()
	got, err := os.ReadFile(part)
	c.Must(err)
	file, err := os.Open(whole)
	c.Must(err)
	defer func() { _ = file.Close() }()
	want := make([]byte, length)
	_, err = file.ReadAt(want, offset)
	c.Must(err)
	if !bytes.Equal(got, want) {
		c.T.Errorf("%d bytes from %d are %x, want %x", length, offset, got, want)
	}
}

// presignURL returns a URL of the management API.
func presignURL(b installation.Bucket, key, operation string) string {
	b.T.Helper()
	query := url.Values{"key": {key}, "operation": {operation}}
	return b.Call("GET", "/storage/presign/"+b.Name+"?"+query.Encode(), nil).Want(200).Text("presigned_url")
}

// curl returns the status of a response and its body.
func (c tools) curl(args ...string) (status, body string) {
	c.T.Helper()
	out := c.run("curl", append([]string{"-sS", "-w", "\n%{http_code}"}, args...)...)
	at := strings.LastIndexByte(out, '\n')
	return out[at+1:], out[:at]
}

// TestPresignedURLsWithCurl uploads and downloads with URLs of the management API, on both databases
// and blob stores, and tries those that are not right.
func TestPresignedURLsWithCurl(t *testing.T) {
	t.Parallel()
	installation.EachStorage(t, func(t *testing.T, s *installation.Steward) {
		c := newTools(s.NewBucket("photos"))
		const key = "dir/ü +&?#%.txt"
		file := filepath.Join(c.home, "file")
		c.Must(os.WriteFile(file, []byte(installation.RandomText(100_000)), 0o600))
		upload, download := presignURL(c.Bucket, key, "upload"), presignURL(c.Bucket, key, "download")
		if status, body := c.curl("-T", file, upload); status != "200" {
			t.Errorf("upload: %s %s", status, body)
		}
		if status, body := c.curl(download); status != "200" || body != installation.RandomText(100_000) {
			t.Errorf("download: %s, %d bytes", status, len(body))
		}
		now := time.Now()
		c.checkForged(map[string][]string{
			"expired":              {c.Presigned("GET", "a", now.Add(-time.Minute), 59*time.Second)},
			"expired upload":       {"-T", file, c.Presigned("PUT", "a", now.Add(-time.Hour), time.Minute)},
			"upload by a download": {"-T", file, download},
			"download by upload":   {upload},
			"other key":            {strings.Replace(download, "txt", "txu", 1)},
			"longer":               {strings.Replace(download, "X-Amz-Expires=3600", "X-Amz-Expires=86400", 1)},
			"other signature":      {download[:len(download)-64] + strings.Repeat("0", 64)},
			"no signature":         {download[:strings.Index(download, "?")]},
			"delete":               {"-X", "DELETE", download},
			"other bucket":         {strings.Replace(download, "/photos/", "/videos/", 1)},
		})
		if got := c.Keys(""); len(got) != 1 || got[0] != key {
			t.Errorf("keys are %q", got)
		}
	})
}

// checkForged fails unless each request is refused.
func (c tools) checkForged(requests map[string][]string) {
	c.T.Helper()
	for what, args := range requests {
		status, body := c.curl(args...)
		if status != "403" && (what != "other bucket" || status != "404") || !strings.Contains(body, "<Error>") {
			c.T.Errorf("%s: %s %s", what, status, body)
		}
		if strings.HasPrefix(what, "expired") && !strings.Contains(body, "expired") {
			c.T.Errorf("%s: %s", what, body)
		}
	}
}

func TestPresignedURLsExpire(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--presign-expiry", "1s")
	c := newTools(s.NewBucket("photos"))
	c.Put("a", "x")
	address := presignURL(c.Bucket, "a", "download")
	waittest.True(t, "the URL to expire", func() bool {
		status, body := c.curl(address)
		return status == "403" && strings.Contains(body, "expired")
	})
}
