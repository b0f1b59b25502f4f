package backups

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"steward/internal/app/config"
	"steward/internal/app/masterkey"
	"steward/internal/app/operator"
	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/db/tablecopy"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/redis"
	"steward/internal/seal"
	"steward/internal/sqlite"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is an installation with rows, objects, a database and a key-value store.
type fixture struct {
	*Source
	key     []byte
	content map[string]string // of blobs
	dbID    string
	kvID    string
}

// newFixture returns an installation on a database.
func newFixture(t testing.TB, dialect db.Dialect) *fixture {
	t.Helper()
	dir := t.TempDir()
	options := dbtest.Options(t, dialect)
	if dialect == db.SQLite {
		dir = filepath.Dir(options.Path)
	}
	d, err := db.Open(t.Context(), options)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	store, err := blob.OpenDisk(filepath.Join(dir, "blobs"))
	must(t, err)
	f := &fixture{key: make([]byte, seal.KeySize), content: map[string]string{}, dbID: id.New(id.Database), kvID: id.New(id.KVStore)}
	_, _ = rand.Read(f.key)
	ring, err := seal.NewRing(f.key)
	must(t, err)
	_, err = masterkey.Existing(t.Context(), d, config.Config{MasterKey: config.Secret(f.key)})
	must(t, err)
	f.Source = &Source{
		DB: d, Blobs: store, Node: "local", Version: "test", KeyID: ring.KeyID(), Now: time.Now,
		Config: config.Config{Data: dir, MasterKey: config.Secret(f.key)},
	}
	if dialect == db.Postgres {
		f.Node = id.New(id.Node)
	}
	f.fill(t)
	return f
}

func (f *fixture) fill(t testing.TB) {
	t.Helper()
	for i := range 20 {
		f.put(t, strings.Repeat(fmt.Sprint("object ", i), 1+i*i*100))
	}
	must(t, os.MkdirAll(filepath.Join(f.Config.Data, "databases", f.dbID), 0o700))
	path := filepath.Join(f.Config.Data, "databases", f.dbID, "data.db")
	must(t, os.WriteFile(path, nil, 0o600))
	conn, err := sqlite.Open(path, []string{"journal_mode(WAL)"})
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) }) // the last rows stay in the write-ahead log
	must(t, conn.Exec("CREATE TABLE t (a TEXT)"))
	must(t, conn.Exec("INSERT INTO t VALUES ('in the log')"))
	dir := filepath.Join(f.Config.Data, "stores", f.kvID)
	must(t, os.MkdirAll(dir, 0o700))
	must(t, redis.Import(redis.Dir(dir), func(add func(...string) error) error { return add("set", "k", "v") }))
	must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		for _, r := range [][]any{{f.dbID, "db"}, {f.kvID, "kv"}} {
			_, err := tx.Exec(`INSERT INTO resources (id, type, org_id, region, name, engine, node, state, password, password_hash,
				created_by, created_at, updated_at, version)
				VALUES (@id, @type, 'org', 'local', @id, 'embedded', @node, 'active', @hash, @hash, 'u', 1, 1, 1)`,
				db.Args{"id": r[0], "type": r[1], "node": f.Node, "hash": []byte(r[0].(string))})
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO orgs (id, name, created_at, removing) VALUES ('org', $1, 1, $2)`, "Ünïted \"Org\"", true)
		return err
	}))
}

// put stores a blob that a row refers to.
func (f *fixture) put(t testing.TB, text string) string {
	t.Helper()
	blobID := id.Blob(time.Now())
	must(t, f.Blobs.Put(t.Context(), blobID, strings.NewReader(text), int64(len(text))))
	must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO blobs (id) VALUES ($1)`, blobID)
		return err
	}))
	f.content[blobID] = text
	return blobID
}

func (f *fixture) backup(t testing.TB, r Request) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, f.Write(t.Context(), &out, r))
	return out.Bytes()
}

// target returns the configuration of an empty installation.
func target(t testing.TB, dialect db.Dialect) config.Config {
	t.Helper()
	cfg := config.Config{Data: filepath.Join(t.TempDir(), "new")}
	if dialect == db.Postgres {
		cfg.DatabaseURL = config.Secret(dbtest.EmptyPostgres(t))
	}
	return cfg
}

func restoreBytes(ctx context.Context, cfg config.Config, content []byte) (*Restored, error) {
	in, err := backup.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := &restore{cfg: cfg, in: in, program: session.Program{}}
	return r.run(ctx)
}

