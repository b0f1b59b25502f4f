package operations

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/id"
	"steward/internal/waittest"
)

// writeDataDirectory fills an installation of a release until every table has rows, and packs its data
// directory, with a dump of the database if that is PostgreSQL, into the fixture. It is for the last
// release: earlier ones do not have all that it makes. Nothing listens at the mail server, so that mail
// stays in the queue.
func writeDataDirectory(t *testing.T, r release, database string) {
	if r != releases[len(releases)-1] {
		t.Fatal("only the fixtures of the last release are written")
	}
	s := installation.Prepare(t, database)
	s.Binary = process.BuildCommit(t, r.commit)
	s.Env = []string{
		"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword,
		"STEWARD_SMTP_URL=smtp://127.0.0.1:9", "STEWARD_MAIL_FROM=steward@example.com",
	}
	s.Start()
	want := newStored(r)
	want.Key = s.Key
	want.OrgID = s.OrgID
	want.fillAccounts(s)
	want.fillProvider(s)
	want.fillRuntime(s)
	want.fillWebhooks(s)
	want.fillResources(s)
	rotateSecrets(s)
	s.Stop() // writes what is counted in memory
	s.Start()
	waittest.True(t, "the leases of jobs", func() bool { return s.Status().Replicas == 1 })
	s.Kill() // leaves the rows of a running process
	rows := openRaw(s)
	fillWorkLists(s, rows, want)
	fillSignIn(s, rows, want)
	want.Rows = countRows(s, rows)
	s.Must(rows.Close())
	want.pack(s, r.fixture(database))
}

func (w *stored) fillAccounts(s *installation.Steward) {
	w.ProjectKey = s.KeyOf("p1").Key
	s.Call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "viewer"}).Want(201)
	b, userID := s.Invite("alan@example.com", "member")
	s.Call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).Want(200)
	w.Member = userID
	w.Authenticator = s.SetUpAuthenticator(b.EnterConsole())[0].Value
	b = s.NewBrowser().EnterConsole()
	page := b.Do("GET", s.URL+"/account", nil)
	form := installation.FormValues(installation.FirstForm.FindStringSubmatch(page.Body)[3])
	form.Set("new_email", "countess@example.com")
	form.Set("password", b.Password)
	if p := b.Do("POST", s.URL+"/account/email", form); p.Status != http.StatusOK {
		s.T.Fatalf("the new address leads to %d: %s", p.Status, p.Body)
	}
}

func (w *stored) fillProvider(s *installation.Steward) {
	a := s.NewApplication(object{
		"grant_types": installation.EveryGrant, "scopes": []string{"openid", "offline_access", "webhook:read"},
		"backchannel_logout_uri": closedPort,
	})
	w.Client = a.ID
	w.ClientSecret = a.Secret
	b := s.NewBrowser()
	token, _ := s.NewRelyingParty(a, "openid", "offline_access", "webhook:read").SignIn(b)
	s.PostForm(a, "/revoke", url.Values{"token": {token.AccessToken}})
	s.RequestToken(a, url.Values{"grant_type": {"client_credentials"}, "scope": {"webhook:read"}}, s.NewProver(), "")
	s.PostForm(a, "/device_authorization", url.Values{"scope": {"openid"}})
	s.PostForm(a, "/par", url.Values{"response_type": {"code"}, "redirect_uri": {installation.RedirectURI}, "scope": {"openid"}, "client_id": {a.ID}})
	w.Upstream = s.Call("POST", "/oidc/upstream", object{
		"name": "Upstream", "issuer": closedPort, "client_id": "steward", "client_secret": "of the upstream",
	}).Want(201).Text("id")
	w.RegistrationToken = s.Call("POST", "/oidc/registration-token", object{"name": "team"}).Want(201).Text("id")
}

func (w *stored) fillRuntime(s *installation.Steward) {
	s.Call("PUT", "/thread/t1", object{"project_id": "p1", "user_data": w.text, "metadata": object{"k": "v"}}).Want(200)
	s.Call("PUT", "/thread/gone", object{"project_id": "p1"}).Want(200)
	s.Call("DELETE", "/thread/gone", nil).Want(204)
	s.Call("POST", "/session", installation.SessionRequest(s, "s1", "t1", "p1")).Want(201)
	s.Call("PUT", "/cli/eval/e1", object{"name": "e", "agentIdentifier": "a", "projectId": "p1"}).Want(200)
	s.Call("POST", "/evalrun", installation.EvalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.Body(s.OrgID, 0)).Want(201)
}

// closedPort is a URL at which nothing listens, on any machine.
const closedPort = "http://127.0.0.1:9/"

func (w *stored) fillWebhooks(s *installation.Steward) {
	k := sink.New(s.T)
	h := s.NewHook("orders")
	w.HookID = h.ID
	w.HookPath = h.Path
	destination, _ := s.NewDestination(h, k.URL)
	w.Receipt = s.Ingest(h, w.text)
	s.FirstAttempt(h, destination)
	update := object{"config": object{"url": closedPort}}
	s.Call("PUT", "/webhook/destination-update/"+h.ID+"/"+destination, update).Want(200)
	s.Call("POST", "/webhook/replay/"+h.ID, object{"since": "2026-01-01T00:00:00Z"}).Want(201)
	waittest.True(s.T, "a delivery that failed", func() bool { return len(s.ListDeliveries(h, "status=failed")) > 0 })
	s.Call("POST", "/webhook/create", object{"name": "again"}, "Idempotency-Key", "k").Want(201)
}

