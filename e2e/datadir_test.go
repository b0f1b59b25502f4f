package e2e

import (
	"archive/tar"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"steward/e2e/process"
	"steward/internal/seal"
	"steward/internal/waittest"
)

// dataDirectory returns the path of a fixture: the data directory of an installation of commit abd5c4b,
// the first whose data every later binary must open. Its master key, its root key and the passwords in
// it are those of a test and used nowhere else. tools/datadir writes it.
func dataDirectory(database string) string { return "testdata/datadir-abd5c4b-" + database + ".tar.gz" }

const (
	// storedFile and dumpFile are in the fixture beside the data directory's own files.
	storedFile = "fixture.json"
	dumpFile   = "postgres.sql"
	// storedText is what the fixture's thread, receipt, object, database and store contain.
	storedText = `{"of":"abd5c4b"}`
)

// stored is what a fixture contains.
type stored struct {
	Key, ProjectKey, OrgID    string
	Client, ClientSecret      string
	HookID, HookPath, Receipt string
	Rows                      map[string]int // of each table
}

// TestDataDirectoryOfAnEarlierVersionOpens opens the fixture with this tree's binary.
func TestDataDirectoryOfAnEarlierVersionOpens(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			if binary := os.Getenv("DATADIR_BINARY"); binary != "" { // set by tools/datadir
				writeDataDirectory(t, name, binary)
			}
			s, want := openDataDirectory(t, name)
			for i := range 2 { // the second start has nothing to migrate
				s.start()
				want.checkAccounts(s)
				want.checkRuntime(s)
				want.checkWebhooks(s, i)
				want.checkResources(s)
				s.stop()
			}
		})
	}
}

// openDataDirectory unpacks the fixture, checks that every table of it has rows, and returns an
// installation that is not started yet. Nothing in it is old enough to be deleted.
func openDataDirectory(t *testing.T, database string) (*steward, *stored) {
	s := prepare(t, database, "--webhook-retention", "36500d", "--thread-retention", "36500d")
	unpack(s, dataDirectory(database))
	text, err := os.ReadFile(filepath.Join(s.Dir, storedFile))
	s.must(err)
	want := new(stored)
	s.must(json.Unmarshal(text, want))
	s.key = want.Key
	if s.Database != "" {
		s.restore(filepath.Join(s.Dir, dumpFile))
	}
	rows := s.openRaw()
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
	_, err = rows.Exec(`UPDATE invitations SET token_hash = $1, expires_at = $2 WHERE used_at IS NULL`,
		seal.Hash(storedInvitation), time.Now().Add(time.Hour).UnixMicro())
	s.must(err)
	return s, want
}

// storedInvitation is put into the fixture as the token of its invitation.
const storedInvitation = "the-token-of-the-link-in-the-fixture"

func unpack(s *steward, path string) {
	file, err := os.Open(path)
	s.must(err)
	defer func() { _ = file.Close() }()
	compressed, err := gzip.NewReader(file)
	s.must(err)
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		s.must(err)
		content, err := io.ReadAll(archive)
		s.must(err)
		target := filepath.Join(s.Dir, filepath.FromSlash(header.Name))
		s.must(os.MkdirAll(filepath.Dir(target), 0o700))
		s.must(os.WriteFile(target, content, 0o600))
	}
}

// restore runs a dump on an empty PostgreSQL database.
func (s *steward) restore(path string) {
	s.t.Helper()
	dump, err := os.ReadFile(path)
	s.must(err)
	rows := s.openRaw()
	_, err = rows.Exec(string(dump))
	s.must(errors.Join(err, rows.Close()))
}

// openRaw opens the database of a stopped installation as it is, without a migration.
func (s *steward) openRaw() *sql.DB {
	s.t.Helper()
	driver, source := "sqlite", filepath.Join(s.Dir, "steward.db")
	if s.Database != "" {
		address, err := url.Parse(s.Database)
		s.must(err)
		query := address.Query()
		query.Set("default_query_exec_mode", "simple_protocol") // which takes several statements
		address.RawQuery = query.Encode()
		driver, source = "pgx", address.String()
	}
	rows, err := sql.Open(driver, source)
	s.must(err)
	rows.SetMaxOpenConns(1)
	return rows
}

// countRows returns the number of rows of each table.
func countRows(s *steward, rows *sql.DB) map[string]int {
	s.t.Helper()
	list := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`
	if s.Database != "" {
		list = `SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_lock'`
	}
	found, err := rows.Query(list)
	s.must(err)
	counts := map[string]int{}
	for found.Next() {
		var table string
		s.must(found.Scan(&table))
		counts[table] = 0
	}
	s.must(errors.Join(found.Err(), found.Close()))
	for table := range counts {
		var n int
		s.must(rows.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n))
		counts[table] = n
	}
	return counts
}