// sums returns the checksum of each table.
func sums(t testing.TB, d *db.DB) map[string]tablecopy.Sum {
	t.Helper()
	all := map[string]tablecopy.Sum{}
	for _, name := range tablecopy.Tables() {
		table, err := tablecopy.Open(d.Read(t.Context()), name)
		must(t, err)
		all[name], err = table.SumOf(d.Read(t.Context()))
		must(t, err)
	}
	return all
}

// TestBackupsRestoreOntoEitherDatabase restores backups of both databases onto both.
func TestBackupsRestoreOntoEitherDatabase(t *testing.T) {
	for _, from := range dbtest.Dialects {
		f := newFixture(t, from)
		content := f.backup(t, Request{WithKey: true})
		for _, to := range dbtest.Dialects {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				cfg := target(t, to)
				_, err := restoreBytes(t.Context(), cfg, content)
				must(t, err)
				f.mustEqual(t, cfg)
				if _, err := restoreBytes(t.Context(), cfg, content); errs.KindOf(err) != errs.Conflict {
					t.Errorf("a second restore: %v", err)
				}
			})
		}
	}
}

// mustEqual compares an installation that was restored.
func (f *fixture) mustEqual(t *testing.T, cfg config.Config) {
	t.Helper()
	d, err := db.Open(t.Context(), cfg.Database())
	must(t, err)
	defer func() { must(t, d.Close()) }()
	ring, err := masterkey.Existing(t.Context(), d, cfg)
	must(t, err)
	if ring.KeyID() != f.KeyID {
		t.Error("the master key is another one")
	}
	want := sums(t, f.DB)
	for name, got := range sums(t, d) {
		if got != want[name] && name != "resources" || got.Rows != want[name].Rows {
			t.Errorf("%s has %d rows, want %d", name, got.Rows, want[name].Rows)
		}
	}
	store, err := blob.OpenDisk(filepath.Join(cfg.Data, "blobs"))
	must(t, err)
	for blobID, text := range f.content {
		r, err := store.Open(t.Context(), blobID, 0, -1)
		must(t, err)
		got, err := io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
		if string(got) != text {
			t.Errorf("blob %s has %d bytes, want %d", blobID, len(got), len(text))
		}
	}
	conn, err := sqlite.Open(filepath.Join(cfg.Data, "databases", f.dbID, "data.db"), nil)
	must(t, err)
	var value string
	must(t, conn.ScanFirst("SELECT a FROM t", &value))
	must(t, conn.Close())
	log, err := os.ReadFile(filepath.Join(cfg.Data, "stores", f.kvID, "store.log"))
	must(t, err)
	if value != "in the log" || !bytes.Contains(log, []byte("set")) {
		t.Errorf("the database has %q, the store %q", value, log)
	}
	node := "local"
	if d.Dialect() == db.Postgres {
		content, err := os.ReadFile(filepath.Join(cfg.Data, "node"))
		must(t, err)
		node = strings.TrimSpace(string(content))
	}
	var here int64
	must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM resources WHERE node = $1`, node).Scan(&here))
	if here != 2 {
		t.Errorf("%d resources belong to the new directory, want 2", here)
	}
}

// flipByte changes a byte about the middle of a backup. Some bits of zstd have no meaning; they are left.
func flipByte(t *testing.T, content []byte) []byte {
	t.Helper()
	z, err := zstd.NewReader(nil)
	must(t, err)
	defer z.Close()
	whole, err := z.DecodeAll(content, nil)
	must(t, err)
	for i := len(content) / 2; i < len(content); i++ {
		flipped := bytes.Clone(content)
		flipped[i] ^= 1
		if text, err := z.DecodeAll(flipped, nil); err != nil || !bytes.Equal(text, whole) {
			return flipped
		}
	}
	t.Fatal("no byte has a meaning")
	return nil
}

// TestDamagedBackupsAreNotRestored changes, cuts and swaps things.
func TestDamagedBackupsAreNotRestored(t *testing.T) {
	f := newFixture(t, db.SQLite)
	content := f.backup(t, Request{})
	other := make([]byte, seal.KeySize)
	for name, test := range map[string]struct {
		content []byte
		key     []byte
		says    string
	}{
		"flipped byte": {flipByte(t, content), f.key, "damaged"},
		"cut":          {content[:len(content)-100], f.key, "incomplete"},
		"cut early":    {content[:len(content)/2], f.key, "incomplete"},
		"wrong key":    {content, other, "the master key is wrong"},
		"no key":       {content, nil, "no terminal to ask on"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := target(t, db.SQLite)
			cfg.MasterKey = config.Secret(test.key)
			_, err := restoreBytes(t.Context(), cfg, test.content)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			entries, err := os.ReadDir(cfg.Data)
			must(t, err)
			if len(entries) != 1 {
				t.Errorf("%d files are left, want the lock alone", len(entries))
			}
		})
	}
	cfg := target(t, db.SQLite)
	cfg.MasterKey = config.Secret(f.key)
	_, err := restoreBytes(t.Context(), cfg, content)
	must(t, err)
}

// TestHalfARestoreIsNotServed ends a restore in the middle, as a loss of power does.
func TestHalfARestoreIsNotServed(t *testing.T) {
	f := newFixture(t, db.SQLite)
	content := f.backup(t, Request{WithKey: true})
	for _, to := range dbtest.Dialects {
		t.Run(to.String(), func(t *testing.T) {
			cfg := target(t, to)
			must(t, os.MkdirAll(cfg.Data, 0o700))
			in, err := backup.NewReader(bytes.NewReader(content))
			must(t, err)
			defer in.Close()
			r := &restore{cfg: cfg, in: in}
			must(t, r.read(t.Context()))
			must(t, r.db.Close())
			if _, err := db.Open(t.Context(), cfg.Database()); err == nil || !strings.Contains(err.Error(), "did not end") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestVerifyFindsWhatIsMissing checks a backup, and one without a blob.
func TestVerifyFindsWhatIsMissing(t *testing.T) {
	f := newFixture(t, db.SQLite)
	whole := f.backup(t, Request{})
	open := func(content []byte) *backup.Reader {
		r, err := backup.NewReader(bytes.NewReader(content))
		must(t, err)
		t.Cleanup(r.Close)
		return r
	}
	c, err := verify(t.Context(), open(whole), nil)
	must(t, err)
	if c.blobs != int64(len(f.content)) || len(c.databases) != 1 || len(c.stores) != 1 {
		t.Errorf("found %d blobs, %v and %v", c.blobs, c.databases, c.stores)
	}
	if _, err := verify(t.Context(), open(without(t, whole, backup.DatabaseName(f.dbID))), nil); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("without a database: %v", err)
	}
	for blobID := range f.content {
		if _, err := verify(t.Context(), open(without(t, whole, backup.BlobName(blobID))), nil); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("without a blob: %v", err)
		}
		break
	}
}

// without returns a backup that was made without a part.
func without(t *testing.T, content []byte, name string) []byte {
	t.Helper()
	r, err := backup.NewReader(bytes.NewReader(content))
	must(t, err)
	defer r.Close()
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, r.Header())
	must(t, err)
	must(t, readAll(r, func(p *backup.Part) error {
		if p.Name == name {
			return nil
		}
		return w.Add(p.Name, p.Size, p)
	}))
	must(t, w.Close(r.Summary()))
	return out.Bytes()
}

// TestMissingBytesFailABackup makes no backup without the bytes of an object.
func TestMissingBytesFailABackup(t *testing.T) {
	f := newFixture(t, db.SQLite)
	must(t, f.Blobs.Delete(t.Context(), f.put(t, "gone")))
	if err := f.Write(t.Context(), io.Discard, Request{}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// TestWrongMasterKeyChangesNothing restores into the same database again, with the right key.
func TestWrongMasterKeyChangesNothing(t *testing.T) {
	f := newFixture(t, db.SQLite)
	content := f.backup(t, Request{})
	cfg := target(t, db.Postgres)
	if _, err := restoreBytes(t.Context(), cfg, content); err == nil || !strings.Contains(err.Error(), "no terminal to ask on") {
		t.Errorf("without a key: %v", err)
	}
	cfg.MasterKey = config.Secret(make([]byte, seal.KeySize))
	if _, err := restoreBytes(t.Context(), cfg, content); errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "the master key is wrong") {
		t.Errorf("with a wrong key: %v", err)
	}
	cfg.MasterKey = config.Secret(f.key)
	_, err := restoreBytes(t.Context(), cfg, content)
	must(t, err)
}

// TestFailedRestoreSaysWhatIsLeft has a backup that was cut.
func TestFailedRestoreSaysWhatIsLeft(t *testing.T) {
	content := newFixture(t, db.SQLite).backup(t, Request{WithKey: true})
	for dialect, says := range map[db.Dialect]string{db.SQLite: "", db.Postgres: "Drop the database and create it again"} {
		in, err := backup.NewReader(bytes.NewReader(content[:len(content)-100]))
		must(t, err)
		r := &restore{cfg: target(t, dialect), in: in}
		if _, err := r.run(t.Context()); err == nil {
			t.Error("a backup that was cut was restored")
		}
		in.Close()
		if got := r.left(); !strings.Contains(got, says) || says == "" && got != "" {
			t.Errorf("%v: %q", dialect, got)
		}
	}
}

func TestVerifyOfAFileIsInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	must(t, os.WriteFile(path, newFixture(t, db.SQLite).backup(t, Request{}), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := openBackup(ctx, session.Program{Err: io.Discard}, path, &secrets{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCutBytesFailABackup(t *testing.T) {
	f := newFixture(t, db.SQLite)
	blobID := f.put(t, "half")
	_, err := f.DB.Exec(t.Context(), `INSERT INTO objects (bucket_id, key, size, modified_at, tier, etag, attributes, blobs)
		VALUES ('bucket', 'report.pdf', 9, 1, 'STANDARD', 'e', '{}', $1)`, `[["`+blobID+`",9]]`)
	must(t, err)
	dir, err := os.MkdirTemp("", "steward-") // its path must be short
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	o := operator.New(f.DB, nil, "")
	o.Backup = &Handler{Source: f.Source, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(o.Serve(dir, slog.New(slog.DiscardHandler)).Stop)
	err = ask(t.Context(), dir, io.Discard, Request{})
	if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), `the object "report.pdf" in the bucket bucket has 4 bytes instead of 9`) {
		t.Errorf("got %v", err)
	}
}

// TestGarbageWaitsForABackup has the lease of the job that deletes bytes held while a backup is written.
func TestGarbageWaitsForABackup(t *testing.T) {
	f := newFixture(t, db.SQLite)
	held := false
	err := f.Write(t.Context(), writerFunc(func(p []byte) (int, error) {
		var owner string
		err := f.DB.Read(t.Context()).Row(`SELECT owner FROM leases WHERE name = $1`, garbageLease).Scan(&owner)
		held = held || err == nil && strings.HasPrefix(owner, "bak_")
		return len(p), err
	}), Request{})
	must(t, err)
	if !held {
		t.Error("the lease was not held")
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestCreatedFileIsPrivateAndWhole makes backups in files, of which one fails.
func TestCreatedFileIsPrivateAndWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.backup")
	failing := func(context.Context, io.Writer) error { return errors.New("failed") }
	if _, err := createFile(t.Context(), path, backup.Encryption{}, failing); err == nil {
		t.Error("a failed backup has a file")
	}
	writing := func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "backup")
		return err
	}
	size, err := createFile(t.Context(), path, backup.Encryption{}, writing)
	must(t, err)
	if size != 6 {
		t.Errorf("size %d", size)
	}
	if _, err := createFile(t.Context(), path, backup.Encryption{}, writing); errs.KindOf(err) != errs.Conflict {
		t.Errorf("an existing file: %v", err)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if len(entries) != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("%d files, mode %v", len(entries), info.Mode())
	}
}

// TestServerStreamsOverTheSocket asks a server for a backup, and for one that fails.
func TestServerStreamsOverTheSocket(t *testing.T) {
	f := newFixture(t, db.SQLite)
	log := slog.New(slog.DiscardHandler)
	dir, err := os.MkdirTemp("", "steward-") // its path must be short
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	if err := ask(t.Context(), dir, io.Discard, Request{}); !errors.Is(err, operator.ErrNoServer) {
		t.Errorf("without a server: %v", err)
	}
	o := operator.New(f.DB, nil, "")
	o.Backup = &Handler{Source: f.Source, Log: log}
	t.Cleanup(o.Serve(dir, log).Stop)
	var out bytes.Buffer
	must(t, ask(t.Context(), dir, &out, Request{WithKey: true}))
	cfg := target(t, db.SQLite)
	_, err = restoreBytes(t.Context(), cfg, out.Bytes())
	must(t, err)
	f.mustEqual(t, cfg)
	must(t, f.Blobs.Delete(t.Context(), f.put(t, "gone")))
	if err := ask(t.Context(), dir, io.Discard, Request{}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a backup that fails: %v", err)
	}
}
