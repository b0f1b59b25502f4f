package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// MaxKey caps a key's length, in bytes.
const MaxKey = 1024

// Tier is a storage class.
type Tier string

// Storage tiers. S3 clients see them as storage classes.
const (
	Standard         Tier = "STANDARD"
	InfrequentAccess Tier = "INFREQUENT_ACCESS"
	Archive          Tier = "ARCHIVE"
)

// tiers lists all tiers in a fixed order.
var tiers = []Tier{Standard, InfrequentAccess, Archive}

// Object is an object in a bucket.
type Object struct {
	BucketID string
	Key      string
	Size     int64
	// ETag has no quotes. It is the MD5 of the bytes in hex, or for parts the MD5 of their MD5s, `-` and
	// their number.
	ETag        string
	ContentType string // "" if the client sent none
	Tier        Tier
	Attributes  Attributes
	ModifiedAt  stamp.Time

	blobs []blobRef
}

// PartSizes returns the sizes of the parts that the object was uploaded in. A plain object has one.
func (o Object) PartSizes() []int64 {
	sizes := make([]int64, len(o.blobs))
	for i, b := range o.blobs {
		sizes[i] = b.size
	}
	return sizes
}

// Multipart reports whether the object was uploaded in parts.
func (o Object) Multipart() bool { return strings.Contains(o.ETag, "-") }

// Attributes are the values that a client stores with an object and gets back with it.
type Attributes struct {
	CacheControl       string            `json:"cache_control,omitempty"`
	ContentDisposition string            `json:"content_disposition,omitempty"`
	ContentEncoding    string            `json:"content_encoding,omitempty"`
	ContentLanguage    string            `json:"content_language,omitempty"`
	Expires            string            `json:"expires,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"` // from x-amz-meta- headers
	Tags               Tags              `json:"tags,omitempty"`
	Checksum           *Checksum         `json:"checksum,omitempty"`
	// PartChecksums holds the parts' checksum values, if they have any.
	PartChecksums []string `json:"part_checksums,omitempty"`
}

// Checksum is a checksum in S3's terms, such as {CRC32, …, FULL_OBJECT}.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value,omitempty"` // in base64
	Type      string `json:"type,omitempty"`  // FULL_OBJECT or COMPOSITE
}

// kind returns the checksum's algorithm and type for lists, or "" for nil.
func (c *Checksum) kind() string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(c.Algorithm + " " + c.Type)
}

// checksumOf parses a kind. The checksum has no value.
func checksumOf(kind string) *Checksum {
	algorithm, typ, _ := strings.Cut(kind, " ")
	return &Checksum{Algorithm: algorithm, Type: typ}
}

// Conditions are a write's conditions, as in S3's headers: ETags with or without quotes, or `*`. The
// write's transaction checks them and returns PreconditionFailed.
type Conditions struct {
	IfMatch     string
	IfNoneMatch string
}

// check returns PreconditionFailed, or NotFound for an If-Match if there is no object.
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

// Matches reports whether a condition names an ETag.
func Matches(condition, etag string) bool {
	for tag := range strings.SplitSeq(condition, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.Trim(tag, `"`) == etag {
			return true
		}
	}
	return false
}

// Origin says where a request came from, for events.
type Origin struct {
	RequestID string
	Address   string // the client's
}

// PutRequest describes an object to write.
type PutRequest struct {
	Key         string
	ContentType string
	Attributes  Attributes
	// Tier defaults to the bucket's.
	Tier Tier
	Conditions
	// Checksum returns the checksum to store in Attributes. We call it after reading all bytes; if it
	// fails, so does the write. It may be nil.
	Checksum func() (*Checksum, error)
	// Event is the event's name. The default is ObjectCreated:Put, or ObjectCreated:Copy for Copy.
	Event string
	Origin
}

// DeleteRequest names the objects to delete.
type DeleteRequest struct {
	Keys []string
	// IfMatch is checked for each object unless it is empty.
	IfMatch string
	Origin
}

// blobRef refers to an object's blob. In JSON it is [id, size].
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

// Tag is a key and a value on an object.
type Tag struct{ Key, Value string }

// Tags are an object's tags in the order in which the client sent them. In JSON they are one object.
type Tags []Tag

// MarshalJSON returns the tags as an object whose members keep their order.
func (t Tags) MarshalJSON() ([]byte, error) {
	members := make([]string, len(t))
	for i, tag := range t {
		members[i] = db.ToJSON(tag.Key) + ":" + db.ToJSON(tag.Value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// UnmarshalJSON reads an object and keeps its members in order.
func (t *Tags) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // {
		return fmt.Errorf("decode tags: %w", err)
	}
	for *t = nil; d.More(); {
		key, err := d.Token()
		var value string
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return fmt.Errorf("decode tags: %w", err)
		}
		name, _ := key.(string) // member names are strings
		*t = append(*t, Tag{name, value})
	}
	return nil
}
