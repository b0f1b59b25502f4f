package s3

import (
	"context"
	"fmt"
	"net/http"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/object"
)

// storageClasses are the S3 names of tiers. ARCHIVE is one whose objects clients read at once.
var storageClasses = map[object.Tier]types.StorageClass{
	object.Standard:         types.StorageClassStandard,
	object.InfrequentAccess: types.StorageClassStandardIa,
	object.Archive:          types.StorageClassGlacierIr,
}

// span is the part of an object that a request reads.
type span struct {
	offset, length int64
	contentRange   string // "" for the whole object
	parts          int32  // the number of the object's parts, if one of them was asked for
}

// spanOf returns the span of a Range header or a number of a part.
func spanOf(o object.Object, header *string, part *int32) (span, error) {
	if part != nil {
		return partSpan(o, *part)
	}
	offset, length, valid, err := backend.ParseObjectRange(o.Size, text(header))
	if err != nil {
		return span{}, err
	}
	s := span{offset: offset, length: length}
	if valid {
		s.contentRange = contentRange(offset, length, o.Size)
	}
	return s, nil
}

func contentRange(offset, length, size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, size)
}

// partSpan returns the span of a part. An object that was not uploaded in parts has one.
func partSpan(o object.Object, number int32) (span, error) {
	sizes := o.PartSizes()
	if !o.Multipart() {
		sizes = []int64{o.Size}
	}
	if int(number) > len(sizes) {
		return span{}, s3err.GetInvalidPartNumberRangeErr(int32(len(sizes)), number)
	}
	s := span{length: sizes[number-1]}
	for _, size := range sizes[:number-1] {
		s.offset += size
	}
	if o.Size > 0 {
		s.contentRange = contentRange(s.offset, s.length, o.Size)
	}
	if o.Multipart() {
		s.parts = int32(len(sizes))
	}
	return s, nil
}

// conditions are those of a read, from its headers.
type conditions struct {
	ifMatch, ifNoneMatch           *string
	modifiedSince, unmodifiedSince *time.Time
}

// check returns NotModified or PreconditionFailed. Times in headers have no fractions of a second,
// so those of the object are dropped; "unmodified since" includes the second itself.
func (c conditions) check(o object.Object) error {
	if c.unmodifiedSince != nil {
		until := c.unmodifiedSince.Add(time.Nanosecond)
		c.unmodifiedSince = &until
	}
	return backend.EvaluatePreconditions(o.ETag, o.ModifiedAt.Std().Truncate(time.Second), backend.PreConditions{
		IfMatch: c.ifMatch, IfNoneMatch: c.ifNoneMatch, IfModSince: c.modifiedSince, IfUnmodeSince: c.unmodifiedSince,
	})
}

// get returns an object that a request may read.
func (g *gateway) get(ctx context.Context, need right, bucket, key, version *string) (*request, object.Object, error) {
	r, err := g.begin(ctx, need, bucket)
	if err != nil {
		return nil, object.Object{}, err
	}
	name, err := keyOf(key)
	if err != nil {
		return nil, object.Object{}, err
	}
	if err := checkVersion(version); err != nil {
		return nil, object.Object{}, err
	}
	limited, cancel := g.limited(r)
	defer cancel()
	o, err := g.index.Get(limited, r.bucket, name)
	return r, o, g.apiError("read object", err, s3err.ErrNoSuchKey)
}

// cacheControl returns the header of an object, or that of its bucket.
func cacheControl(b *object.Bucket, o object.Object) *string {
	if o.Attributes.CacheControl == "" {
		return b.Config.CacheControl
	}
	return &o.Attributes.CacheControl
}

// head is what HeadObject and GetObject have in common.
type head struct {
	*request
	object object.Object
	span   span
	out    *awss3.HeadObjectOutput
}

