package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestBunUsesABucketByItsEnvironment uses a bucket with Bun's S3 client, configured by `env`.
func TestBunUsesABucketByItsEnvironment(t *testing.T) {
	t.Parallel()
	eachAtOnce(t, func(t *testing.T, s *steward) {
		var made struct {
			Created []struct {
				Endpoint string
				Env      map[string]string
			}
		}
		resources := object{"resources": []object{{"type": "s3", "name": "invoices"}}}
		s.call("POST", "/resource/"+s.orgID+"/local", resources).want(201).decode(&made)
		cmd := exec.CommandContext(t.Context(), s.bun(), "sdk/bun_s3.mjs", made.Created[0].Endpoint)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		for name, value := range made.Created[0].Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if _, stderr, code := finish(t, cmd); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if got := s.call("GET", "/storage/stats/invoices", nil).want(200); got.get("object_count") != 2.0 || got.get("total_size") != 22.0 {
			t.Errorf("statistics: %s", got.body)
		}
	})
}

// storage runs a command of `cloud storage`, which must succeed, and returns the JSON that it prints.
func (c *platformCLI) storage(args ...string) *response {
	c.s.t.Helper()
	return c.cloud(append([]string{"storage"}, args...)...)
}

// write writes a file into the working directory.
func (c *platformCLI) write(name string, content []byte) {
	c.s.t.Helper()
	c.s.must(os.WriteFile(filepath.Join(c.dir, name), content, 0o600))
}

// files returns the keys that `cloud storage list` prints, separated by spaces.
func (c *platformCLI) files(args ...string) string {
	c.s.t.Helper()
	var list struct{ Files []struct{ Key string } }
	c.storage(append([]string{"list"}, args...)...).decode(&list)
	var keys []string
	for _, f := range list.Files {
		keys = append(keys, f.Key)
	}
	return strings.Join(keys, " ")
}

// TestPlatformCLITransfersObjects uploads, lists, downloads and deletes with the CLI.
func TestPlatformCLITransfersObjects(t *testing.T) {
	t.Parallel()
	eachAtOnce(t, func(t *testing.T, s *steward) {
		c := s.platformCLI()
		if got := c.storage("create", "--name", "photos", "--description", "Holidays"); got.text("name") != "photos" {
			t.Fatalf("create: %s", got.body)
		}
		large := bytes.Repeat([]byte("steward "), 1<<20)
		c.write("large.bin", large)
		c.write("note.json", []byte(`{"a": 1}`))
		c.storage("upload", "photos", "note.json")
		if got := c.storage("upload", "photos", "large.bin", "--key", "2026/large.bin"); got.get("size") != float64(len(large)) {
			t.Errorf("upload: %s", got.body)
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
		s.must(err)
		if !bytes.Equal(downloaded, large) {
			t.Error("the downloaded file is not the uploaded one")
		}
		stdout, _, code := c.run("", "cloud", "storage", "download", "photos", "note.json", "-")
		if code != 0 || !strings.HasPrefix(stdout, `{"a": 1}`) {
			t.Errorf("download to standard output: %d %q", code, stdout)
		}
		metadata := c.storage("download", "photos", "note.json", "--metadata")
		if !strings.HasPrefix(metadata.text("contentType"), "application/json") || metadata.get("size") != 8.0 {
			t.Errorf("metadata: %s", metadata.body)
		}

		if got := c.storage("delete", "photos", "2026", "--confirm"); got.get("count") != 2.0 {
			t.Errorf("delete a folder: %s", got.body)
		}
		c.storage("delete", "photos", "note.json", "--confirm")
		if got := c.files("photos"); got != "" {
			t.Errorf("list after deletion: %s", got)
		}
		c.storage("delete", "photos", "--confirm")
		s.call("GET", "/storage/stats/photos", nil).want(404)
	})
}

// TestPlatformCLIManagesBuckets creates, shows, configures and lists buckets with the CLI.
func TestPlatformCLIManagesBuckets(t *testing.T) {
	t.Parallel()
	eachAtOnce(t, func(t *testing.T, s *steward) {
		c := s.platformCLI()
		c.storage("create", "--name", "zebra", "--description", "Stripes")
		generated := c.storage("create").text("name")
		if got := c.storage("get", "zebra"); got.text("description") != "Stripes" || got.text("org_id") != s.orgID || got.text("access_key") == "" {
			t.Errorf("get: %s", got.body)
		}
		stdout, _, code := c.run("", "cloud", "storage", "list", "--name-only")
		if code != 0 || !strings.HasPrefix(stdout, generated+"\nzebra\n") { // newest first
			t.Errorf("list: %d %q", code, stdout)
		}

		cors := `{"allowed_origins":["https://example.com"],"max_age_seconds":null}`
		got := c.storage("config", "zebra", "--ttl", "3600", "--public", "--storage-tier", "ARCHIVE",
			"--cache-control", "no-store", "--cors", cors, "--additional-headers", `{"X-A":"b"}`)
		var config, shown object
		got.decode(&config)
		c.storage("config", "zebra").decode(&shown)
		if config["ttl"] != 3600.0 || config["public"] != true || config["storage_tier"] != "ARCHIVE" || !reflect.DeepEqual(shown, config) {
			t.Errorf("update: %v, then %v", config, shown)
		}
		if got := c.storage("config", "zebra", "--ttl", "0"); got.get("ttl") != nil || got.get("public") != true {
			t.Errorf("update of the ttl: %s", got.body)
		}
		c.storage("config", "zebra", "--reset")
		if got := c.storage("config", "zebra"); got.get("public") != nil || got.get("cors") != nil || got.get("storage_tier") != nil {
			t.Errorf("configuration after its reset: %s", got.body)
		}
	})
}

// TestPlatformCLIReportsErrors checks the exit codes, which the CLI derives from statuses and empty
// lists, and what users read.
func TestPlatformCLIReportsErrors(t *testing.T) {
	t.Parallel()
	eachAtOnce(t, func(t *testing.T, s *steward) {
		c := s.platformCLI()
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
	})
}

// TestPlatformCLIFindsABucketAmongMany: the CLI looks for a bucket in a list without a limit.
func TestPlatformCLIFindsABucketAmongMany(t *testing.T) {
	t.Parallel()
	eachAtOnce(t, func(t *testing.T, s *steward) {
		var resources []object
		for range 100 {
			resources = append(resources, object{"type": "s3"})
		}
		s.call("POST", "/resource/"+s.orgID+"/local", object{"resources": resources}).want(201)
		c := s.platformCLI()
		c.storage("create", "--name", "zz-last")
		c.write("file", []byte("x"))
		c.storage("upload", "zz-last", "file")
		if got := c.files("zz-last"); got != "file" {
			t.Errorf("list: %s", got)
		}
		var list struct{ S3 []any }
		for query, want := range map[string]int{"": 101, "?limit=100": 100, "?limit=0": 0, "?offset=100": 1, "?offset=101": 0, "?name=ZZ-Last": 1} {
			if s.call("GET", "/resource"+query, nil).want(200).decode(&list); len(list.S3) != want {
				t.Errorf("GET /resource%s has %d buckets, want %d", query, len(list.S3), want)
			}
		}
		s.call("GET", "/resource?limit=1001", nil).want(422)
	})
}
