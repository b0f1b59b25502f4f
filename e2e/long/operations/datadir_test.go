package operations

import (
	"archive/tar"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/db/dbtest"
	"steward/internal/seal"
	"steward/internal/waittest"
)

// release is a version whose data directories every later one opens. Its fixtures were written once by
// tools/datadir, with a binary of the commit. The master key, the root key and the passwords in them are
// those of a test and used nowhere else.
type release struct {
	name, commit string
	invited      string // condition of the invitation that was not accepted
}

// releases has the first version whose data later ones open, and those that were released since.
var releases = []release{
	{name: "abd5c4b", commit: "abd5c4b", invited: "used_at IS NULL"},
	{name: "0.1.0", commit: "8799c6e4", invited: "email = 'grace@example.com'"},
}

// fixture returns the path of the release's fixture.
func (r release) fixture(database string) string {
	return "testdata/datadir-" + r.name + "-" + database + ".tar.gz"
}

const (
	// storedFile and dumpFile are in the fixture beside the data directory's own files.
	storedFile = "fixture.json"
	dumpFile   = "postgres.sql"
)

// stored is what a fixture contains.
type stored struct {
	Key, ProjectKey, OrgID    string
	Client, ClientSecret      string
	HookID, HookPath, Receipt string
	Rows                      map[string]int // of each table

	// Member has an authenticator app, a passkey and an identity at an upstream. These are empty for
	// the release abd5c4b, which did not have them.
	Member, Authenticator, Upstream, RegistrationToken string

	text string // what the thread, the receipt, the object, the database and the store contain
}

func newStored(r release) *stored { return &stored{text: `{"of":"` + r.name + `"}`} }

// TestDataDirectoryOfAnEarlierVersionOpens opens the fixtures of all releases with this tree's binary.
func TestDataDirectoryOfAnEarlierVersionOpens(t *testing.T) {
	t.Parallel()
	for _, r := range releases {
		for _, name := range process.Databases {
			t.Run(r.name+"/"+name, func(t *testing.T) {
				if os.Getenv("DATADIR_RELEASE") == r.name { // set by tools/datadir
					writeDataDirectory(t, r, name)
				}
				s, want := openDataDirectory(t, r, name)
				for i := range 2 { // the second start has nothing to migrate
					s.Start()
					want.checkAccounts(s)
					want.checkSignIn(s, i == 0)
					want.checkRuntime(s)
					want.checkWebhooks(s, i)
					want.checkResources(s)
					s.Stop()
				}
				want.checkSecrets(s)
			})
		}
	}
}

// openDataDirectory unpacks a fixture, checks that every table of it has rows, and returns an
// installation that is not started yet. Nothing in it is old enough to be deleted.
func openDataDirectory(t *testing.T, r release, database string) (*installation.Steward, *stored) {
	s := installation.Prepare(t, database, "--webhook-retention", "36500d", "--thread-retention", "36500d")
	unpack(s, r.fixture(database))
	text, err := os.ReadFile(filepath.Join(s.Dir, storedFile))
	s.Must(err)
	want := newStored(r)
	s.Must(json.Unmarshal(text, want))
	s.Key = want.Key
	if s.Database != "" {
		s.Database = dbtest.EmptyPostgres(t)
		restoreDump(s, filepath.Join(s.Dir, dumpFile))
	}
	rows := openRaw(s)
	defer func() { _ = rows.Close() }()
	got := countRows(s, rows)
	for _, table := range slices.Sorted(maps.Keys(got)) {
		if got[table] == 0 || got[table] != want.Rows[table] {
			t.Errorf("%s has %d rows in the fixture, want %d and not 0", table, got[table], want.Rows[table])
		}
	}
	if len(got) != len(want.Rows) || len(got) < 60 {
		t.Errorf("the fixture has %d tables, want %d", len(got), len(want.Rows))
	}
	_, err = rows.Exec(`UPDATE invitations SET token_hash = $1, expires_at = $2 WHERE `+r.invited,
		seal.Hash(storedInvitation), time.Now().Add(time.Hour).UnixMicro())
	s.Must(err)
	return s, want
}

// storedInvitation is put into the fixture as the token of its invitation.
const storedInvitation = "the-token-of-the-link-in-the-fixture"

func unpack(s *installation.Steward, path string) {
	file, err := os.Open(path)
	s.Must(err)
	defer func() { _ = file.Close() }()
	compressed, err := gzip.NewReader(file)
	s.Must(err)
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		s.Must(err)
		content, err := io.ReadAll(archive)
		s.Must(err)
		target := filepath.Join(s.Dir, filepath.FromSlash(header.Name))
		s.Must(os.MkdirAll(filepath.Dir(target), 0o700))
		s.Must(os.WriteFile(target, content, 0o600))
	}
}