func (g *gateway) head(ctx context.Context, in *awss3.HeadObjectInput) (head, error) {
	r, o, err := g.get(ctx, toRead, in.Bucket, in.Key, in.VersionId)
	if err != nil {
		return head{}, err
	}
	r.http.SetUserValue(servedBucket, r.bucket)
	c := conditions{in.IfMatch, in.IfNoneMatch, in.IfModifiedSince, in.IfUnmodifiedSince}
	if err := c.check(o); err != nil {
		setValidators(r, o)
		return head{}, err
	}
	s, err := spanOf(o, in.Range, in.PartNumber)
	if err != nil {
		return head{}, err
	}
	out := headOutput(r.bucket, o, s)
	if sum := o.Attributes.Checksum; sum != nil && in.ChecksumMode == types.ChecksumModeEnabled && s.contentRange == "" {
		set := sumsOf(sum)
		out.ChecksumCRC32 = set.crc32
		out.ChecksumCRC32C = set.crc32c
		out.ChecksumCRC64NVME = set.crc64nvme
		out.ChecksumSHA1 = set.sha1
		out.ChecksumSHA256 = set.sha256
		out.ChecksumType = types.ChecksumType(sum.Type)
	}
	return head{r, o, s, out}, nil
}

// setValidators sets what a cache needs of a response that has no object, which the protocol leaves
// out.
func setValidators(r *request, o object.Object) {
	header := &r.http.Response.Header
	header.Set("ETag", *quoted(o.ETag))
	header.Set("Last-Modified", o.ModifiedAt.Std().Format(http.TimeFormat))
	if c := cacheControl(r.bucket, o); c != nil {
		header.Set("Cache-Control", *c)
	}
	if e := o.Attributes.Expires; e != "" {
		header.Set("Expires", e)
	}
}

func headOutput(b *object.Bucket, o object.Object, s span) *awss3.HeadObjectOutput {
	modified := o.ModifiedAt.Std()
	return &awss3.HeadObjectOutput{
		AcceptRanges:       orNil("bytes"),
		CacheControl:       cacheControl(b, o),
		ContentDisposition: orNil(o.Attributes.ContentDisposition),
		ContentEncoding:    orNil(o.Attributes.ContentEncoding),
		ContentLanguage:    orNil(o.Attributes.ContentLanguage),
		ContentLength:      &s.length,
		ContentRange:       orNil(s.contentRange),
		ContentType:        orNil(o.ContentType),
		ETag:               quoted(o.ETag),
		ExpiresString:      orNil(o.Attributes.Expires),
		LastModified:       &modified,
		Metadata:           o.Attributes.Metadata,
		PartsCount:         count(s.parts),
		StorageClass:       storageClasses[o.Tier],
		TagCount:           count(int32(len(o.Attributes.Tags))),
	}
}

// HeadObject returns the headers of an object.
func (g *gateway) HeadObject(ctx context.Context, in *awss3.HeadObjectInput) (*awss3.HeadObjectOutput, error) {
	h, err := g.head(ctx, in)
	return h.out, err
}

