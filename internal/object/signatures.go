package object

import (
	"context"
	"errors"
	"io"

	"steward/internal/auth"
	"steward/internal/db"
)

var errTodo = errors.New("object: not written yet")

func (s *Store) Forget() {}
func (s *Store) CreateBucket(tx *db.Tx, caller *auth.Caller, n NewBucket) (*Bucket, error) {
	return nil, errTodo
}
func (s *Store) DeleteBucket(tx *db.Tx, orgID, name string, ifEmpty bool) error { return errTodo }
func (s *Store) RotateKeys(tx *db.Tx, orgID, name string) (*Bucket, error)      { return nil, errTodo }
func (s *Store) Bucket(ctx context.Context, name string) (*Bucket, error)       { return nil, errTodo }
func (s *Store) BucketByAccessKey(ctx context.Context, accessKey string) (*Bucket, error) {
	return nil, errTodo
}
func (s *Store) Buckets(ctx context.Context, orgID, region string) ([]*Bucket, error) {
	return nil, errTodo
}
func (s *Store) UpdateConfig(ctx context.Context, b *Bucket, p Patch) (*Bucket, error) {
	return nil, errTodo
}
func (s *Store) ResetConfig(ctx context.Context, b *Bucket) error    { return errTodo }
func (s *Store) Usage(ctx context.Context, b *Bucket) (Usage, error) { return Usage{}, errTodo }

// Put reads all of r; size is -1 if it is not known.
func (s *Store) Put(ctx context.Context, b *Bucket, p PutRequest, r io.Reader, size int64) (Object, error) {
	return Object{}, errTodo
}

// Get returns NotFound if there is no such object.
func (s *Store) Get(ctx context.Context, b *Bucket, key string) (Object, error) {
	return Object{}, errTodo
}

// Open reads length bytes from offset on; length -1 means all that follow.
func (s *Store) Open(ctx context.Context, o Object, offset, length int64) (io.ReadCloser, error) {
	return nil, errTodo
}

// Delete deletes objects in one transaction and returns the keys of those that existed.
func (s *Store) Delete(ctx context.Context, b *Bucket, d DeleteRequest) (deleted []string, err error) {
	return nil, errTodo
}
func (s *Store) DeletePrefix(ctx context.Context, b *Bucket, prefix string, o Origin) (deleted int64, err error) {
	return 0, errTodo
}

// Copy copies src, an object of Get. A copy onto itself changes the row only. ContentType and Attributes are those of p.
func (s *Store) Copy(ctx context.Context, src Object, dst *Bucket, p PutRequest) (Object, error) {
	return Object{}, errTodo
}

// SetTags replaces the tags; nil removes them.
func (s *Store) SetTags(ctx context.Context, b *Bucket, key string, tags map[string]string, o Origin) (Object, error) {
	return Object{}, errTodo
}
func (s *Store) List(ctx context.Context, b *Bucket, r ListRequest) (ListPage, error) {
	return ListPage{}, errTodo
}
func (s *Store) Page(ctx context.Context, b *Bucket, prefix string, offset int64, limit int) (ObjectPage, error) {
	return ObjectPage{}, errTodo
}
func (s *Store) Folders(ctx context.Context, b *Bucket, prefix, after string, limit int) (FolderPage, error) {
	return FolderPage{}, errTodo
}

// CreateUpload uses Key, ContentType, Attributes and Tier of p.
func (s *Store) CreateUpload(ctx context.Context, b *Bucket, p PutRequest) (Upload, error) {
	return Upload{}, errTodo
}
func (s *Store) Upload(ctx context.Context, b *Bucket, key, uploadID string) (Upload, error) {
	return Upload{}, errTodo
}
func (s *Store) PutPart(ctx context.Context, b *Bucket, p PartRequest, r io.Reader, size int64) (Part, error) {
	return Part{}, errTodo
}
func (s *Store) CopyPart(ctx context.Context, b *Bucket, p PartRequest, src Object, offset, length int64) (Part, error) {
	return Part{}, errTodo
}
func (s *Store) Parts(ctx context.Context, b *Bucket, key, uploadID string, after, limit int) (PartPage, error) {
	return PartPage{}, errTodo
}

// Uploads lists uploads with a prefix after the upload (afterKey, afterID); afterID "" means all of afterKey are skipped.
func (s *Store) Uploads(ctx context.Context, b *Bucket, prefix, afterKey, afterID string, limit int) (UploadPage, error) {
	return UploadPage{}, errTodo
}
func (s *Store) CompleteUpload(ctx context.Context, b *Bucket, c CompleteRequest) (Object, error) {
	return Object{}, errTodo
}
func (s *Store) AbortUpload(ctx context.Context, b *Bucket, key, uploadID string) error {
	return errTodo
}

func (s *Store) Expire(ctx context.Context) error            { return errTodo }
func (s *Store) CollectGarbage(ctx context.Context) error    { return errTodo }
func (s *Store) Sweep(ctx context.Context) error             { return errTodo }
func (s *Store) Purge(ctx context.Context) error             { return errTodo }
func (s *Store) AbortStaleUploads(ctx context.Context) error { return errTodo }
