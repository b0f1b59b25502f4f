package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/minio/minio-go/v7"

	"steward/internal/id"
	"steward/internal/waittest"
)

// writeDataDirectory fills an installation of an earlier binary until every table has rows, and packs
// its data directory, with a dump of the database if that is PostgreSQL, into the fixture.
func writeDataDirectory(t *testing.T, database, binary string) {
	s := prepare(t, database)
	s.Binary = binary
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + adminEmail, "STEWARD_ADMIN_PASSWORD=" + adminPassword}
	s.start()
	want := &stored{Key: s.key, OrgID: s.orgID}
	want.fillAccounts(s)
	want.fillProvider(s)
	want.fillRuntime(s)
	want.fillWebhooks(s)
	want.fillResources(s)
	s.stop() // writes what is counted in memory
	s.start()
	waittest.True(t, "the leases of jobs", func() bool { return s.status().Replicas == 1 })
	s.kill() // leaves the rows of a running process
	rows := s.openRaw()
	fillWorkLists(s, rows, want)
	want.Rows = countRows(s, rows)
	s.must(rows.Close())
	want.pack(s, dataDirectory(database))
}

func (w *stored) fillAccounts(s *steward) {
	w.ProjectKey = s.keyOf("p1").key
	s.call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "viewer"}).want(201)
	_, userID := s.invite("alan@example.com", "member")
	s.call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).want(200)
}

func (w *stored) fillProvider(s *steward) {
	a := s.application(object{"grant_types": everyGrant, "scopes": []string{"openid", "offline_access", "webhook:read"}})
	w.Client = a.id
	w.ClientSecret = a.secret
	b := s.browser()
	token, _ := s.relyingParty(a, "openid", "offline_access", "webhook:read").signIn(b)
	s.post(a, "/revoke", url.Values{"token": {token.AccessToken}})
	s.token(a, url.Values{"grant_type": {"client_credentials"}, "scope": {"webhook:read"}}, newProver(s), "")
	s.post(a, "/device_authorization", url.Values{"scope": {"openid"}})
	s.post(a, "/par", url.Values{"response_type": {"code"}, "redirect_uri": {redirectURI}, "scope": {"openid"}, "client_id": {a.id}})
}

func (w *stored) fillRuntime(s *steward) {
	s.call("PUT", "/thread/t1", object{"project_id": "p1", "user_data": storedText, "metadata": object{"k": "v"}}).want(200)
	s.call("PUT", "/thread/gone", object{"project_id": "p1"}).want(200)
	s.call("DELETE", "/thread/gone", nil).want(204)
	s.call("POST", "/session", newSession(s, "s1", "t1", "p1")).want(201)
	s.call("PUT", "/cli/eval/e1", object{"name": "e", "agentIdentifier": "a", "projectId": "p1"}).want(200)
	s.call("POST", "/evalrun", evalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.body(s.orgID, 0)).want(201)
}

// closedPort is a URL at which nothing listens, on any machine.
const closedPort = "http://127.0.0.1:9/"

func (w *stored) fillWebhooks(s *steward) {
	k := newSink(s.t)
	h := s.hook("orders")
	w.HookID = h.ID
	w.HookPath = h.path
	destination, _ := s.destination(h, k.URL)
	w.Receipt = s.ingest(h, storedText)
	s.firstAttempt(h, destination)
	update := object{"config": object{"url": closedPort}}
	s.call("PUT", "/webhook/destination-update/"+h.ID+"/"+destination, update).want(200)
	s.call("POST", "/webhook/replay/"+h.ID, aReplay).want(201)
	waittest.True(s.t, "a delivery that failed", func() bool { return len(s.deliveries(h, "status=failed")) > 0 })
	s.call("POST", "/webhook/create", object{"name": "again"}, "Idempotency-Key", "k").want(201)
}

