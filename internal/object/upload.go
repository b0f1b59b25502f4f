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

// Limits of multipart uploads, as in S3.
const (
	MaxParts    = 10_000
	MinPartSize = 5 << 20
)

// completionPeriod is how long the request that completed an upload can be repeated.
const completionPeriod = 24 * time.Hour

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

// Range is a range of an object that Get returned: Length bytes from Offset on, or all that follow if
// Length is -1.
type Range struct {
	Object         Object
	Offset, Length int64
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

// UploadsRequest selects uploads under way.
type UploadsRequest struct {
	Prefix string
	// AfterKey and AfterID are those of the upload after which the list continues; without AfterID it
	// continues after all uploads of AfterKey.
	AfterKey, AfterID string
	Limit             int
}

// UploadPage is a part of the list of uploads, in the order of key and id.
type UploadPage struct {
	Uploads   []Upload
	Truncated bool
}

// PartsRequest selects parts of an upload.
type PartsRequest struct {
	Key      string
	UploadID string
	// After is the number of the part after which the list continues.
	After int
	Limit int
}

// PartPage is a part of the list of an upload's parts.
type PartPage struct {
	Upload    Upload
	Parts     []Part
	Truncated bool
}

// assemble returns the object of an upload, from those of its parts that the request names.
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

// etag returns the ETag of the object: that of the MD5s of the parts, which are their ETags.
func (c CompleteRequest) etag() string {
	hash := md5.New()
	for _, p := range c.Parts {
		sum, err := hex.DecodeString(strings.Trim(p.ETag, `"`))
		if err != nil {
			return "" // of no part
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