func (w *stored) fillResources(s *installation.Steward) {
	b := s.NewBucket("files")
	b.Put("a/b.txt", "first") // its bytes become garbage
	b.Put("a/b.txt", w.text)
	core := b.Core()
	upload, err := core.NewMultipartUpload(s.T.Context(), b.Name, "large", minio.PutObjectOptions{})
	s.Must(err)
	_, err = core.PutObjectPart(s.T.Context(), b.Name, "large", upload, 1, bytes.NewReader([]byte("part")), 4, minio.PutObjectPartOptions{})
	s.Must(err)
	d := s.NewDatabase("shop")
	d.Exec("CREATE TABLE items (name TEXT)")
	d.Exec("INSERT INTO items VALUES ('" + w.text + "')")
	s.Must(s.NewKVStore("cache").Client().Set(s.T.Context(), "greeting", w.text, 0).Err())
}

// fillWorkLists adds what the process removes as soon as it can: the lists of what is still to be
// deleted, here for things that do not exist, a lease, and another process.
func fillWorkLists(s *installation.Steward, rows *sql.DB, w *stored) {
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
		{`INSERT INTO nodes (id, process, address, seen_at) VALUES ('gone', '', '', $1)`, []any{longAgo}},
		{`INSERT INTO backup_schedule (id, set_at) VALUES ('gone', $1)`, []any{longAgo}},
		{
			`INSERT INTO object_completions (upload_id, bucket_id, key, etag, completed_at) VALUES ('gone', $1, 'large', '"e"', $2)`,
			[]any{id.New(id.Bucket), longAgo},
		},
		{
			`INSERT INTO webhook_recoveries (destination_id, rate, started_at, next_due, to_due, to_key) VALUES ($1, 1, $2, $2, $2, '')`,
			[]any{id.New(id.Destination), longAgo},
		},
	} {
		_, err := rows.Exec(insert.text+" ON CONFLICT DO NOTHING", insert.args...)
		s.Must(err)
	}
}

// storedCertificate is the name of what the ACME client has stored.
const storedCertificate = "certificates/example.com"

// fillSignIn adds what only browsers, upstreams and ACME servers make.
func fillSignIn(s *installation.Steward, rows *sql.DB, w *stored) {
	s.T.Helper()
	value := storedRing(s).Seal("certificate:"+storedCertificate, []byte(w.text))
	now := time.Now().UnixMicro()
	for _, change := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO certificates (name, value, modified_at) VALUES ($1, $2, $3)`, []any{storedCertificate, value, now}},
		{`UPDATE oidc_authenticators SET last_step = 0`, nil}, // so that the code which set it up is accepted again
		{`INSERT INTO oidc_passkeys (user_id, id, credential_id, rp_id, handle, public_key, backup_eligible, sign_count, name, created_at)
			VALUES ($1, $2, $3, 'localhost', $3, $3, TRUE, 1, 'Phone', $4)`, []any{w.Member, id.New("pk"), []byte("bytes"), now}},
		{`INSERT INTO oidc_challenges (challenge_hash, expires_at) VALUES ($1, $2)`, []any{[]byte("hash"), now}},
		{
			`INSERT INTO oidc_identities (org_id, issuer, subject, user_id, linked, created_at) VALUES ($1, $2, 'alan', $3, TRUE, $4)`,
			[]any{w.OrgID, closedPort, w.Member, now},
		},
	} {
		_, err := rows.Exec(change.text, change.args...)
		s.Must(err)
	}
}

// ofOneRun matches the files of a data directory that belong to a running process.
var ofOneRun = regexp.MustCompile(`^(stderr\.log|steward\.sock|steward\.lock|steward\.json|steward\.db-(wal|shm))$`)

// pack writes the fixture: the data directory, what is in it, and the dump.
func (w *stored) pack(s *installation.Steward, path string) {
	text, err := json.MarshalIndent(w, "", "\t")
	s.Must(err)
	s.Must(os.WriteFile(filepath.Join(s.Dir, storedFile), text, 0o600))
	if s.Database != "" {
		dump, err := exec.Command("pg_dump", "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", s.Database).Output()
		s.Must(err)
		s.Must(os.WriteFile(filepath.Join(s.Dir, dumpFile), withoutCommands(dump), 0o600))
	}
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	s.Must(err)
	archive := tar.NewWriter(compressed)
	s.Must(filepath.WalkDir(s.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || ofOneRun.MatchString(entry.Name()) {
			return err
		}
		return addFile(archive, s.Dir, file)
	}))
	s.Must(archive.Close())
	s.Must(compressed.Close())
	s.Must(os.WriteFile(path, packed.Bytes(), 0o600))
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
