package backups

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/errs"
)

// splitter splits a whole backup into blobs and an archive that refers to them.
type splitter struct {
	to  *repository
	in  *backup.Reader
	out *backup.Writer
	// list refers to the blobs as well, for those who cannot decrypt the archive. It is nil if
	// everybody can.
	list *backup.Writer

	// base is the parent context of every group, and ctx the current group's.
	base, ctx context.Context
	group     *errgroup.Group
	pending   bool
	mu        sync.Mutex
	// stored has the blobs since the last index, as they are stored. mu guards it.
	stored map[string]backup.Info
}

// split reads a whole backup, stores its blobs and their list, and writes an archive that refers to
// them.
func (r *repository) split(ctx context.Context, archiveID string, from io.Reader, to io.Writer) error {
	in, err := backup.NewReader(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := backup.NewWriter(to, in.Header())
	if err != nil {
		return err
	}
	defer out.Abort()
	s := &splitter{to: r, in: in, out: out, base: ctx, stored: map[string]backup.Info{}}
	if !r.cipher.ForRecipients() {
		if err := s.run(); err != nil {
			return err
		}
		return out.Close(in.Summary())
	}
	file, err := newSpool(os.TempDir())
	if err != nil {
		return err
	}
	defer file.close()
	if s.list, err = backup.NewWriter(file.out, backup.Header{CreatedAt: in.Header().CreatedAt}); err != nil {
		return err
	}
	defer s.list.Abort()
	if err := s.run(); err != nil {
		return err
	}
	if err := s.list.Close(backup.Summary{}); err != nil {
		return err
	}
	if err := file.rewind(); err != nil {
		return err
	}
	if err := r.lists.Put(ctx, archiveID, file.file, -1); err != nil { // before the archive is complete
		return fmt.Errorf("store the list of blobs: %w", err)
	}
	return out.Close(in.Summary())
}

// run copies all parts.
func (s *splitter) run() error {
	s.in.External = func(backup.Info) error { return nil }
	s.in.Listed = s.listed
	s.begin()
	err := readAll(s.in, func(p *backup.Part) error {
		if p.Section == backup.Blobs {
			return s.keep(p)
		}
		return s.out.Add(p.Name, p.Size, p)
	})
	if failed := s.group.Wait(); failed != nil { // causes err, if that is a canceled context
		return failed
	}
	return err
}

func (s *splitter) begin() {
	s.group, s.ctx = errgroup.WithContext(s.base)
	s.group.SetLimit(blobsAtOnce)
	s.pending = false
}

// keep stores a blob. It stores several small ones at a time.
func (s *splitter) keep(p *backup.Part) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	ctx := s.ctx
	put := func(content io.Reader) error {
		info, err := s.to.put(ctx, p, content)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stored[p.Name] = info
		return nil
	}
	if p.Size > smallBlob {
		return put(p)
	}
	content, err := io.ReadAll(p)
	if err != nil {
		return err
	}
	s.pending = true
	s.group.Go(func() error { return put(bytes.NewReader(content)) })
	return nil
}

// listed refers to a blob once we have read its index: the blobs in that index are stored by then.
func (s *splitter) listed(info backup.Info) error {
	if section, _, _ := backup.Parse(info.Name); section != backup.Blobs {
		return nil
	}
	if s.pending {
		if err := s.group.Wait(); err != nil {
			return err
		}
		s.begin()
	}
	if stored, ok := s.stored[info.Name]; ok {
		delete(s.stored, info.Name)
		if s.to.cipher != nil {
			info = stored
		}
	}
	if s.list != nil {
		if err := s.list.Refer(info); err != nil {
			return err
		}
	}
	return s.out.Refer(info)
}

// put stores a blob, and returns its stored size and hash. If a failed backup left the blob behind,
// put uses it if it is whole, and replaces it otherwise.
func (r *repository) put(ctx context.Context, p *backup.Part, content io.Reader) (backup.Info, error) {
	size := r.cipher.EncryptedSize(p.Name, p.Size)
	there, err := r.blobs.Size(ctx, p.ID)
	if err == nil && there == size {
		return r.compare(ctx, p, content)
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return backup.Info{}, fmt.Errorf("look for blob %s: %w", p.ID, err)
	}
	if err := r.blobs.Delete(ctx, p.ID); err != nil {
		return backup.Info{}, fmt.Errorf("remove what is left of blob %s: %w", p.ID, err)
	}
	sealed, err := r.cipher.Encrypt(p.Name, content)
	if err != nil {
		return backup.Info{}, err
	}
	stored := newHashed(sealed)
	if err := r.blobs.Put(ctx, p.ID, stored, size); err != nil {
		return backup.Info{}, fmt.Errorf("store blob %s: %w", p.ID, err)
	}
	return stored.info(p.Name), nil
}

// compare returns a stored blob's size and hash. It removes one that has other bytes, as far as it
// can tell: a new backup must not refer to bytes that somebody else has put there.
func (r *repository) compare(ctx context.Context, p *backup.Part, content io.Reader) (info backup.Info, err error) {
	if r.cipher == nil {
		return info, nil // verify reads it
	}
	from, err := r.blobs.Open(ctx, p.ID, 0, -1)
	if err != nil {
		return info, fmt.Errorf("read blob %s: %w", p.ID, err)
	}
	defer func() { _ = from.Close() }()
	stored := newHashed(from)
	if r.cipher.CanDecrypt() {
		there, wanted := sha256.New(), sha256.New()
		plain, err := r.cipher.Decrypt(p.Name, stored)
		if err == nil {
			_, err = io.Copy(there, plain)
		}
		if err == nil {
			_, err = io.Copy(wanted, content)
		}
		if err == nil && !bytes.Equal(there.Sum(nil), wanted.Sum(nil)) {
			err = backup.ErrDamaged
		}
		if errors.Is(err, backup.ErrDamaged) || errors.Is(err, backup.ErrDecrypt) {
			return info, errors.Join(errs.New(errs.Conflict, "the blob %s that was there had other bytes; it is removed, so try again", p.ID),
				r.blobs.Delete(ctx, p.ID))
		}
		if err != nil {
			return info, fmt.Errorf("read blob %s: %w", p.ID, err)
		}
	}
	if _, err := io.Copy(io.Discard, stored); err != nil {
		return info, fmt.Errorf("read blob %s: %w", p.ID, err)
	}
	return stored.info(p.Name), nil
}
