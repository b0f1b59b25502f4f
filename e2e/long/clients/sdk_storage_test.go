package clients

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// TestBunUsesABucketByItsEnvironment uses a bucket with Bun's S3 client, configured by `env`.
func TestBunUsesABucketByItsEnvironment(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	var made struct {
		Created []struct {
			Endpoint string
			Env      map[string]string
		}
	}
	resources := object{"resources": []object{{"type": "s3", "name": "invoices"}}}
	s.Call("POST", "/resource/"+s.OrgID+"/local", resources).Want(201).Decode(&made)
	cmd := exec.CommandContext(t.Context(), bunPath(s), "../../sdk/bun_s3.mjs", made.Created[0].Endpoint)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for name, value := range made.Created[0].Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if _, stderr, code := finish(t, cmd); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if got := s.Call("GET", "/storage/stats/invoices", nil).Want(200); got.Get("object_count") != 2.0 || got.Get("total_size") != 22.0 {
		t.Errorf("statistics: %s", got.Body)
	}
}

// storage runs a command of `cloud storage`, which must succeed, and returns the JSON that it prints.
func (c *platformCLI) storage(args ...string) *installation.Response {
	c.s.T.Helper()
	return c.cloud(append([]string{"storage"}, args...)...)
}

// write writes a file into the working directory.
func (c *platformCLI) write(name string, content []byte) {
	c.s.T.Helper()
	c.s.Must(os.WriteFile(filepath.Join(c.dir, name), content, 0o600))
}

// files returns the keys that `cloud storage list` prints, separated by spaces.
func (c *platformCLI) files(args ...string) string {
	c.s.T.Helper()
	var list struct{ Files []struct{ Key string } }
	c.storage(append([]string{"list"}, args...)...).Decode(&list)
	var keys []string
	for _, f := range list.Files {
		keys = append(keys, f.Key)
	}
	return strings.Join(keys, " ")
}

// TestPlatformCLITransfersObjects uploads, lists, downloads and deletes with the CLI.
func TestPlatformCLITransfersObjects(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	if got := c.storage("create", "--name", "photos", "--description", "Holidays"); got.Text("name") != "photos" {
		t.Fatalf("create: %s", got.Body)
	}
	large := bytes.Repeat([]byte("steward "), 1<<20)
	c.write("large.bin", large)
	c.write("note.json", []byte(`{"a": 1}`))
	c.storage("upload", "photos", "note.json")
	if got := c.storage("upload", "photos", "large.bin", "--key", "2026/large.bin"); got.Get("size") != float64(len(large)) {
		t.Errorf("upload: %s", got.Body)
	}
	_, stderr, code := c.run("from a pipe", "cloud", "storage", "upload", "photos", "-", "--key", "2026/ü.txt")
	if code != 0 || !strings.Contains(stderr, "Uploaded 2026/ü.txt to photos (11 bytes)") {
		t.Errorf("upload of standard input: %d %s", code, stderr)
	}

	if got := c.files("photos"); got != "2026/large.bin 2026/ü.txt note.json" {
		t.Errorf("list: %s", got)
	}
	if got := c.files("photos", "2026/l"); got != "2026/large.bin" {
		t.Errorf("list with a prefix: %s", got)
	}

	c.storage("download", "photos", "2026/large.bin", "copy.bin")
	downloaded, err := os.ReadFile(filepath.Join(c.dir, "copy.bin"))
	s.Must(err)
	if !bytes.Equal(downloaded, large) {
		t.Error("the downloaded file is not the uploaded one")
	}
	stdout, _, code := c.run("", "cloud", "storage", "download", "photos", "note.json", "-")
	if code != 0 || !strings.HasPrefix(stdout, `{"a": 1}`) {
		t.Errorf("download to standard output: %d %q", code, stdout)
	}
	metadata := c.storage("download", "photos", "note.json", "--metadata")
	if !strings.HasPrefix(metadata.Text("contentType"), "application/json") || metadata.Get("size") != 8.0 {
		t.Errorf("metadata: %s", metadata.Body)
	}

	if got := c.storage("delete", "photos", "2026", "--confirm"); got.Get("count") != 2.0 {
		t.Errorf("delete a folder: %s", got.Body)
	}
	c.storage("delete", "photos", "note.json", "--confirm")
	if got := c.files("photos"); got != "" {
		t.Errorf("list after deletion: %s", got)
	}
	c.storage("delete", "photos", "--confirm")
	s.Call("GET", "/storage/stats/photos", nil).Want(404)
}

