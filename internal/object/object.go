package object

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// MaxKey is the maximum length of a key in bytes.
const MaxKey = 1024

// Tier is a storage class.
type Tier string

// The tiers.
const (
	Standard         Tier = "STANDARD"
	InfrequentAccess Tier = "INFREQUENT_ACCESS"
	Archive          Tier = "ARCHIVE"
)

// tiers are all tiers.
var tiers = []Tier{Standard, InfrequentAccess, Archive}

// Object is an object of a bucket.
type Object struct {
	BucketID string
	Key      string
	Size     int64
	// ETag has no quotes: the MD5 of the bytes in hex, or that of the parts' MD5s, `-` and their number.
	ETag        string
	ContentType string // "" if none was sent
	Tier        Tier
	Attributes  Attributes
	ModifiedAt  stamp.Time

	blobs []blobRef
}

// PartSizes returns the sizes of the parts of which the object was uploaded, one for a plain object.
func (o Object) PartSizes() []int64 {
	sizes := make([]int64, len(o.blobs))
	for i, b := range o.blobs {
		sizes[i] = b.size
	}
	return sizes
}

// Multipart reports whether the object was uploaded in parts.
func (o Object) Multipart() bool { return strings.Contains(o.ETag, "-") }

// Attributes are what a client stores with an object and gets back with it.
type Attributes struct {
	CacheControl       string            `json:"cache_control,omitempty"`
	ContentDisposition string            `json:"content_disposition,omitempty"`
	ContentEncoding    string            `json:"content_encoding,omitempty"`
	ContentLanguage    string            `json:"content_language,omitempty"`
	Expires            string            `json:"expires,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"` // the x-amz-meta- headers
	Tags               Tags              `json:"tags,omitempty"`
	Checksum           *Checksum         `json:"checksum,omitempty"`
	// PartChecksums are the values of the parts' checksums, if they have any.
	PartChecksums []string `json:"part_checksums,omitempty"`
}

// Checksum is a checksum as S3 names it, such as {CRC32, …, FULL_OBJECT}.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value,omitempty"` // in base64
	Type      string `json:"type,omitempty"`  // FULL_OBJECT or COMPOSITE
}

// kind returns what lists show of a checksum: its algorithm and type, or "" if there is none.
func (c *Checksum) kind() string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(c.Algorithm + " " + c.Type)
}

// checksumOf returns the checksum of a kind, without its value.
func checksumOf(kind string) *Checksum {
	algorithm, typ, _ := strings.Cut(kind, " ")
	return &Checksum{Algorithm: algorithm, Type: typ}
}

// Conditions are those of a write, as in the headers of S3: ETags with or without quotes, or `*`.
// They are checked in the transaction of the write, which returns PreconditionFailed.
type Conditions struct {
	IfMatch     string
	IfNoneMatch string
}

// check returns PreconditionFailed, or NotFound for an If-Match without an object.
func (c Conditions) check(key string, old *Object) error {
	if c.IfMatch != "" {
		if old == nil {
			return errs.Missing("object", key)
		}
		if !Matches(c.IfMatch, old.ETag) {
			return errs.New(errs.PreconditionFailed, "the object has another ETag")
		}
	}
	if c.IfNoneMatch != "" && old != nil && Matches(c.IfNoneMatch, old.ETag) {
		return errs.New(errs.PreconditionFailed, "the object exists already")
	}
	return nil
}

// Matches reports whether the value of a condition names an ETag.
func Matches(condition, etag string) bool {
	for tag := range strings.SplitSeq(condition, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.Trim(tag, `"`) == etag {
			return true
		}
	}
	return false
}

// Origin is where a request came from, for events.
type Origin struct {
	RequestID string
	Address   string // of the client
}

// PutRequest describes an object that is written.
type PutRequest struct {
	Key         string
	ContentType string
	Attributes  Attributes
	// Tier is that of the bucket's configuration if it is empty.
	Tier Tier
	Conditions
	// Checksum returns the checksum that is stored in the Attributes. It is called once all bytes
	// have been read; an error of it aborts the write. It may be nil.
	Checksum func() (*Checksum, error)
	// Event is the name of the event; "" means ObjectCreated:Put, or ObjectCreated:Copy for Copy.
	Event string
	Origin
}

// DeleteRequest names the objects to delete.
type DeleteRequest struct {
	Keys []string
	// IfMatch, if not empty, is checked for each object.
	IfMatch string
	Origin
}

// blobRef is a blob of an object. In JSON it is [id, size].
type blobRef struct {
	id   string
	size int64
}

func (b blobRef) MarshalJSON() ([]byte, error) { return json.Marshal([]any{b.id, b.size}) }

func (b *blobRef) UnmarshalJSON(text []byte) error {
	pair := []any{&b.id, &b.size}
	if err := json.Unmarshal(text, &pair); err != nil {
		return fmt.Errorf("decode reference to a blob: %w", err)
	}
	return nil
}

// checkKey returns Invalid unless a key has 1 to 1,024 bytes of UTF-8 without U+0000.
func checkKey(key string) error {
	if key == "" || len(key) > MaxKey || !isText(key) {
		return errs.InvalidField("key", "expected 1 to %d bytes of UTF-8 without U+0000", MaxKey)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
