package object

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Limits on multipart uploads, as in S3. MinPartSize is in bytes.
const (
	MaxParts    = 10_000
	MinPartSize = 5 << 20
)

// Clients may repeat the request that completed an upload for as long as completionPeriod.
const completionPeriod = 24 * time.Hour

// Multipart upload errors. Package s3 compares them with errors.Is.
var (
	ErrNoUpload     = errs.New(errs.NotFound, "the multipart upload does not exist; it may have been completed or aborted")
	ErrInvalidPart  = errs.New(errs.Invalid, "a part was not uploaded, or has another ETag or checksum")
	ErrPartOrder    = errs.New(errs.Invalid, "the parts are not in ascending order")
	ErrPartTooSmall = errs.New(errs.Invalid, "a part other than the last one is smaller than 5 MiB")
)

// Upload is a multipart upload in progress.
type Upload struct {
	ID          string
	BucketID    string
	Key         string
	ContentType string
	Tier        Tier
	// Attributes will become the object's. The checksum has an algorithm and a type, but no value.
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

// PartRequest describes a part to upload. Uploading a number again replaces the part.
type PartRequest struct {
	Key      string
	UploadID string
	Number   int
	// Checksum works as in PutRequest.
	Checksum func() (*Checksum, error)
}

// Range is a range in an object that Get returned: Length bytes from Offset, or everything after Offset if
// Length is -1.
type Range struct {
	Object         Object
	Offset, Length int64
}

// CompletedPart is a part that a completion names.
type CompletedPart struct {
	Number int
	ETag   string
	// Checksum is the part's checksum value, or "" if the client did not send it.
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
	// Checksum computes the object's checksum from its parts. It may be nil.
	Checksum func(u Upload, parts []Part) (*Checksum, error)
	Origin
}

// UploadsRequest selects uploads in progress, as ListRequest does for objects.
type UploadsRequest struct {
	ListRequest
	// AfterID is the upload of the key After to continue after. Without it, the list continues after all of
	// the key's uploads.
	AfterID string
}

// UploadPage is one page of uploads, ordered by key and id.
type UploadPage struct {
	Uploads []Upload
	Listed
	// NextID is the last upload's id, or "" if Next is a common prefix.
	NextID string
}

// PartsRequest selects an upload's parts.
type PartsRequest struct {
	Key      string
	UploadID string
	// After is the part number to continue after.
	After int
	Limit int
}

// PartPage is one page of an upload's parts.
type PartPage struct {
	Upload    Upload
	Parts     []Part
	Truncated bool
}

// assemble builds the object from the stored parts that the request names.
func (c CompleteRequest) assemble(u Upload, stored []Part, minPart int64) (Object, error) {
	o := Object{BucketID: u.BucketID, Key: u.Key, ContentType: u.ContentType, Tier: u.Tier, Attributes: u.Attributes}
	parts, err := c.choose(stored)
	if err != nil {
		return o, err
	}
	for i, p := range parts {
		if p.Size < minPart && i < len(parts)-1 {
			return o, ErrPartTooSmall
		}
		o.Size += p.Size
		o.blobs = append(o.blobs, blobRef{p.blob, p.Size})
		if p.Checksum != nil {
			o.Attributes.PartChecksums = append(o.Attributes.PartChecksums, p.Checksum.Value)
		}
	}
	if c.Size >= 0 && c.Size != o.Size {
		return o, errs.InvalidField("size", "the parts together have another size")
	}
	o.ETag = c.etag()
	if c.Checksum != nil {
		o.Attributes.Checksum, err = c.Checksum(u, parts)
	}
	return o, err
}

// etag returns the object's ETag, from the MD5 of the parts' ETags, which are MD5s themselves.
func (c CompleteRequest) etag() string {
	hash := md5.New()
	for _, p := range c.Parts {
		sum, err := hex.DecodeString(strings.Trim(p.ETag, `"`))
		if err != nil {
			return "" // no part has this ETag
		}
		hash.Write(sum)
	}
	return hex.EncodeToString(hash.Sum(nil)) + "-" + strconv.Itoa(len(c.Parts))
}

// choose returns the stored parts that the request names.
func (c CompleteRequest) choose(stored []Part) ([]Part, error) {
	if len(c.Parts) == 0 {
		return nil, ErrInvalidPart
	}
	byNumber := map[int]Part{}
	for _, p := range stored {
		byNumber[p.Number] = p
	}
	chosen := make([]Part, len(c.Parts))
	for i, wanted := range c.Parts {
		if i > 0 && wanted.Number <= c.Parts[i-1].Number {
			return nil, ErrPartOrder
		}
		p, ok := byNumber[wanted.Number]
		if !ok || strings.Trim(wanted.ETag, `"`) != p.ETag {
			return nil, ErrInvalidPart
		}
		if wanted.Checksum != "" && (p.Checksum == nil || p.Checksum.Value != wanted.Checksum) {
			return nil, ErrInvalidPart
		}
		chosen[i] = p
	}
	return chosen, nil
}