// TestPlatformCLIManagesBuckets creates, shows, configures and lists buckets with the CLI.
func TestPlatformCLIManagesBuckets(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	c.storage("create", "--name", "zebra", "--description", "Stripes")
	generated := c.storage("create").Text("name")
	if got := c.storage("get", "zebra"); got.Text("description") != "Stripes" || got.Text("org_id") != s.OrgID || got.Text("access_key") == "" {
		t.Errorf("get: %s", got.Body)
	}
	stdout, _, code := c.run("", "cloud", "storage", "list", "--name-only")
	if code != 0 || !strings.HasPrefix(stdout, generated+"\nzebra\n") { // newest first
		t.Errorf("list: %d %q", code, stdout)
	}

	cors := `{"allowed_origins":["https://example.com"],"max_age_seconds":null}`
	got := c.storage("config", "zebra", "--ttl", "3600", "--public", "--storage-tier", "ARCHIVE",
		"--cache-control", "no-store", "--cors", cors, "--additional-headers", `{"X-A":"b"}`)
	var config, shown object
	got.Decode(&config)
	c.storage("config", "zebra").Decode(&shown)
	if config["ttl"] != 3600.0 || config["public"] != true || config["storage_tier"] != "ARCHIVE" || !reflect.DeepEqual(shown, config) {
		t.Errorf("update: %v, then %v", config, shown)
	}
	if got := c.storage("config", "zebra", "--ttl", "0"); got.Get("ttl") != nil || got.Get("public") != true {
		t.Errorf("update of the ttl: %s", got.Body)
	}
	c.storage("config", "zebra", "--reset")
	if got := c.storage("config", "zebra"); got.Get("public") != nil || got.Get("cors") != nil || got.Get("storage_tier") != nil {
		t.Errorf("configuration after its reset: %s", got.Body)
	}
}

// TestPlatformCLIReportsErrors checks the exit codes, which the CLI derives from statuses and empty
// lists, and what users read.
func TestPlatformCLIReportsErrors(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	c.storage("create", "--name", "zebra")
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{10, "already exists", []string{"create", "--name", "zebra"}},
		{10, "can only contain", []string{"create", "--name", "No_Bucket"}},
		{12, "'missing' not found", []string{"get", "missing"}},
		{12, "'missing' not found", []string{"list", "missing"}},
		{12, "'missing' not found", []string{"upload", "missing", "file"}},
		{12, "'missing' not found", []string{"delete", "missing", "--confirm"}},
		{12, "No file or folder found", []string{"delete", "zebra", "missing", "--confirm"}},
		{12, "File not found", []string{"upload", "zebra", "missing"}},
		{1, "specified key does not exist", []string{"download", "zebra", "missing", "file"}},
		{1, "body.ttl: expected", []string{"config", "zebra", "--ttl", "99999999999"}},
		{1, "body.cors.allowed_methods[0]: expected", []string{"config", "zebra", "--cors", `{"allowed_methods":["TRACE"]}`}},
	} {
		c.wantError(test.code, test.want, append([]string{"--json", "cloud", "storage"}, test.args...)...)
	}
	c.as("sk_wrong").wantError(1, "the API key is missing", "--json", "cloud", "storage", "list")
}

// TestPlatformCLIFindsABucketAmongMany: the CLI looks for a bucket in a list without a limit.
func TestPlatformCLIFindsABucketAmongMany(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	var resources []object
	for range 100 {
		resources = append(resources, object{"type": "s3"})
	}
	s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": resources}).Want(201)
	c := newPlatformCLI(s)
	c.storage("create", "--name", "zz-last")
	c.write("file", []byte("x"))
	c.storage("upload", "zz-last", "file")
	if got := c.files("zz-last"); got != "file" {
		t.Errorf("list: %s", got)
	}
	var list struct{ S3 []any }
	for query, want := range map[string]int{"": 101, "?limit=100": 100, "?limit=0": 0, "?offset=100": 1, "?offset=101": 0, "?name=ZZ-Last": 1} {
		if s.Call("GET", "/resource"+query, nil).Want(200).Decode(&list); len(list.S3) != want {
			t.Errorf("GET /resource%s has %d buckets, want %d", query, len(list.S3), want)
		}
	}
	s.Call("GET", "/resource?limit=1001", nil).Want(422)
}
