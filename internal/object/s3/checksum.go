package s3

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"steward/internal/object"
)

// algorithms are the checksums that are computed and stored.
var algorithms = []types.ChecksumAlgorithm{
	types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme,
	types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256,
}

// sums are the checksums of a request or response, of which at most one is set.
type sums struct{ crc32, crc32c, crc64nvme, sha1, sha256 *string }

// sumsOf returns the sums that stand for a checksum, which may be nil.
func sumsOf(c *object.Checksum) (s sums) {
	if c == nil || c.Value == "" {
		return s
	}
	switch types.ChecksumAlgorithm(c.Algorithm) {
	case types.ChecksumAlgorithmCrc32:
		s.crc32 = &c.Value
	case types.ChecksumAlgorithmCrc32c:
		s.crc32c = &c.Value
	case types.ChecksumAlgorithmCrc64nvme:
		s.crc64nvme = &c.Value
	case types.ChecksumAlgorithmSha1:
		s.sha1 = &c.Value
	case types.ChecksumAlgorithmSha256:
		s.sha256 = &c.Value
	}
	return s
}

// expected returns the checksum that a client has sent, or nil.
func (s sums) expected() *object.Checksum {
	for i, value := range []*string{s.crc32, s.crc32c, s.crc64nvme, s.sha1, s.sha256} {
		if v := text(value); v != "" {
			return &object.Checksum{Algorithm: string(algorithms[i]), Value: v}
		}
	}
	return nil
}

// expected returns the checksum that a client has sent, or nil. In a presigned URL it can be in the
// query, which the protocol does not hand over.
func (r *request) expected(s sums) *object.Checksum {
	if c := s.expected(); c != nil {
		return c
	}
	for name, value := range r.http.QueryArgs().All() {
		rest, ok := strings.CutPrefix(strings.ToLower(string(name)), "x-amz-checksum-")
		if a := types.ChecksumAlgorithm(strings.ToUpper(rest)); ok && slices.Contains(algorithms, a) {
			return &object.Checksum{Algorithm: string(a), Value: string(value)}
		}
	}
	return nil
}

// value returns the value that a client has sent, or "".
func (s sums) value() string {
	if c := s.expected(); c != nil {
		return c.Value
	}
	return ""
}

func checkAlgorithm(a types.ChecksumAlgorithm) error {
	if a != "" && !slices.Contains(algorithms, a) {
		return notImplemented("The checksum algorithm " + string(a))
	}
	return nil
}

// checksummer computes the checksum of a body, or takes it from the body's trailer, where the
// reader of the chunks verifies it.
type checksummer struct {
	io.Reader
	body      *uploadReader
	algorithm types.ChecksumAlgorithm
	hash      *utils.HashReader
	trailer   middlewares.ChecksumReader
}

// newChecksummer returns a reader of a body that fails at its end unless it has the expected
// checksum. The algorithm, which may be empty, is used if nothing is expected.
func newChecksummer(body *uploadReader, algorithm types.ChecksumAlgorithm, expected *object.Checksum) (*checksummer, error) {
	c := &checksummer{Reader: body, body: body, algorithm: algorithm}
	if t, ok := body.r.(middlewares.ChecksumReader); ok && t.Algorithm() != "" {
		c.trailer = t
		c.algorithm = types.ChecksumAlgorithm(strings.ToUpper(t.Algorithm()))
		return c, checkAlgorithm(c.algorithm)
	}
	want := ""
	if expected != nil {
		c.algorithm = types.ChecksumAlgorithm(expected.Algorithm)
		want = expected.Value
	}
	if c.algorithm == "" {
		return c, nil
	}
	if err := checkAlgorithm(c.algorithm); err != nil {
		return nil, err
	}
	hash, err := utils.NewHashReader(body, want, utils.HashType(strings.ToLower(string(c.algorithm))))
	if err != nil {
		return nil, err
	}
	c.hash = hash
	c.Reader = hash
	return c, nil
}

// sum returns the checksum, or nil if none was asked for, after the whole body has been read.
func (c *checksummer) sum() (*object.Checksum, error) {
	if err := c.finish(); err != nil {
		return nil, err
	}
	switch {
	case c.trailer != nil:
		return fullObject(c.algorithm, strings.Clone(c.trailer.Checksum())), nil
	case c.hash != nil:
		return fullObject(c.algorithm, c.hash.Sum()), nil
	}
	return nil, nil
}

// finish reads the end of the body through the hash, which compares at the end.
func (c *checksummer) finish() error {
	if c.hash == nil || c.body.ended {
		return c.body.finish()
	}
	n, err := io.Copy(io.Discard, io.LimitReader(c.hash, 1))
	if n > 0 {
		return s3err.GetAPIError(s3err.ErrIncompleteBody)
	}
	return err
}

func fullObject(a types.ChecksumAlgorithm, value string) *object.Checksum {
	return &object.Checksum{Algorithm: string(a), Value: value, Type: string(types.ChecksumTypeFullObject)}
}

// combined returns the checksum of an object from those of its parts, and compares it with the
// expected one, which may be nil.
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
		return nil, s3err.GetChecksumBadDigestErr(types.ChecksumAlgorithm(c.Algorithm))
	}
	return &object.Checksum{Algorithm: c.Algorithm, Type: c.Type, Value: value}, nil
}

// trimCount removes the number of parts, which clients may leave out.
func trimCount(value string) string {
	value, _, _ = strings.Cut(value, "-")
	return value
}

func combine(c object.Checksum, parts []object.Part) (string, error) {
	if slices.ContainsFunc(parts, func(p object.Part) bool { return p.Checksum == nil || p.Checksum.Algorithm != c.Algorithm }) {
		return "", object.ErrInvalidPart
	}
	if c.Type == string(types.ChecksumTypeFullObject) {
		return combineFull(types.ChecksumAlgorithm(c.Algorithm), parts)
	}
	hash, err := utils.NewCompositeChecksumReader(utils.HashType(strings.ToLower(c.Algorithm)))
	if err != nil {
		return "", err
	}
	for _, p := range parts {
		if err := hash.Process(p.Checksum.Value); err != nil {
			return "", err
		}
	}
	return hash.Sum() + "-" + strconv.Itoa(len(parts)), nil
}

func combineFull(a types.ChecksumAlgorithm, parts []object.Part) (value string, err error) {
	for i, p := range parts {
		if i == 0 {
			value = p.Checksum.Value
			continue
		}
		value, err = utils.AddCRCChecksum(a, value, p.Checksum.Value, p.Size)
		if err != nil {
			return "", err
		}
	}
	return value, nil
}
