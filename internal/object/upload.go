package object

import (
	"steward/internal/errs"
	"steward/internal/stamp"
)

// Limits of multipart uploads, as in S3.
const (
	MaxParts    = 10_000
	MinPartSize = 5 << 20
)

// Errors of multipart uploads. Package s3 compares them with errors.Is.
var (
	ErrNoUpload     = errs.New(errs.NotFound, "the multipart upload does not exist; it may have been completed or aborted")
	ErrInvalidPart  = errs.New(errs.Invalid, "a part was not uploaded, or has another ETag or checksum")
	ErrPartOrder    = errs.New(errs.Invalid, "the parts are not in ascending order")
	ErrPartTooSmall = errs.New(errs.Invalid, "a part other than the last one is smaller than 5 MiB")
)

// Upload is a multipart upload under way.
type Upload struct {
	ID          string
	BucketID    string
	Key         string
	ContentType string
	Tier        Tier
	// Attributes are those of the object. Its checksum has an algorithm and a type, but no value.
	Attributes Attributes
	CreatedAt  stamp.Time
}

// Part is an uploaded part.
type Part struct {
	Number     int
	Size       int64
	ETag       string
	Checksum   *Checksum
	ModifiedAt stamp.Time

	blob string
}

// PartRequest describes a part that is uploaded. Uploading a number again replaces the part.
type PartRequest struct {
	Key      string
	UploadID string
	Number   int
	// Checksum is like that of PutRequest.
	Checksum func() (*Checksum, error)
}

// CompletedPart is a part in the request that completes an upload.
type CompletedPart struct {
	Number int
	ETag   string
	// Checksum is the value of the part's checksum, or "" if it was not sent.
	Checksum string
}

// CompleteRequest completes an upload.
type CompleteRequest struct {
	Key      string
	UploadID string
	Parts    []CompletedPart
	Conditions
	// Size is the size that the object must have, or -1.
	Size int64
	// Checksum returns the checksum of the object from its parts. It may be nil.
	Checksum func(u Upload, parts []Part) (*Checksum, error)
	Origin
}

// UploadPage is a part of the list of uploads, in the order of key and id.
type UploadPage struct {
	Uploads   []Upload
	Truncated bool
}

// PartPage is a part of the list of an upload's parts.
type PartPage struct {
	Upload    Upload
	Parts     []Part
	Truncated bool
}
