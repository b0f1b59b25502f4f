package backups

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// secretsOf are an encryption and what decrypts it.
type secretsOf struct {
	encryption backup.Encryption
	decryption backup.Decryption
}

func newRecipient(t *testing.T) secretsOf {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	must(t, err)
	return secretsOf{
		backup.Encryption{Recipients: identity.Recipient().String()},
		backup.Decryption{Identities: identity.String(), Required: true},
	}
}

func newPassphrase(text string) secretsOf {
	return secretsOf{
		backup.Encryption{Passphrase: text, WorkFactor: 1},
		backup.Decryption{Passphrase: func() (string, error) { return text, nil }, Required: true},
	}
}

// adding opens a repository as those do that add backups.
func adding(t *testing.T, dir string, s secretsOf) *repository {
	t.Helper()
	r, err := openForAdding(t.Context(), session.Program{}, dir, s.encryption)
	must(t, err)
	return r
}

// reading opens a repository as those do that restore backups.
func reading(t *testing.T, dir string, s secretsOf) *repository {
	t.Helper()
	r, err := openForReading(t.Context(), session.Program{}, dir)
	must(t, err)
	must(t, r.decrypt(t.Context(), s.decryption))
	return r
}

// readable returns a repository that reads the backups that r adds: a passphrase takes its time.
func readable(t *testing.T, r *repository, dir string, s secretsOf) *repository {
	t.Helper()
	if r.cipher.CanDecrypt() {
		return r
	}
	return reading(t, dir, s)
}

// files returns the content of all files of a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	must(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	}))
	return all
}

// TestEncryptedRepositories adds backups that are encrypted, removes old ones, and restores the last.
func TestEncryptedRepositories(t *testing.T) {
	for name, s := range map[string]secretsOf{"recipient": newRecipient(t), "passphrase": newPassphrase("right")} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, db.SQLite)
			dir := t.TempDir()
			gone := f.put(t, strings.Repeat("only in the first", 1000))
			f.put(t, strings.Repeat("larger than what is held in memory", 10_000))
			r := adding(t, dir, s)
			first, all := f.add(t, r)
			before := files(t, filepath.Join(dir, blobsPlace))
			f.forget(t, gone)
			f.put(t, "new")
			r = adding(t, dir, s)
			second, some := f.add(t, r)
			third, _ := f.add(t, r)
			if some > all {
				t.Errorf("the second backup has %d bytes, the first %d", some, all)
			}
			for path, content := range files(t, filepath.Join(dir, blobsPlace)) {
				if old, ok := before[path]; ok && !bytes.Equal(old, content) {
					t.Errorf("%s was written again", path)
				}
			}
			for _, l := range []Listed{first, second, third} {
				must(t, readable(t, r, dir, s).verify(t, l.ID))
			}
			removed, err := r.prune(t.Context(), 2)
			must(t, err)
			if removed != 1 {
				t.Errorf("%d were removed", removed)
			}
			if _, err := r.blobs.Size(t.Context(), gone); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("the blob of the first backup is still there: %v", err)
			}
			for path, content := range files(t, dir) {
				if bytes.Contains(content, []byte("larger than")) || bytes.Contains(content, []byte("Ünïted")) {
					t.Errorf("%s can be read", path)
				}
			}
			listed, err := openForReading(t.Context(), session.Program{}, dir)
			must(t, err)
			if all, err := listed.list(t.Context()); err != nil || len(all) != 2 {
				t.Errorf("without the key, %v are listed: %v", all, err)
			}
			from := reading(t, dir, s)
			for _, l := range []Listed{second, third} {
				must(t, from.verify(t, l.ID))
			}
			in, closeAll, err := from.open(t.Context(), third.ID)
			must(t, err)
			defer closeAll()
			cfg := target(t, db.SQLite)
			_, err = (&restore{cfg: cfg, in: in, from: from}).run(t.Context())
			must(t, err)
			f.mustEqual(t, cfg)
		})
	}
}