// restoreDump runs a dump on an empty PostgreSQL database.
func restoreDump(s *installation.Steward, path string) {
	s.T.Helper()
	dump, err := os.ReadFile(path)
	s.Must(err)
	rows := openRaw(s)
	_, err = rows.Exec(string(dump))
	s.Must(errors.Join(err, rows.Close()))
}

// openRaw opens the database of a stopped installation as it is, without a migration.
func openRaw(s *installation.Steward) *sql.DB {
	s.T.Helper()
	driver, source := "sqlite", filepath.Join(s.Dir, "steward.db")
	if s.Database != "" {
		address, err := url.Parse(s.Database)
		s.Must(err)
		query := address.Query()
		query.Set("default_query_exec_mode", "simple_protocol") // which takes several statements
		address.RawQuery = query.Encode()
		driver, source = "pgx", address.String()
	}
	rows, err := sql.Open(driver, source)
	s.Must(err)
	rows.SetMaxOpenConns(1)
	return rows
}

// countRows returns the number of rows of each table.
func countRows(s *installation.Steward, rows *sql.DB) map[string]int {
	s.T.Helper()
	list := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`
	if s.Database != "" {
		list = `SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_lock'`
	}
	found, err := rows.Query(list)
	s.Must(err)
	counts := map[string]int{}
	for found.Next() {
		var table string
		s.Must(found.Scan(&table))
		counts[table] = 0
	}
	s.Must(errors.Join(found.Err(), found.Close()))
	for table := range counts {
		var n int
		s.Must(rows.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n))
		counts[table] = n
	}
	return counts
}

func (w *stored) checkAccounts(s *installation.Steward) {
	s.T.Helper()
	if s.OrgID != w.OrgID {
		s.T.Errorf("the organization is %s, want %s", s.OrgID, w.OrgID)
	}
	for path, want := range map[string]int{
		"/oidc/org/members": 3, "/cli/project": 2, "/cli/apikey": 2, "/oidc/clients": 1, "/audit": 10, "/oidc/clients/" + w.Client + "/users": 1,
	} {
		var rows []object
		if r := s.Call("GET", path, nil).Want(200).Decode(&rows); len(rows) < want {
			s.T.Errorf("%s has %d entries, want at least %d: %s", path, len(rows), want, r.Body)
		}
	}
	w.checkInvitation(s)
	s.As(w.ProjectKey).Call("GET", "/thread/t1", nil).Want(200)
	b := s.NewBrowser()
	b.EnterConsole()
	if !b.HasSession() {
		s.T.Error("the owner cannot sign in")
	}
	a := installation.Application{ID: w.Client, Secret: w.ClientSecret}
	s.RequestToken(a, url.Values{"grant_type": {"client_credentials"}, "scope": {"webhook:read"}}, nil, "")
}

// checkInvitation checks that the invited member of the fixture is pending, that the link works, and that
// the other one, who has a password, is a member.
func (w *stored) checkInvitation(s *installation.Steward) {
	s.T.Helper()
	if m := s.MemberOf("alan@example.com"); m.Pending || !strings.HasPrefix(m.ID, "usr_") {
		s.T.Errorf("the member is %+v", m)
	}
	invited := s.MemberOf("grace@example.com")
	if !invited.Pending {
		return // accepted at the first start
	}
	if len(invited.ID) != len("inv_")+26 || !strings.HasPrefix(invited.ID, "inv_") || invited.Role != "viewer" {
		s.T.Errorf("the invited member is %+v", invited)
	}
	b := s.BrowserOf("grace@example.com", "a first password")
	page := b.Do("GET", s.URL+"/invite/"+storedInvitation, nil)
	if p := b.Submit(page, map[string]string{"password": b.Password}); p.Location != "/console/sign-in" {
		s.T.Errorf("the invitation leads to %d: %s", p.Status, p.Body)
	}
	if m := s.MemberOf("grace@example.com"); m.Pending || m.Role != "viewer" {
		s.T.Errorf("the new member is %+v", m)
	}
}

// checkSignIn checks how members sign in besides passwords.
func (w *stored) checkSignIn(s *installation.Steward, first bool) {
	s.T.Helper()
	if w.Member == "" {
		return
	}
	if first {
		w.checkAuthenticator(s)
	}
	s.Call("GET", "/oidc/upstream/"+w.Upstream, nil).Want(200)
	if got := s.Call("GET", "/oidc/registration-token", nil).Want(200).IDs(); got != w.RegistrationToken {
		s.T.Errorf("the registration tokens are %s, want %s", got, w.RegistrationToken)
	}
}

