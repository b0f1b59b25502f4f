package s3

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/object"
)

// source returns an object that is copied. It can be in the caller's bucket or in a
// public one.
func (g *gateway) source(ctx context.Context, header, expectedOwner *string, c conditions) (object.Object, error) {
	bucket, key, version, err := backend.ParseCopySource(text(header))
	if err != nil {
		return object.Object{}, err
	}
	r, o, err := g.get(ctx, toRead, &bucket, &key, &version)
	if err != nil {
		return object.Object{}, err
	}
	if owner := text(expectedOwner); owner != "" && owner != r.bucket.AccessKey {
		return object.Object{}, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	if err := c.check(o); err != nil {
		return object.Object{}, s3err.GetAPIError(s3err.ErrPreconditionFailed) // also what is not modified
	}
	return o, nil
}

// CopyObject copies an object.
func (g *gateway) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	src, err := g.source(ctx, in.CopySource, in.ExpectedSourceBucketOwner, conditions{
		in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince,
	})
	if err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	put, err := copyRequest(r, in, src)
	if err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	o, err := g.copy(r, src, put, in.ChecksumAlgorithm)
	if err != nil {
		return s3response.CopyObjectOutput{}, g.apiError("copy object", err, s3err.ErrNoSuchKey)
	}
	modified := o.ModifiedAt.Std()
	result := &s3response.CopyObjectResult{ETag: quoted(o.ETag), LastModified: &modified}
	if c := o.Attributes.Checksum; c != nil {
		sum := sumsOf(c)
		result.ChecksumCRC32 = sum.crc32
		result.ChecksumCRC32C = sum.crc32c
		result.ChecksumCRC64NVME = sum.crc64nvme
		result.ChecksumSHA1 = sum.sha1
		result.ChecksumSHA256 = sum.sha256
		result.ChecksumType = types.ChecksumType(c.Type)
	}
	return s3response.CopyObjectOutput{CopyObjectResult: result}, nil
}

// copyRequest returns the request of a copy: with the headers and tags of the source, or those of
// the request if a directive says so.
func copyRequest(r *request, in s3response.CopyObjectInput, src object.Object) (object.PutRequest, error) {
	replace := in.MetadataDirective == types.MetadataDirectiveReplace
	own := s3response.PutObjectInput{
		Key: in.Key, ContentType: in.ContentType, CacheControl: in.CacheControl, ContentDisposition: in.ContentDisposition,
		ContentEncoding: in.ContentEncoding, ContentLanguage: in.ContentLanguage, Expires: in.Expires, Metadata: in.Metadata,
		Tagging: in.Tagging,
	}
	put, err := putRequest(r, own)
	if err != nil {
		return put, err
	}
	header := &r.http.Request.Header // the protocol does not hand over the conditions of the copy
	ifMatch, ifNoneMatch := string(header.Peek("If-Match")), string(header.Peek("If-None-Match"))
	if put.Conditions, err = writeConditions(&ifMatch, &ifNoneMatch); err != nil {
		return put, err
	}
	if src.Size > maxObject {
		return put, s3err.GetCopySourceObjectTooLargeErr(maxObject)
	}
	if src.BucketID == r.bucket.ID && src.Key == put.Key && !replace && put.Tier == "" {
		return put, s3err.GetAPIError(s3err.ErrInvalidCopyDest)
	}
	tags := put.Attributes.Tags
	if !replace {
		put.ContentType = src.ContentType
		put.Attributes = src.Attributes
	}
	put.Attributes.Tags = tags
	if in.TaggingDirective != types.TaggingDirectiveReplace {
		put.Attributes.Tags = src.Attributes.Tags
	}
	put.Attributes.Checksum = nil
	put.Attributes.PartChecksums = nil
	put.Event = object.EventCopy
	return put, nil
}

// copy copies an object with its checksum. A copy is not in parts, so that the checksum of parts is
// replaced; for this, and if another one is asked for, the bytes are read here.
func (g *gateway) copy(r *request, src object.Object, put object.PutRequest, algorithm types.ChecksumAlgorithm) (object.Object, error) {
	algorithm = types.ChecksumAlgorithm(strings.ToUpper(strings.Clone(string(algorithm))))
	if err := checkAlgorithm(algorithm); err != nil {
		return object.Object{}, err
	}
	ontoItself := src.BucketID == r.bucket.ID && src.Key == put.Key
	if sum := src.Attributes.Checksum; sum != nil {
		algorithm = cmp.Or(algorithm, types.ChecksumAlgorithm(sum.Algorithm))
		if string(algorithm) == sum.Algorithm && (ontoItself || sum.Type == string(types.ChecksumTypeFullObject)) {
			put.Attributes.Checksum = sum
			return g.index.Copy(r, src, r.bucket, put)
		}
	}
	if algorithm == "" {
		return g.index.Copy(r, src, r.bucket, put)
	}
	body, err := g.blobs.Open(r, src, 0, src.Size)
	if err != nil {
		return object.Object{}, err
	}
	defer body.Close()
	hash, err := newHash(body, algorithm)
	if err != nil {
		return object.Object{}, err
	}
	put.Checksum = hash.sum
	return g.index.Put(r, r.bucket, put, hash, src.Size)
}

// hashed is a reader that computes the checksum of what is read.
type hashed struct {
	*utils.HashReader
	algorithm types.ChecksumAlgorithm
}

func newHash(r io.Reader, a types.ChecksumAlgorithm) (hashed, error) {
	h, err := utils.NewHashReader(r, "", utils.HashType(strings.ToLower(string(a))))
	if err != nil {
		return hashed{}, fmt.Errorf("hash %s: %w", a, err)
	}
	return hashed{h, a}, nil
}

func (h hashed) sum() (*object.Checksum, error) { return fullObject(h.algorithm, h.Sum()), nil }
