package backups

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/cli/session"
	"steward/internal/db"
)

// openDirectory opens a repository that is not encrypted.
func openDirectory(dir string) (*repository, error) {
	return openForAdding(context.Background(), session.Program{}, dir, backup.Encryption{})
}

// add adds a backup of the fixture to a repository, and returns how many bytes the server sent.
func (f *fixture) add(t *testing.T, r *repository) (l Listed, sent int64) {
	t.Helper()
	count := &counter{}
	l, err := r.create(t.Context(), time.Now(), func(ctx context.Context, w io.Writer, request Request) error {
		request.WithKey = true
		return f.Write(ctx, io.MultiWriter(w, count), request)
	})
	must(t, err)
	return l, count.n
}

// forget removes a row that refers to a blob.
func (f *fixture) forget(t *testing.T, blobID string) {
	t.Helper()
	must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM blobs WHERE id = $1`, blobID)
		return err
	}))
	delete(f.content, blobID)
}

func (r *repository) verify(t *testing.T, archiveID string) error {
	t.Helper()
	in, closeAll, err := r.open(t.Context(), archiveID)
	must(t, err)
	defer closeAll()
	_, err = verify(t.Context(), in, r)
	return err
}

// TestRepositoryCopiesOnlyNewBlobs adds backups, removes old ones, and restores the last.
func TestRepositoryCopiesOnlyNewBlobs(t *testing.T) {
	f := newFixture(t, db.SQLite)
	r, err := openDirectory(t.TempDir())
	must(t, err)
	gone := f.put(t, strings.Repeat("only in the first", 1000))
	first, all := f.add(t, r)
	f.forget(t, gone)
	fresh := f.put(t, "new")
	second, some := f.add(t, r)
	third, _ := f.add(t, r)
	if some > all {
		t.Errorf("the second backup has %d bytes, the first %d", some, all)
	}
	for _, l := range []Listed{first, second, third} {
		must(t, r.verify(t, l.ID))
	}
	listed, err := r.list(t.Context())
	must(t, err)
	if len(listed) != 3 || listed[0] != first || listed[2] != third {
		t.Errorf("listed %v", listed)
	}
	removed, err := r.prune(t.Context(), 2)
	must(t, err)
	if removed != 1 {
		t.Errorf("%d were removed", removed)
	}
	if _, err := r.blobs.Size(t.Context(), gone); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the blob of the first backup is still there: %v", err)
	}
	for _, l := range []Listed{second, third} {
		must(t, r.verify(t, l.ID))
	}
	in, closeAll, err := r.open(t.Context(), third.ID)
	must(t, err)
	defer closeAll()
	cfg := target(t, db.SQLite)
	_, err = (&restore{cfg: cfg, in: in, from: r}).run(t.Context())
	must(t, err)
	f.mustEqual(t, cfg)

	must(t, r.blobs.Delete(t.Context(), fresh))
	if err := r.verify(t, third.ID); !errors.Is(err, backup.ErrIncomplete) {
		t.Errorf("without a blob: %v", err)
	}
	must(t, r.blobs.Put(t.Context(), fresh, strings.NewReader("old"), 3))
	if err := r.verify(t, third.ID); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("with another blob: %v", err)
	}
}

// TestFailedBackupIsNotListed adds a backup that fails in the middle.
func TestFailedBackupIsNotListed(t *testing.T) {
	f := newFixture(t, db.SQLite)
	r, err := openDirectory(t.TempDir())
	must(t, err)
	must(t, f.Blobs.Delete(t.Context(), f.put(t, "gone")))
	_, err = r.create(t.Context(), time.Now(), f.Write)
	if !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if listed, err := r.list(t.Context()); err != nil || len(listed) != 0 {
		t.Errorf("listed %v, %v", listed, err)
	}
	for blobID := range f.content {
		if _, err := f.Blobs.Size(t.Context(), blobID); err != nil {
			f.forget(t, blobID)
		}
	}
	l, _ := f.add(t, r) // has blobs of the one that failed
	must(t, r.verify(t, l.ID))
}

func TestTargetsAreFilesOrRepositories(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for target, want := range map[string]bool{
		dir: true, file: false, filepath.Join(dir, "new"): false, filepath.Join(dir, "new") + "/": true, "s3://bucket": true,
	} {
		if got := isRepository(target); got != want {
			t.Errorf("%s: %t", target, got)
		}
	}
}
