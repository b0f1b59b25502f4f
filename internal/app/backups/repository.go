package backups

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/errs"
	"steward/internal/id"
)

// repository is a directory, or a prefix in a bucket, with backups that share the objects' bytes.
type repository struct {
	// archives has the backups without the objects' bytes. Their ids sort by time.
	archives store
	// blobs has the objects' bytes.
	blobs store
	// lists tells, in the clear, which blobs each archive refers to, with names, sizes and hashes,
	// for archives that those who add backups cannot decrypt. It is nil if there are none.
	lists store
	// keys has the file that tells how everything is encrypted. It is nil if nothing is.
	keys store
	// cipher is nil if nothing is encrypted.
	cipher *backup.Cipher
}

// Listed is a backup in a repository.
type Listed struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// Bytes is the size without the objects' bytes.
	Bytes int64 `json:"bytes"`
}

// list returns all backups, the oldest first.
func (r *repository) list(ctx context.Context) ([]Listed, error) {
	var all []Listed
	for cursor := ""; ; {
		found, next, err := r.archives.List(ctx, cursor, 1000)
		if err != nil {
			return nil, fmt.Errorf("list backups: %w", err)
		}
		for _, info := range found {
			size, err := r.archives.Size(ctx, info.ID)
			if errors.Is(err, blob.ErrNotFound) {
				continue // an interrupted backup left it
			}
			if err != nil {
				return nil, fmt.Errorf("list backups: %w", err)
			}
			made, _ := id.BlobTime(info.ID)
			all = append(all, Listed{ID: info.ID, CreatedAt: made.UTC(), Bytes: size})
		}
		if next == "" {
			break
		}
		cursor = next
	}
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b Listed) bool { return a.ID == b.ID }), nil
}

// choose returns a backup by its id, or the newest one for "".
func (r *repository) choose(ctx context.Context, archiveID string) (Listed, error) {
	all, err := r.list(ctx)
	if err != nil {
		return Listed{}, err
	}
	for _, l := range slices.Backward(all) {
		if archiveID == "" || l.ID == archiveID {
			return l, nil
		}
	}
	return Listed{}, errs.New(errs.NotFound, "there is no such backup; see steward backup list")
}

// open opens a backup. Call closeAll at the end.
func (r *repository) open(ctx context.Context, archiveID string) (in *backup.Reader, closeAll func(), err error) {
	return openObject(ctx, r.archives, archiveID, r.cipher)
}

// archiveName returns a backup's object name in its repository.
func archiveName(archiveID string) string { return "archives/" + archiveID }

// openObject opens a backup or a list in a store.
func openObject(ctx context.Context, from store, archiveID string, c *backup.Cipher) (in *backup.Reader, closeAll func(), err error) {
	object, err := from.Open(ctx, archiveID, 0, -1)
	if err != nil {
		return nil, nil, fmt.Errorf("open backup %s: %w", archiveID, err)
	}
	plain, err := c.Decrypt(archiveName(archiveID), object)
	if err == nil {
		in, err = backup.NewReader(plain)
	}
	if err != nil {
		_ = object.Close()
		return nil, nil, fmt.Errorf("backup %s: %w", archiveID, err)
	}
	return in, func() {
		in.Close()
		_ = object.Close() // we only read it
	}, nil
}

// create adds a backup. write writes a whole one, except for the known blobs; it has returned when
// create does.
func (r *repository) create(ctx context.Context, now time.Time, write func(context.Context, io.Writer, Request) error) (Listed, error) {
	request := Request{Known: true}
	base, err := r.choose(ctx, "")
	if err == nil {
		known, err := r.blobList(ctx, base.ID)
		if err != nil {
			return Listed{}, err
		}
		defer known.close()
		request.known = known.file
	} else if errs.KindOf(err) != errs.NotFound {
		return Listed{}, err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	running.Go(func() { to.CloseWithError(write(ctx, to, request)) })
	defer func() { _ = from.Close() }()
	l := Listed{ID: id.Blob(now), CreatedAt: now.UTC().Truncate(time.Millisecond)} // with the id's precision
	archive, out := io.Pipe()
	running.Go(func() { out.CloseWithError(r.split(ctx, l.ID, from, out)) })
	defer func() { _ = archive.Close() }()
	sealed, err := r.cipher.Encrypt(archiveName(l.ID), archive)
	if err != nil {
		return l, err
	}
	if err := r.archives.Put(ctx, l.ID, sealed, -1); err != nil {
		return l, fmt.Errorf("write the backup: %w", err)
	}
	if l.Bytes, err = r.archives.Size(ctx, l.ID); err != nil || base.ID == "" {
		return l, err
	}
	if _, err := r.archives.Size(ctx, base.ID); !errors.Is(err, blob.ErrNotFound) {
		return l, err
	}
	// Somebody has removed the backup that this one shares blobs with, and the blobs too.
	if err := r.archives.Delete(ctx, l.ID); err != nil {
		return l, fmt.Errorf("remove backup %s: %w", l.ID, err)
	}
	return l, errs.New(errs.Conflict, "another process removed the backup that this one needs; try again")
}

// blobList writes a backup's blobs to a file, one on each line, and rewinds the file.
func (r *repository) blobList(ctx context.Context, archiveID string) (*spool, error) {
	lines, err := newSpool(os.TempDir())
	if err != nil {
		return nil, err
	}
	encoder := json.NewEncoder(lines.out)
	err = r.eachBlob(ctx, archiveID, func(info backup.Info) error { return encoder.Encode(info) })
	if err == nil {
		err = lines.rewind()
	}
	if err != nil {
		lines.close()
		return nil, err
	}
	return lines, nil
}

// maxListed is the most blobs that a backup may have: we keep lists of them on disk.
const maxListed = 50_000_000

// eachBlob calls f with a backup's blobs, in order, as they are stored. It checks the backup, or its
// list if it cannot decrypt the backup.
func (r *repository) eachBlob(ctx context.Context, archiveID string, f func(backup.Info) error) error {
	if !r.cipher.CanDecrypt() {
		return r.eachListed(ctx, archiveID, f)
	}
	in, closeAll, err := r.open(ctx, archiveID)
	if err != nil {
		return err
	}
	defer closeAll()
	in.External = counted(f)
	if err := readAll(in, func(*backup.Part) error { return ctx.Err() }); err != nil {
		return fmt.Errorf("backup %s: %w", archiveID, err)
	}
	return nil
}

// eachListed calls f with the blobs in a backup's list, and checks the list.
func (r *repository) eachListed(ctx context.Context, archiveID string, f func(backup.Info) error) error {
	if r.lists == nil {
		return fmt.Errorf("%w: the list of the blobs of backup %s is missing", backup.ErrIncomplete, archiveID)
	}
	in, closeAll, err := openObject(ctx, r.lists, archiveID, nil)
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: the list of the blobs of backup %s is missing", backup.ErrIncomplete, archiveID)
	}
	if err != nil {
		return fmt.Errorf("list of blobs: %w", err)
	}
	defer closeAll()
	in.External = counted(f)
	err = readAll(in, func(p *backup.Part) error { return fmt.Errorf("%w: it has the part %s", backup.ErrDamaged, p.Name) })
	if err != nil {
		return fmt.Errorf("list of the blobs of backup %s: %w", archiveID, err)
	}
	return nil
}