// TestRepositoriesAreEncryptedInOneWay gives other secrets, or none.
func TestRepositoriesAreEncryptedInOneWay(t *testing.T) {
	f := newFixture(t, db.SQLite)
	recipient, other, phrase := newRecipient(t), newRecipient(t), newPassphrase("right")
	plain := secretsOf{}
	dirs := map[string]string{}
	for name, s := range map[string]secretsOf{"plain": plain, "recipient": recipient, "passphrase": phrase} {
		dirs[name] = t.TempDir()
		f.add(t, adding(t, dirs[name], s))
	}
	for _, test := range []struct {
		at      string
		secrets secretsOf
		add     string // what is said when a backup is added, or "" if that works
		read    string
	}{
		{"plain", recipient, "are not encrypted", "is not encrypted"},
		{"plain", phrase, "are not encrypted", "is not encrypted"},
		{"recipient", plain, "are encrypted", "--identity"},
		{"recipient", other, "for other recipients", "another identity"},
		{"recipient", phrase, "for recipients", "for recipients"},
		{"passphrase", plain, "are encrypted", "with a passphrase"},
		{"passphrase", recipient, "with a passphrase", "with a passphrase"},
		{"passphrase", newPassphrase("wrong"), "the passphrase", "the passphrase"},
	} {
		_, err := openForAdding(t.Context(), session.Program{}, dirs[test.at], test.secrets.encryption)
		if err == nil || !strings.Contains(err.Error(), test.add) {
			t.Errorf("adding to %s: %v, want %q", test.at, err, test.add)
		}
		r, err := openForReading(t.Context(), session.Program{}, dirs[test.at])
		must(t, err)
		err = r.decrypt(t.Context(), test.secrets.decryption)
		if err == nil {
			newest, chosen := r.choose(t.Context(), "")
			must(t, chosen)
			_, _, err = r.open(t.Context(), newest.ID)
		}
		if err == nil || !strings.Contains(err.Error(), test.read) {
			t.Errorf("reading %s: %v, want %q", test.at, err, test.read)
		}
	}
}

// TestChangesOfEncryptedObjectsAreTold changes, cuts, swaps and removes objects that a backup needs.
func TestChangesOfEncryptedObjectsAreTold(t *testing.T) {
	for name, s := range map[string]secretsOf{"recipient": newRecipient(t), "passphrase": newPassphrase("right")} {
		t.Run(name, func(t *testing.T) {
			if name == "passphrase" { // its key takes a second each time
				dbtest.Long(t)
			}
			f := newFixture(t, db.SQLite)
			large := f.put(t, strings.Repeat("larger than what is held in memory", 10_000))
			small := f.put(t, "small")
			dir := t.TempDir()
			r := adding(t, dir, s)
			l, _ := f.add(t, r)
			from := readable(t, r, dir, s)
			verify := func() error {
				in, closeAll, err := from.open(t.Context(), l.ID)
				if err != nil {
					return err
				}
				defer closeAll()
				_, err = from.verifyBackup(t.Context(), l.ID, in)
				return err
			}
			all := files(t, dir)
			for path, content := range all {
				if name := filepath.Base(path); name != l.ID && name != large && name != small {
					continue
				}
				flipped := bytes.Clone(content)
				flipped[len(flipped)/2] ^= 1
				if strings.HasPrefix(path, filepath.Join(dir, "lists")) { // it is not encrypted
					flipped = flipByte(t, content)
				}
				changes := map[string][]byte{"flipped": flipped, "cut": content[:len(content)-1], "empty": {}}
				if strings.HasSuffix(path, small) { // by another one that is encrypted in the same way
					changes["swapped"] = all[filepath.Join(dir, blobsPlace, large[24:], large)]
				}
				for change, content := range changes {
					must(t, os.WriteFile(path, content, 0o600))
					if err := verify(); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
						t.Errorf("%s %s: %v", change, path, err)
					}
				}
				must(t, os.Remove(path))
				if err := verify(); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
					t.Errorf("without %s: %v", path, err)
				}
				must(t, os.WriteFile(path, content, 0o600))
			}
			must(t, verify())
		})
	}
}

