package backups

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// dividing splits a whole backup into blobs and an archive that refers to them.
type dividing struct {
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

// divide reads a whole backup, stores its blobs and their list, and writes an archive that refers to
// them.
func (r *repository) divide(ctx context.Context, archiveID string, from io.Reader, to io.Writer) error {
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
	d := &dividing{to: r, in: in, out: out, base: ctx, stored: map[string]backup.Info{}}
	if r.cipher.ForRecipients() {
		err = d.runWithList(archiveID)
	} else {
		err = d.run()
	}
	if err != nil {
		return err
	}
	return out.Close(in.Summary())
}

// runWithList also stores a list of the blobs, before the archive is complete.
func (d *dividing) runWithList(archiveID string) error {
	file, err := newSpool(os.TempDir())
	if err != nil {
		return err
	}
	defer file.close()
	if d.list, err = backup.NewWriter(file.out, backup.Header{CreatedAt: d.in.Header().CreatedAt}); err != nil {
		return err
	}
	defer d.list.Abort()
	if err := d.run(); err != nil {
		return err
	}
	if err := d.list.Close(backup.Summary{}); err != nil {
		return err
	}
	if err := file.rewind(); err != nil {
		return err
	}
	if err := d.to.lists.Put(d.base, archiveID, file.file, -1); err != nil {
		return fmt.Errorf("store the list of blobs: %w", err)
	}
	return nil
}

// run copies all parts.
func (d *dividing) run() error {
	d.in.External = func(backup.Info) error { return nil }
	d.in.Listed = d.listed
	d.begin()
	err := readAll(d.in, func(p *backup.Part) error {
		if p.Section == backup.Blobs {
			return d.keep(p)
		}
		return d.out.Add(p.Name, p.Size, p)
	})
	if failed := d.group.Wait(); failed != nil { // causes err, if that is a canceled context
		return failed
	}
	return err
}

func (d *dividing) begin() {
	d.group, d.ctx = errgroup.WithContext(d.base)
	d.group.SetLimit(blobsAtOnce)
	d.pending = false
}

// keep stores a blob. It stores several small ones at a time.
func (d *dividing) keep(p *backup.Part) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if p.Size > smallBlob {
		return d.put(d.ctx, p, p)
	}
	content, err := io.ReadAll(p)
	if err != nil {
		return err
	}
	ctx := d.ctx
	d.pending = true
	d.group.Go(func() error { return d.put(ctx, p, bytes.NewReader(content)) })
	return nil
}

func (d *dividing) put(ctx context.Context, p *backup.Part, content io.Reader) error {
	info, err := d.to.put(ctx, p, content)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stored[p.Name] = info
	return nil
}

// listed refers to a blob once we have read its index: the blobs in that index are stored by then.
func (d *dividing) listed(info backup.Info) error {
	if section, _, _ := backup.Parse(info.Name); section != backup.Blobs {
		return nil
	}
	if d.pending {
		if err := d.group.Wait(); err != nil {
			return err
		}
		d.begin()
	}
	if stored, ok := d.stored[info.Name]; ok {
		delete(d.stored, info.Name)
		if d.to.cipher != nil {
			info = stored
		}
	}
	if d.list != nil {
		if err := d.list.Refer(info); err != nil {
			return err
		}
	}
	return d.out.Refer(info)
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
	sum := sha256.New()
	if err := r.blobs.Put(ctx, p.ID, io.TeeReader(sealed, sum), size); err != nil {
		return backup.Info{}, fmt.Errorf("store blob %s: %w", p.ID, err)
	}
	return backup.Info{Name: p.Name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
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
	sum := sha256.New()
	size := &counter{}
	stored := io.TeeReader(from, io.MultiWriter(sum, size))
	if r.cipher.CanDecrypt() {
		plain, err := r.cipher.Decrypt(p.Name, stored)
		if err == nil {
			err = sameBytes(plain, content)
		}
		if err != nil && !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrDecrypt) {
			return info, fmt.Errorf("read blob %s: %w", p.ID, err)
		}
		if err != nil {
			return info, errors.Join(errs.New(errs.Conflict, "the blob %s that was there had other bytes; it is removed, so try again", p.ID),
				r.blobs.Delete(ctx, p.ID))
		}
	}
	if _, err := io.Copy(io.Discard, stored); err != nil {
		return info, fmt.Errorf("read blob %s: %w", p.ID, err)
	}
	return backup.Info{Name: p.Name, Size: size.n, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// sameBytes returns an error unless two readers have the same bytes.
func sameBytes(a, b io.Reader) error {
	sumA := sha256.New()
	if _, err := io.Copy(sumA, a); err != nil {
		return err
	}
	sumB := sha256.New()
	if _, err := io.Copy(sumB, b); err != nil {
		return err
	}
	if !bytes.Equal(sumA.Sum(nil), sumB.Sum(nil)) {
		return backup.ErrDamaged
	}
	return nil
}