func count(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

// GetObject returns an object, or a part of it.
func (g *gateway) GetObject(ctx context.Context, in *awss3.GetObjectInput) (*awss3.GetObjectOutput, error) {
	h, err := g.head(ctx, &awss3.HeadObjectInput{
		Bucket: in.Bucket, Key: in.Key, VersionId: in.VersionId, Range: in.Range, PartNumber: in.PartNumber,
		IfMatch: in.IfMatch, IfNoneMatch: in.IfNoneMatch, IfModifiedSince: in.IfModifiedSince,
		IfUnmodifiedSince: in.IfUnmodifiedSince, ChecksumMode: in.ChecksumMode,
	})
	if err != nil {
		return nil, err
	}
	body, err := g.blobs.Open(h, h.object, h.span.offset, h.span.length)
	if err != nil {
		return nil, g.apiError("open object", err, s3err.ErrInternalError)
	}
	out := h.out
	return &awss3.GetObjectOutput{
		AcceptRanges:       out.AcceptRanges,
		Body:               body,
		CacheControl:       out.CacheControl,
		ChecksumCRC32:      out.ChecksumCRC32,
		ChecksumCRC32C:     out.ChecksumCRC32C,
		ChecksumCRC64NVME:  out.ChecksumCRC64NVME,
		ChecksumSHA1:       out.ChecksumSHA1,
		ChecksumSHA256:     out.ChecksumSHA256,
		ChecksumType:       out.ChecksumType,
		ContentDisposition: out.ContentDisposition,
		ContentEncoding:    out.ContentEncoding,
		ContentLanguage:    out.ContentLanguage,
		ContentLength:      out.ContentLength,
		ContentRange:       out.ContentRange,
		ContentType:        out.ContentType,
		ETag:               out.ETag,
		ExpiresString:      out.ExpiresString,
		LastModified:       out.LastModified,
		Metadata:           out.Metadata,
		PartsCount:         out.PartsCount,
		StorageClass:       out.StorageClass,
		TagCount:           out.TagCount,
	}, nil
}

// GetObjectAttributes returns what is known of an object.
func (g *gateway) GetObjectAttributes(ctx context.Context, in *awss3.GetObjectAttributesInput) (s3response.GetObjectAttributesResponse, error) {
	r, o, err := g.get(ctx, toRead, in.Bucket, in.Key, in.VersionId)
	if err != nil {
		return s3response.GetObjectAttributesResponse{}, err
	}
	// The protocol would write the date in another form than that of HTTP.
	r.http.Response.Header.Set("Last-Modified", o.ModifiedAt.Std().Format(http.TimeFormat))
	out := s3response.GetObjectAttributesResponse{ETag: &o.ETag, ObjectSize: &o.Size, StorageClass: storageClasses[o.Tier]}
	if c := o.Attributes.Checksum; c != nil {
		sum := sumsOf(c)
		out.Checksum = &types.Checksum{
			ChecksumCRC32: sum.crc32, ChecksumCRC32C: sum.crc32c, ChecksumCRC64NVME: sum.crc64nvme,
			ChecksumSHA1: sum.sha1, ChecksumSHA256: sum.sha256, ChecksumType: types.ChecksumType(c.Type),
		}
	}
	if o.Multipart() {
		parts, err := attributeParts(o, text(in.PartNumberMarker), in.MaxParts)
		if err != nil {
			return out, err
		}
		out.ObjectParts = parts
	}
	return out, nil
}

// attributeParts returns the parts after a marker, a number of a part or "".
func attributeParts(o object.Object, marker string, limit *int32) (*s3response.ObjectParts, error) {
	after, err := markerOf(marker)
	if err != nil {
		return nil, err
	}
	maximum := 1000
	if limit != nil {
		maximum = int(*limit)
	}
	sizes := o.PartSizes()
	out := &s3response.ObjectParts{PartNumberMarker: after, MaxParts: maximum}
	for i := after; i < len(sizes) && i < after+maximum; i++ {
		number := int32(i + 1)
		part := types.ObjectPart{PartNumber: &number, Size: &sizes[i]}
		if c := o.Attributes.Checksum; c != nil && i < len(o.Attributes.PartChecksums) {
			sum := sumsOf(&object.Checksum{Algorithm: c.Algorithm, Value: o.Attributes.PartChecksums[i]})
			part.ChecksumCRC32 = sum.crc32
			part.ChecksumCRC32C = sum.crc32c
			part.ChecksumCRC64NVME = sum.crc64nvme
			part.ChecksumSHA1 = sum.sha1
			part.ChecksumSHA256 = sum.sha256
		}
		out.Parts = append(out.Parts, part)
	}
	out.NextPartNumberMarker = after + len(out.Parts)
	out.IsTruncated = out.NextPartNumberMarker < len(sizes)
	return out, nil
}