func (w *stored) fillResources(s *steward) {
	b := s.bucket("files")
	b.put("a/b.txt", "first") // its bytes become garbage
	b.put("a/b.txt", storedText)
	core := b.core()
	upload, err := core.NewMultipartUpload(s.t.Context(), b.name, "large", minio.PutObjectOptions{})
	s.must(err)
	_, err = core.PutObjectPart(s.t.Context(), b.name, "large", upload, 1, bytes.NewReader([]byte("part")), 4, minio.PutObjectPartOptions{})
	s.must(err)
	d := s.database("shop")
	d.exec("CREATE TABLE items (name TEXT)")
	d.exec("INSERT INTO items VALUES ('" + storedText + "')")
	s.must(s.kvStore("cache").client().Set(s.t.Context(), "greeting", storedText, 0).Err())
}

// fillWorkLists adds what the process removes as soon as it can: the lists of what is still to be
// deleted, here for things that do not exist, a lease, and another process.
func fillWorkLists(s *steward, rows *sql.DB, w *stored) {
	const longAgo = 1_700_000_000_000_000
	for _, insert := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO oidc_purges (org_id, client_id, epoch, deleted) VALUES ($1, $2, 1, TRUE)`, []any{w.OrgID, id.New(id.Client)}},
		{`INSERT INTO thread_purges (org_id, project_id, deleted_at) VALUES ($1, 'gone', $2)`, []any{w.OrgID, longAgo}},
		{`INSERT INTO eval_purges (org_id, project_id, deleted_at, due_at) VALUES ($1, 'gone', $2, $2)`, []any{w.OrgID, longAgo}},
		{`INSERT INTO eval_relabels (org_id, eval_id, due_at, after_at, after_id) VALUES ($1, 'e1', $2, 0, '')`, []any{w.OrgID, longAgo}},
		{`INSERT INTO webhook_tombstones (org_id, webhook_id, deleted_at) VALUES ($1, $2, $3)`, []any{w.OrgID, id.New(id.Webhook), longAgo}},
		{`INSERT INTO bucket_purges (bucket_id, deleted_at) VALUES ($1, $2)`, []any{id.New(id.Bucket), longAgo}},
		{`INSERT INTO webhook_leases (destination_id, owner, expires_at) VALUES ($1, 'gone', $2)`, []any{id.New(id.Destination), longAgo}},
		{`INSERT INTO processes (id, seen_at) VALUES ('gone', $1)`, []any{longAgo}},
	} {
		_, err := rows.Exec(insert.text+" ON CONFLICT DO NOTHING", insert.args...)
		s.must(err)
	}
}

// ofOneRun matches the files of a data directory that belong to a running process.
var ofOneRun = regexp.MustCompile(`^(stderr\.log|steward\.sock|steward\.lock|steward\.json|steward\.db-(wal|shm))$`)

// pack writes the fixture: the data directory, what is in it, and the dump.
func (w *stored) pack(s *steward, path string) {
	text, err := json.MarshalIndent(w, "", "\t")
	s.must(err)
	s.must(os.WriteFile(filepath.Join(s.Dir, storedFile), text, 0o600))
	if s.Database != "" {
		dump, err := exec.Command("pg_dump", "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", s.Database).Output()
		s.must(err)
		s.must(os.WriteFile(filepath.Join(s.Dir, dumpFile), withoutCommands(dump), 0o600))
	}
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	s.must(err)
	archive := tar.NewWriter(compressed)
	s.must(filepath.WalkDir(s.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || ofOneRun.MatchString(entry.Name()) {
			return err
		}
		return addFile(archive, s.Dir, file)
	}))
	s.must(archive.Close())
	s.must(compressed.Close())
	s.must(os.WriteFile(path, packed.Bytes(), 0o600))
}

func addFile(archive *tar.Writer, dir, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, file)
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}

// withoutCommands removes the lines of a dump that are commands of psql.
func withoutCommands(dump []byte) []byte {
	return regexp.MustCompile(`(?m)^\\.*\n`).ReplaceAll(dump, nil)
}
