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

	"steward/e2e/installation"
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
				s.Start()
				want.checkAccounts(s)
				want.checkRuntime(s)
				want.checkWebhooks(s, i)
				want.checkResources(s)
				s.Stop()
			}
		})
	}
}

// openDataDirectory unpacks the fixture, checks that every table of it has rows, and returns an
// installation that is not started yet. Nothing in it is old enough to be deleted.
func openDataDirectory(t *testing.T, database string) (*installation.Steward, *stored) {
	s := installation.Prepare(t, database, "--webhook-retention", "36500d", "--thread-retention", "36500d")
	unpack(s, dataDirectory(database))
	text, err := os.ReadFile(filepath.Join(s.Dir, storedFile))
	s.Must(err)
	want := new(stored)
	s.Must(json.Unmarshal(text, want))
	s.Key = want.Key
	if s.Database != "" {
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
	_, err = rows.Exec(`UPDATE invitations SET token_hash = $1, expires_at = $2 WHERE used_at IS NULL`,
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
	if !hasSession(b) {
		s.T.Error("the owner cannot sign in")
	}
	a := installation.Application{ID: w.Client, Secret: w.ClientSecret}
	requestToken(s, a, url.Values{"grant_type": {"client_credentials"}, "scope": {"webhook:read"}}, nil, "")
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
	b := browserOf(s, "grace@example.com", "a first password")
	page := b.Do("GET", s.URL+"/invite/"+storedInvitation, nil)
	if p := b.Submit(page, map[string]string{"password": b.Password}); p.Location != "/console/sign-in" {
		s.T.Errorf("the invitation leads to %d: %s", p.Status, p.Body)
	}
	if m := s.MemberOf("grace@example.com"); m.Pending || m.Role != "viewer" {
		s.T.Errorf("the new member is %+v", m)
	}
}

func (w *stored) checkRuntime(s *installation.Steward) {
	s.T.Helper()
	if got := s.Call("GET", "/thread/t1", nil).Want(200); got.Text("user_data") != storedText || got.Get("metadata.k") != "v" {
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
	if string(payload.Body) != storedText {
		s.T.Errorf("the receipt has %q", payload.Body)
	}
	for _, status := range []string{"success", "failed"} {
		if len(listDeliveries(s, h, "status="+status)) == 0 {
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
		var receipts []receipt
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
	if got := b.Get("a/b.txt"); got != storedText {
		s.T.Errorf("the object has %q", got)
	}
	d := &installation.SQLDatabase{Steward: s, Name: list.DB[0].Name, Address: list.DB[0].URL, Token: list.DB[0].Password}
	wantCount(d, "items WHERE name = '"+storedText+"'", "1")
	wantValue(installation.KVStore{Steward: s, Name: "cache"}.Again(), "greeting", storedText)
}