// checkAuthenticator signs in with a code of the authenticator app, which is accepted once.
func (w *stored) checkAuthenticator(s *installation.Steward) {
	s.T.Helper()
	b := s.BrowserOf("alan@example.com", "a first password")
	p := b.Do("GET", s.URL+"/console/sign-in", nil)
	p = b.Submit(p, map[string]string{"email": b.Email, "password": b.Password})
	code, err := totp.GenerateCode(w.Authenticator, time.Now())
	s.Must(err)
	if p = b.Submit(p, map[string]string{"code": code}); p.Status != http.StatusSeeOther {
		s.T.Errorf("the code of the app leads to %d: %s", p.Status, p.Body)
	}
}

func (w *stored) checkRuntime(s *installation.Steward) {
	s.T.Helper()
	if got := s.Call("GET", "/thread/t1", nil).Want(200); got.Text("user_data") != w.text || got.Get("metadata.k") != "v" {
		s.T.Errorf("the thread is %s", got.Body)
	}
	if got := s.Call("GET", "/thread?deleted=true", nil).IDs(); got != "gone" {
		s.T.Errorf("the deleted threads are %s", got)
	}
	for _, path := range []string{"/session/s1", "/cli/eval/e1", "/cli/eval-run/r1"} {
		s.Call("GET", path, nil).Want(200)
	}
}

// checkWebhooks checks the webhook, and that it takes events: it has taken some since the fixture.
func (w *stored) checkWebhooks(s *installation.Steward, since int) {
	s.T.Helper()
	h := installation.Hook{ID: w.HookID, Path: w.HookPath}
	if got := s.Call("GET", "/webhook/list", nil).IDs(); !strings.HasSuffix(got, " "+w.HookID) {
		s.T.Errorf("the webhooks are %s", got)
	}
	payload := s.Call("GET", "/webhook/receipt-payload/"+h.ID+"/"+w.Receipt, nil).Want(200)
	if string(payload.Body) != w.text {
		s.T.Errorf("the receipt has %q", payload.Body)
	}
	for _, status := range []string{"success", "failed"} {
		if len(s.ListDeliveries(h, "status="+status)) == 0 {
			s.T.Errorf("there is no delivery with the status %s", status)
		}
	}
	var destinations []object
	s.Call("GET", "/webhook/destination-list/"+h.ID, nil).Want(200).Decode(&destinations)
	if len(destinations) != 1 {
		s.T.Errorf("the destinations are %v", destinations)
	}
	s.Ingest(h, "another")
	waittest.True(s.T, "the new receipt", func() bool {
		var receipts []installation.Receipt
		s.Call("GET", "/webhook/receipt-list/"+h.ID, nil).Want(200).Decode(&receipts)
		return len(receipts) == since+2
	})
}

func (w *stored) checkResources(s *installation.Steward) {
	s.T.Helper()
	var list struct {
		S3 []struct{ Env map[string]string }
		DB []struct{ Name, URL, Password string }
	}
	s.Call("GET", "/resource/"+s.OrgID+"/local", nil).Want(200).Decode(&list)
	env := list.S3[0].Env
	b := installation.Bucket{Steward: s, Name: env["S3_BUCKET"], Access: env["S3_ACCESS_KEY_ID"], Secret: env["S3_SECRET_ACCESS_KEY"]}
	if got := b.Get("a/b.txt"); got != w.text {
		s.T.Errorf("the object has %q", got)
	}
	d := &installation.SQLDatabase{Steward: s, Name: list.DB[0].Name, Address: list.DB[0].URL, Token: list.DB[0].Password}
	d.WantCount("items WHERE name = '"+w.text+"'", "1")
	installation.KVStore{Steward: s, Name: "cache"}.Again().WantValue("greeting", w.text)
}

// checkSecrets checks, in a stopped installation, what the server alone reads.
func (w *stored) checkSecrets(s *installation.Steward) {
	s.T.Helper()
	if w.Member == "" {
		return
	}
	rows := openRaw(s)
	defer func() { _ = rows.Close() }()
	var sealed []byte
	s.Must(rows.QueryRow(`SELECT value FROM certificates WHERE name = $1`, storedCertificate).Scan(&sealed))
	plain, err := storedRing(s).Open("certificate:"+storedCertificate, sealed)
	if err != nil || string(plain) != w.text {
		s.T.Errorf("the certificate has %q, %v", plain, err)
	}
	for _, table := range []string{"oidc_passkeys", "oidc_recovery_codes", "oidc_identities"} {
		var n int
		s.Must(rows.QueryRow(`SELECT count(*) FROM `+table+` WHERE user_id = $1`, w.Member).Scan(&n))
		if n == 0 {
			s.T.Errorf("%s has nothing of the member", table)
		}
	}
}

// storedRing returns the ring with the master key of a data directory.
func storedRing(s *installation.Steward) *seal.Ring {
	s.T.Helper()
	key, err := seal.KeyFile(s.Dir)
	s.Must(err)
	ring, err := seal.NewRing(key)
	s.Must(err)
	return ring
}