func (w *stored) checkAccounts(s *steward) {
	s.t.Helper()
	if s.orgID != w.OrgID {
		s.t.Errorf("the organization is %s, want %s", s.orgID, w.OrgID)
	}
	for path, want := range map[string]int{
		"/oidc/org/members": 3, "/cli/project": 2, "/cli/apikey": 2, "/oidc/clients": 1, "/audit": 10, "/oidc/clients/" + w.Client + "/users": 1,
	} {
		var rows []object
		if r := s.call("GET", path, nil).want(200).decode(&rows); len(rows) < want {
			s.t.Errorf("%s has %d entries, want at least %d: %s", path, len(rows), want, r.body)
		}
	}
	w.checkInvitation(s)
	s.as(w.ProjectKey).call("GET", "/thread/t1", nil).want(200)
	b := s.browser()
	b.enter()
	if !b.signedIn() {
		s.t.Error("the owner cannot sign in")
	}
	a := application{id: w.Client, secret: w.ClientSecret}
	s.token(a, url.Values{"grant_type": {"client_credentials"}, "scope": {"webhook:read"}}, nil, "")
}

// checkInvitation checks that the invited member of the fixture is pending, that the link works, and that
// the other one, who has a password, is a member.
func (w *stored) checkInvitation(s *steward) {
	s.t.Helper()
	if m := s.memberOf("alan@example.com"); m.Pending || !strings.HasPrefix(m.ID, "usr_") {
		s.t.Errorf("the member is %+v", m)
	}
	invited := s.memberOf("grace@example.com")
	if !invited.Pending {
		return // accepted at the first start
	}
	if len(invited.ID) != len("inv_")+26 || !strings.HasPrefix(invited.ID, "inv_") || invited.Role != "viewer" {
		s.t.Errorf("the invited member is %+v", invited)
	}
	b := s.browserOf("grace@example.com", "a first password")
	page := b.do("GET", s.URL+"/invite/"+storedInvitation, nil)
	if p := b.submit(page, map[string]string{"password": b.password}); p.location != "/account" {
		s.t.Errorf("the invitation leads to %d: %s", p.status, p.body)
	}
	if m := s.memberOf("grace@example.com"); m.Pending || m.Role != "viewer" {
		s.t.Errorf("the new member is %+v", m)
	}
}

func (w *stored) checkRuntime(s *steward) {
	s.t.Helper()
	if got := s.call("GET", "/thread/t1", nil).want(200); got.text("user_data") != storedText || got.get("metadata.k") != "v" {
		s.t.Errorf("the thread is %s", got.body)
	}
	if got := s.call("GET", "/thread?deleted=true", nil).ids(); got != "gone" {
		s.t.Errorf("the deleted threads are %s", got)
	}
	for _, path := range []string{"/session/s1", "/cli/eval/e1", "/cli/eval-run/r1"} {
		s.call("GET", path, nil).want(200)
	}
}

// checkWebhooks checks the webhook, and that it takes events: it has taken some since the fixture.
func (w *stored) checkWebhooks(s *steward, since int) {
	s.t.Helper()
	h := hook{ID: w.HookID, path: w.HookPath}
	if got := s.call("GET", "/webhook/list", nil).ids(); !strings.HasSuffix(got, " "+w.HookID) {
		s.t.Errorf("the webhooks are %s", got)
	}
	payload := s.call("GET", "/webhook/receipt-payload/"+h.ID+"/"+w.Receipt, nil).want(200)
	if string(payload.body) != storedText {
		s.t.Errorf("the receipt has %q", payload.body)
	}
	for _, status := range []string{"success", "failed"} {
		if len(s.deliveries(h, "status="+status)) == 0 {
			s.t.Errorf("there is no delivery with the status %s", status)
		}
	}
	var destinations []object
	s.call("GET", "/webhook/destination-list/"+h.ID, nil).want(200).decode(&destinations)
	if len(destinations) != 1 {
		s.t.Errorf("the destinations are %v", destinations)
	}
	s.ingest(h, "another")
	waittest.True(s.t, "the new receipt", func() bool {
		var receipts []receipt
		s.call("GET", "/webhook/receipt-list/"+h.ID, nil).want(200).decode(&receipts)
		return len(receipts) == since+2
	})
}

func (w *stored) checkResources(s *steward) {
	s.t.Helper()
	var list struct {
		S3 []struct{ Env map[string]string }
		DB []struct{ Name, URL, Password string }
	}
	s.call("GET", "/resource/"+s.orgID+"/local", nil).want(200).decode(&list)
	env := list.S3[0].Env
	b := bucket{s, env["S3_BUCKET"], env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"]}
	if got := b.get("a/b.txt"); got != storedText {
		s.t.Errorf("the object has %q", got)
	}
	d := &sqlDatabase{steward: s, name: list.DB[0].Name, url: list.DB[0].URL, token: list.DB[0].Password}
	d.wantCount("items WHERE name = '"+storedText+"'", "1")
	kvStore{steward: s, name: "cache"}.again().wantValue("greeting", storedText)
}