// TestPlainArchiveInAnEncryptedRepositoryIsRefused has somebody without the key add a backup.
func TestPlainArchiveInAnEncryptedRepositoryIsRefused(t *testing.T) {
	f := newFixture(t, db.SQLite)
	s := newPassphrase("right")
	dir := t.TempDir()
	from := adding(t, dir, s)
	f.add(t, from)
	content := f.backup(t, Request{WithKey: true})
	foreign := adding(t, t.TempDir(), newRecipient(t))
	planted := "7" + strings.Repeat("z", 25) // the newest
	sealed, err := foreign.cipher.Encrypt("archives/"+planted, bytes.NewReader(content))
	must(t, err)
	for says, r := range map[string]io.Reader{"is not encrypted": bytes.NewReader(content), "another identity": sealed} {
		must(t, from.archives.Put(t.Context(), planted, r, -1))
		if _, _, err := from.open(t.Context(), planted); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// TestSwappedBlobsAreRefused swaps two blobs, and has the list say so, before a backup that shares them.
func TestSwappedBlobsAreRefused(t *testing.T) {
	f := newFixture(t, db.SQLite)
	s := newRecipient(t)
	dir := t.TempDir()
	one, two := f.put(t, "abc"), f.put(t, "xyz")
	r := adding(t, dir, s)
	first, _ := f.add(t, r)
	all := files(t, filepath.Join(dir, blobsPlace))
	path := func(blobID string) string { return filepath.Join(dir, blobsPlace, blobID[24:], blobID) }
	must(t, os.WriteFile(path(one), all[path(two)], 0o600))
	must(t, os.WriteFile(path(two), all[path(one)], 0o600))
	var infos []backup.Info
	must(t, r.eachListed(t.Context(), first.ID, func(info backup.Info) error {
		infos = append(infos, info)
		return nil
	}))
	var list bytes.Buffer
	out, err := backup.NewWriter(&list, backup.Header{})
	must(t, err)
	for _, info := range infos {
		switch info.Name { // they have the same size
		case backup.BlobName(one):
			info.SHA256 = sumOf(all[path(two)])
		case backup.BlobName(two):
			info.SHA256 = sumOf(all[path(one)])
		}
		must(t, out.Refer(info))
	}
	must(t, out.Close(backup.Summary{}))
	must(t, os.WriteFile(filepath.Join(dir, "lists", first.ID[24:], first.ID), list.Bytes(), 0o600))
	second, _ := f.add(t, r)
	if err := reading(t, dir, s).verify(t, second.ID); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), one) {
		t.Errorf("got %v", err)
	}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// failAfter is a writer that fails after a number of bytes.
type failAfter struct {
	to io.Writer
	n  int
}

func (f *failAfter) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errors.New("failed")
	}
	return f.to.Write(p)
}

// TestBlobsOfAFailedBackupAreUsed has a backup fail, and one of its blobs be changed before the next one.
func TestBlobsOfAFailedBackupAreUsed(t *testing.T) {
	for name, s := range map[string]secretsOf{"recipient": newRecipient(t), "passphrase": newPassphrase("right")} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, db.SQLite)
			dir := t.TempDir()
			r := adding(t, dir, s)
			size := len(f.backup(t, Request{}))
			_, err := r.create(t.Context(), time.Now(), func(ctx context.Context, w io.Writer, request Request) error {
				return f.Write(ctx, &failAfter{w, size - 1000}, request)
			})
			if err == nil || !strings.Contains(err.Error(), "failed") {
				t.Fatalf("got %v", err)
			}
			left := files(t, filepath.Join(dir, blobsPlace))
			if len(left) == 0 {
				t.Fatal("nothing is left of the backup that failed")
			}
			if name == "passphrase" { // it can tell
				for path, content := range left {
					content[len(content)-1] ^= 1
					must(t, os.WriteFile(path, content, 0o600))
					delete(left, path)
					break
				}
				_, err := r.create(t.Context(), time.Now(), f.Write)
				if err == nil || !strings.Contains(err.Error(), "had other bytes") {
					t.Errorf("with a blob that was changed: %v", err)
				}
			}
			l, _ := f.add(t, r)
			for path, content := range files(t, filepath.Join(dir, blobsPlace)) {
				if old, ok := left[path]; ok && !bytes.Equal(old, content) {
					t.Errorf("%s was written again", path)
				}
			}
			must(t, readable(t, r, dir, s).verify(t, l.ID))
		})
	}
}

// TestPruneRemovesHalvesOfObjects has what a process that was killed leaves in a directory.
func TestPruneRemovesHalvesOfObjects(t *testing.T) {
	f := newFixture(t, db.SQLite)
	dir := t.TempDir()
	r, err := openDirectory(dir)
	must(t, err)
	var halves []string
	for _, place := range []string{"archives", blobsPlace, "lists"} {
		half := filepath.Join(dir, place, "zz", "01"+strings.Repeat("z", 24)+"~")
		must(t, os.MkdirAll(filepath.Dir(half), 0o700))
		must(t, os.WriteFile(half, []byte("half"), 0o600))
		must(t, os.Chtimes(half, time.Time{}, time.Now().Add(-time.Minute)))
		halves = append(halves, half)
	}
	f.add(t, r)
	_, err = r.prune(t.Context(), 5)
	must(t, err)
	for _, half := range halves {
		if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", half, err)
		}
	}
}
