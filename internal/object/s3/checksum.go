package s3

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"steward/internal/object"
)

// algorithms lists the checksums that we compute and store.
var algorithms = []minio.ChecksumType{
	minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumCRC64NVME, minio.ChecksumSHA1, minio.ChecksumSHA256,
}

// algorithmOf finds an algorithm by name, in any case.
func algorithmOf(name string) (minio.ChecksumType, error) {
	i := slices.IndexFunc(algorithms, func(a minio.ChecksumType) bool { return strings.EqualFold(a.String(), name) })
	if i < 0 {
		return minio.ChecksumNone, notImplemented("The checksum algorithm " + name)
	}
	return algorithms[i], nil
}

const (
	fullObject = "FULL_OBJECT"
	composite  = "COMPOSITE"
)

// sums holds a checksum in XML. At most one field is set.
type sums struct {
	ChecksumCRC32     string `xml:",omitempty"`
	ChecksumCRC32C    string `xml:",omitempty"`
	ChecksumCRC64NVME string `xml:",omitempty"`
	ChecksumSHA1      string `xml:",omitempty"`
	ChecksumSHA256    string `xml:",omitempty"`
}

// fields returns pointers to the sums in the same order as algorithms.
func (s *sums) fields() []*string {
	return []*string{&s.ChecksumCRC32, &s.ChecksumCRC32C, &s.ChecksumCRC64NVME, &s.ChecksumSHA1, &s.ChecksumSHA256}
}

// sumsOf converts a checksum, which may be nil.
func sumsOf(c *object.Checksum) (s sums) {
	if c == nil {
		return s
	}
	for i, a := range algorithms {
		if a.String() == c.Algorithm {
			*s.fields()[i] = c.Value
		}
	}
	return s
}

// value returns the sum that a client sent, or "".
func (s sums) value() string {
	for _, field := range s.fields() {
		if *field != "" {
			return *field
		}
	}
	return ""
}

// typedSums holds an object's checksum in XML, with its type.
type typedSums struct {
	sums
	ChecksumType string `xml:",omitempty"`
}

func typedSumsOf(c *object.Checksum) typedSums { return typedSums{sumsOf(c), kindOf(c).ChecksumType} }

// checksumKind is the XML for a checksum's algorithm and type.
type checksumKind struct {
	ChecksumAlgorithm string `xml:",omitempty"`
	ChecksumType      string `xml:",omitempty"`
}

// kindOf converts a checksum, which may be nil.
func kindOf(c *object.Checksum) checksumKind {
	if c == nil {
		return checksumKind{}
	}
	return checksumKind{c.Algorithm, c.Type}
}

// setChecksum sets a checksum's headers. The checksum may be nil.
func setChecksum(header http.Header, c *object.Checksum) {
	if c == nil || c.Value == "" {
		return
	}
	header.Set("X-Amz-Checksum-"+c.Algorithm, c.Value)
	if c.Type != "" {
		header.Set("X-Amz-Checksum-Type", c.Type)
	}
}

const checksumPrefix = "X-Amz-Checksum-"

// expected returns the checksum in a request's headers, or nil.
func (r *request) expected() (*object.Checksum, error) {
	var found *object.Checksum
	for name := range r.Header {
		suffix, ok := strings.CutPrefix(name, checksumPrefix)
		if !ok || suffix == "Algorithm" || suffix == "Type" || suffix == "Mode" {
			continue
		}
		c, err := checksumOf(suffix, r.Header.Get(name))
		if err != nil {
			return nil, err
		}
		if found != nil {
			return nil, failf("InvalidRequest", "Expecting a single x-amz-checksum- header. Multiple checksum types are not allowed.")
		}
		found = c
	}
	return found, nil
}

// checksumOf parses a checksum that a client sent.
func checksumOf(algorithm, value string) (*object.Checksum, error) {
	a, err := algorithmOf(algorithm)
	if err != nil {
		return nil, err
	}
	sum, _, _ := strings.Cut(value, "-") // drop the number of parts
	if raw, err := base64.StdEncoding.DecodeString(sum); err != nil || len(raw) != a.RawByteLen() {
		return nil, failf("InvalidRequest", "Value for %s header is invalid.", a.Key())
	}
	return &object.Checksum{Algorithm: a.String(), Value: value}, nil
}

// trailer returns the checksum's name in the body's trailer, in lower case, or "".
func (r *request) trailer() (string, error) {
	name := strings.ToLower(strings.TrimSpace(r.Header.Get("X-Amz-Trailer")))
	if name == "" {
		return "", nil
	}
	for _, a := range algorithms {
		if a.Key() == name && strings.HasSuffix(r.signature.Payload, "-TRAILER") {
			return name, nil
		}
	}
	return "", failf("InvalidRequest", "The value specified in the x-amz-trailer header is not supported")
}