// counted limits the calls to f, and then returns an error.
func counted(f func(backup.Info) error) func(backup.Info) error {
	n := 0
	return func(info backup.Info) error {
		if n++; n > maxListed {
			return fmt.Errorf("%w: it has more than %d blobs", backup.ErrDamaged, maxListed)
		}
		return f(info)
	}
}

// fetch calls f with a blob that is kept outside a backup, and compares the bytes with its index.
func (r *repository) fetch(ctx context.Context, info backup.Info, f func(content io.Reader) error) error {
	_, blobID, _ := backup.Parse(info.Name)
	object, err := r.blobs.Open(ctx, blobID, 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: the blob %s is missing", backup.ErrIncomplete, blobID)
	}
	if err != nil {
		return err
	}
	defer func() { _ = object.Close() }()
	stored := newHashed(io.LimitReader(object, info.Size+1))
	content, err := r.cipher.Decrypt(info.Name, stored)
	if err == nil {
		err = f(content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	if err != nil {
		return fmt.Errorf("blob %s: %w", blobID, err)
	}
	if got := stored.info(info.Name); got.Size != info.Size || got.SHA256 != info.SHA256 {
		return fmt.Errorf("%w: the blob %s is not the one that was written", backup.ErrDamaged, blobID)
	}
	return nil
}

// hashed hashes the bytes that are read from a reader.
type hashed struct {
	io.Reader
	sum hash.Hash
	n   int64
}

func newHashed(r io.Reader) *hashed { return &hashed{Reader: r, sum: sha256.New()} }

func (h *hashed) Read(to []byte) (int, error) {
	n, err := h.Reader.Read(to)
	h.sum.Write(to[:n])
	h.n += int64(n)
	return n, err
}

// info describes a part that consists of these bytes.
func (h *hashed) info(name string) backup.Info {
	return backup.Info{Name: name, Size: h.n, SHA256: hex.EncodeToString(h.sum.Sum(nil))}
}

// prune removes the oldest backups until keep are left, and the blobs that no other backup refers
// to. It also removes the half-written objects that interrupted backups left before the newest one
// began. It returns how many backups it removed.
func (r *repository) prune(ctx context.Context, keep int) (removed int, err error) {
	all, err := r.list(ctx)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	for _, place := range []store{r.archives, r.lists, r.blobs} {
		if err := place.Sweep(ctx, all[len(all)-1].CreatedAt); err != nil {
			return 0, fmt.Errorf("remove what interrupted backups have left: %w", err)
		}
	}
	for len(all)-removed > keep {
		if err := r.remove(ctx, all[removed].ID, all[removed+1:]); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// remove removes a backup, and its blobs that the others do not have. The backup goes first, so that
// an interruption leaves only unreferenced blobs.
func (r *repository) remove(ctx context.Context, archiveID string, others []Listed) error {
	var kept []*knownBlobs
	for _, other := range others {
		lines, err := r.blobList(ctx, other.ID)
		if err != nil {
			return err
		}
		defer lines.close()
		kept = append(kept, newKnownBlobs(lines.file))
	}
	unused, err := newSpool(os.TempDir())
	if err != nil {
		return err
	}
	defer unused.close()
	err = r.eachBlob(ctx, archiveID, func(info backup.Info) error {
		used := false
		for _, list := range kept { // each must hear every name
			_, found, err := list.find(info.Name)
			if err != nil {
				return err
			}
			used = used || found
		}
		if used {
			return nil
		}
		_, blobID, _ := backup.Parse(info.Name)
		return unused.add(blobID)
	})
	if err != nil {
		return err
	}
	if err := r.archives.Delete(ctx, archiveID); err != nil {
		return fmt.Errorf("remove backup %s: %w", archiveID, err)
	}
	if err := r.lists.Delete(ctx, archiveID); err != nil {
		return fmt.Errorf("remove the list of backup %s: %w", archiveID, err)
	}
	return unused.each(func(blobID string) error { return r.blobs.Delete(ctx, blobID) })
}

// counter counts the bytes that are written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
