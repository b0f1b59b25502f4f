package backups

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/cli/session"
	"steward/internal/errs"
	"steward/internal/id"
)

// store is one place in a repository.
type store interface {
	blob.Store
	// Sweep deletes the partial output of Puts that began before a time and have not ended.
	Sweep(ctx context.Context, before time.Time) error
}

// isRepository reports whether a target is a repository rather than a file: s3://…, a directory, or
// a path that ends in a slash.
func isRepository(target string) bool {
	if strings.HasPrefix(target, "s3://") || strings.HasSuffix(target, "/") {
		return true
	}
	info, err := os.Stat(target)
	return err == nil && info.IsDir()
}

// openForAdding opens a repository to add backups to, and creates it if there is none.
func openForAdding(ctx context.Context, p session.Program, target string, e backup.Encryption) (*repository, error) {
	r, err := openRepository(ctx, p, target, true)
	if err != nil {
		return nil, err
	}
	return r, r.encrypt(ctx, e)
}

// openForReading opens a repository that has backups, and writes nothing.
func openForReading(ctx context.Context, p session.Program, target string) (*repository, error) {
	if _, err := os.Stat(filepath.Join(target, "archives")); err != nil && !strings.HasPrefix(target, "s3://") {
		return nil, errs.New(errs.NotFound, "there are no backups in %s", target)
	}
	return openRepository(ctx, p, target, false)
}

// blobsPlace is a repository's place for the objects' bytes. An installation keeps its own in
// "blobs" by default, which may be at the same prefix in a bucket: each would delete bytes that the
// other needs.
const blobsPlace = "backup-blobs"

func openRepository(ctx context.Context, p session.Program, target string, create bool) (*repository, error) {
	r := &repository{}
	for place, to := range map[string]*store{"archives": &r.archives, blobsPlace: &r.blobs, "lists": &r.lists, "keys": &r.keys} {
		var err error
		if *to, err = openPlace(ctx, p, target, place, create); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// openPlace opens a place in a repository. The credentials for s3:// are in the AWS tools' variables. If
// it may not create a folder, since the disk may be read-only, it returns nil for one that only
// encrypted backups have.
func openPlace(ctx context.Context, p session.Program, target, place string, create bool) (store, error) {
	if strings.HasPrefix(target, "s3://") {
		options, err := blob.ParseS3URL(target)
		if err != nil {
			return nil, err
		}
		env := session.Env{Program: p}
		options.AccessKey = env.Getenv("AWS_ACCESS_KEY_ID")
		options.SecretKey = env.Getenv("AWS_SECRET_ACCESS_KEY")
		options.Prefix = strings.Trim(options.Prefix+"/"+place, "/")
		return blob.OpenS3(ctx, options)
	}
	path := filepath.Join(target, place)
	if !create && (place == "keys" || place == "lists") {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return blob.OpenDisk(path)
}

// encrypt sets how new backups are encrypted. All backups in a repository are encrypted in the same
// way.
func (r *repository) encrypt(ctx context.Context, e backup.Encryption) error {
	files, err := r.keyFiles(ctx)
	if err != nil {
		return err
	}
	if len(files) == 0 && e.IsSet() {
		if err := r.addKeyFile(ctx, e); err != nil {
			return err
		}
		files, err = r.keyFiles(ctx) // another process may have added one, too
	}
	switch {
	case err != nil:
		return err
	case !e.IsSet() && len(files) == 0:
		return nil
	case !e.IsSet():
		return errs.New(errs.Conflict, "the backups there are encrypted; give the passphrase or the recipients, or use another target")
	}
	r.cipher, err = e.Cipher(files...)
	return err
}

// addKeyFile makes a new repository encrypted.
func (r *repository) addKeyFile(ctx context.Context, e backup.Encryption) error {
	_, err := r.choose(ctx, "")
	if err == nil {
		return errs.New(errs.Conflict, "the backups there are not encrypted; use another target for encrypted ones")
	}
	if errs.KindOf(err) != errs.NotFound {
		return err
	}
	if err := e.Check(); err != nil {
		return err
	}
	file, err := e.NewKeyFile()
	if err != nil {
		return err
	}
	if err := r.keys.Put(ctx, id.Blob(time.Now()), bytes.NewReader(file), int64(len(file))); err != nil {
		return fmt.Errorf("write how the backups are encrypted: %w", err)
	}
	return nil
}

// decrypt sets the cipher for reading the backups.
func (r *repository) decrypt(ctx context.Context, d backup.Decryption) error {
	files, err := r.keyFiles(ctx)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		r.cipher, err = d.Cipher(files...)
		return err
	}
	if d.Required {
		return backup.ErrNotEncrypted
	}
	return nil
}

// maxKeyFiles caps the key files that we read.
const maxKeyFiles = 8

// keyFiles returns the files that tell how the backups are encrypted, the oldest first: none if they
// are not.
func (r *repository) keyFiles(ctx context.Context) (files [][]byte, err error) {
	if r.keys == nil {
		return nil, nil
	}
	found, _, err := r.keys.List(ctx, "", maxKeyFiles)
	if err != nil {
		return nil, fmt.Errorf("look for how the backups are encrypted: %w", err)
	}
	slices.SortFunc(found, func(a, b blob.Info) int { return strings.Compare(a.ID, b.ID) })
	for _, info := range found {
		file, err := r.keyFile(ctx, info.ID)
		if errors.Is(err, blob.ErrNotFound) {
			continue // it is being written
		}
		if err != nil {
			return nil, fmt.Errorf("read how the backups are encrypted: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

func (r *repository) keyFile(ctx context.Context, keyID string) ([]byte, error) {
	from, err := r.keys.Open(ctx, keyID, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	return io.ReadAll(io.LimitReader(from, backup.MaxKeyFile))
}