// checksummer computes a body's checksum and compares it with the client's.
type checksummer struct {
	algorithm minio.ChecksumType
	hash      hash.Hash // nil without an algorithm
	want      string    // "" if it is in the trailer, or none is expected
	trailer   bool
	md5       hash.Hash // nil if the client sent no MD5
	wantMD5   []byte
	size      int64
	// emptyURL accepts the checksum for an empty body whatever the body is. Some clients sign it into
	// presigned URLs before they know the body.
	emptyURL bool
}

// newChecksummer returns the checksummer that a request needs. It uses the given algorithm, which may be
// empty, if the client sends no checksum.
func (r *request) newChecksummer(algorithm, trailer string) (*checksummer, error) {
	c := &checksummer{trailer: trailer != ""}
	expected, err := r.expected()
	if err != nil {
		return nil, err
	}
	switch {
	case expected != nil && c.trailer:
		return nil, failf("InvalidRequest", "Expecting a single checksum, in a header or in the trailer.")
	case expected != nil:
		algorithm = expected.Algorithm
		c.want = expected.Value
	case c.trailer:
		algorithm = strings.TrimPrefix(trailer, strings.ToLower(checksumPrefix))
	case algorithm == "":
		algorithm = r.Header.Get("X-Amz-Sdk-Checksum-Algorithm")
	}
	if algorithm != "" {
		if c.algorithm, err = algorithmOf(algorithm); err != nil {
			return nil, err
		}
		c.hash = c.algorithm.Hasher()
		c.emptyURL = r.hoisted[http.CanonicalHeaderKey(c.algorithm.Key())] && c.want == c.algorithm.EncodeToString(nil)
	}
	if sent, ok := r.Header["Content-Md5"]; ok {
		c.md5 = md5.New()
		if c.wantMD5, err = base64.StdEncoding.DecodeString(sent[0]); err != nil || len(c.wantMD5) != md5.Size {
			return nil, fail("InvalidDigest")
		}
	}
	return c, nil
}

// Write implements io.Writer.
func (c *checksummer) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	if c.hash != nil {
		c.hash.Write(p)
	}
	if c.md5 != nil {
		c.md5.Write(p)
	}
	return len(p), nil
}

// verify returns the checksum, or nil if nobody asked for one.
func (c *checksummer) verify(trailer string) (*object.Checksum, error) {
	if c.md5 != nil && !bytes.Equal(c.md5.Sum(nil), c.wantMD5) {
		return nil, fail("BadDigest")
	}
	if c.hash == nil {
		return nil, nil
	}
	want := c.want
	if c.trailer {
		want = trailer
	}
	value := base64.StdEncoding.EncodeToString(c.hash.Sum(nil))
	if want != "" && want != value && !(c.emptyURL && c.size > 0) {
		return nil, failf("BadDigest", "The %s you specified did not match the calculated checksum.", c.algorithm)
	}
	return &object.Checksum{Algorithm: c.algorithm.String(), Type: fullObject, Value: value}, nil
}

// sum verifies a body that has no trailer.
func (c *checksummer) sum() (*object.Checksum, error) { return c.verify("") }

// combined computes an object's checksum from its parts' and compares it with expected, which may be nil.
func combined(u object.Upload, parts []object.Part, expected *object.Checksum) (*object.Checksum, error) {
	c := u.Attributes.Checksum
	if c == nil {
		return nil, nil
	}
	value, err := combine(*c, parts)
	if err != nil {
		return nil, err
	}
	if expected != nil && (expected.Algorithm != c.Algorithm || trimCount(expected.Value) != trimCount(value)) {
		return nil, failf("BadDigest", "The %s you specified did not match the calculated checksum.", c.Algorithm)
	}
	return &object.Checksum{Algorithm: c.Algorithm, Type: c.Type, Value: value}, nil
}

// trimCount removes the number of parts, which clients may leave out.
func trimCount(value string) string {
	value, _, _ = strings.Cut(value, "-")
	return value
}

func combine(c object.Checksum, parts []object.Part) (string, error) {
	algorithm, err := algorithmOf(c.Algorithm)
	if err != nil {
		return "", err
	}
	list := make([]minio.ObjectPart, len(parts))
	for i, p := range parts {
		if p.Checksum == nil || p.Checksum.Algorithm != c.Algorithm {
			return "", object.ErrInvalidPart
		}
		s := sumsOf(p.Checksum)
		list[i] = minio.ObjectPart{
			PartNumber: p.Number, Size: p.Size, ChecksumCRC32: s.ChecksumCRC32, ChecksumCRC32C: s.ChecksumCRC32C,
			ChecksumCRC64NVME: s.ChecksumCRC64NVME, ChecksumSHA1: s.ChecksumSHA1, ChecksumSHA256: s.ChecksumSHA256,
		}
	}
	if c.Type == fullObject {
		sum, err := algorithm.FullObjectChecksum(list)
		if err != nil {
			return "", err
		}
		return sum.Encoded(), nil
	}
	sum, err := algorithm.CompositeChecksum(list)
	if err != nil {
		return "", err
	}
	return sum.Encoded() + "-" + strconv.Itoa(len(parts)), nil
}
