package s3

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/object"
)

// PutObject stores an object. The protocol calls it for forms, too.
func (g *gateway) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.PutObjectOutput{}, err
	}
	put, err := putRequest(r, in)
	if err != nil {
		return s3response.PutObjectOutput{}, err
	}
	size := int64(-1)
	if file, isForm := in.Body.(*formFile); isForm {
		put.Event = object.EventPost // the size in the input is not that of the file
		put.Attributes.Tags = inOrder(mapOf(put.Attributes.Tags), keysOf([]byte(file.tagging)))
		if put.Tier, err = tierOf(file.storageClass); err != nil {
			return s3response.PutObjectOutput{}, err
		}
	} else if size, err = sizeOf(in.ContentLength); err != nil {
		return s3response.PutObjectOutput{}, err
	}
	body := &uploadReader{r: in.Body, conn: r.conn}
	sent := sums{in.ChecksumCRC32, in.ChecksumCRC32C, in.ChecksumCRC64NVME, in.ChecksumSHA1, in.ChecksumSHA256}
	sum, err := newChecksummer(body, in.ChecksumAlgorithm, r.expected(sent))
	if err != nil {
		return s3response.PutObjectOutput{}, err
	}
	put.Checksum = sum.sum
	o, err := g.index.Put(r, r.bucket, put, sum, size)
	if err != nil {
		body.drain()
		return s3response.PutObjectOutput{}, g.apiError("store object", err, missingIn(put.Conditions))
	}
	return putOutput(o), nil
}

// missingIn returns what is missing if a write finds nothing: the object that a condition names,
// or the bucket, which was deleted meanwhile.
func missingIn(c object.Conditions) s3err.ErrorCode {
	if c.IfMatch != "" {
		return s3err.ErrNoSuchKey
	}
	return s3err.ErrNoSuchBucket
}

// sizeOf returns the announced size of a body.
func sizeOf(length *int64) (int64, error) {
	switch {
	case length == nil || *length < 0:
		return 0, s3err.GetAPIError(s3err.ErrMissingContentLength)
	case *length > maxObject:
		return 0, s3err.GetEntityTooLargeErr(*length, maxObject)
	}
	return *length, nil
}

func putOutput(o object.Object) s3response.PutObjectOutput {
	out := s3response.PutObjectOutput{ETag: *quoted(o.ETag), Size: &o.Size}
	if c := o.Attributes.Checksum; c != nil {
		sum := sumsOf(c)
		out.ChecksumCRC32 = sum.crc32
		out.ChecksumCRC32C = sum.crc32c
		out.ChecksumCRC64NVME = sum.crc64nvme
		out.ChecksumSHA1 = sum.sha1
		out.ChecksumSHA256 = sum.sha256
		out.ChecksumType = types.ChecksumType(c.Type)
	}
	return out
}

// putRequest returns the request of an object that is uploaded.
func putRequest(r *request, in s3response.PutObjectInput) (object.PutRequest, error) {
	key, err := keyOf(in.Key)
	if err != nil {
		return object.PutRequest{}, err
	}
	conditions, err := writeConditions(in.IfMatch, in.IfNoneMatch)
	if err != nil {
		return object.PutRequest{}, err
	}
	attributes, err := headers{
		in.CacheControl, in.ContentDisposition, in.ContentEncoding, in.ContentLanguage, in.Expires, in.Metadata,
	}.attributes()
	if err != nil {
		return object.PutRequest{}, err
	}
	attributes.Tags, err = parseTags(text(in.Tagging))
	if err != nil {
		return object.PutRequest{}, err
	}
	tier, err := tierOf(string(r.http.Request.Header.Peek("X-Amz-Storage-Class")))
	if err != nil {
		return object.PutRequest{}, err
	}
	contentType, err := headerValue(in.ContentType)
	return object.PutRequest{
		Key: key, ContentType: contentType, Attributes: attributes, Tier: tier, Conditions: conditions, Origin: r.Origin,
	}, err
}

// tierOf returns the tier of a storage class, or "" for that of the bucket.
func tierOf(class string) (object.Tier, error) {
	switch types.StorageClass(class) {
	case "":
		return "", nil
	case types.StorageClassStandard, types.StorageClassReducedRedundancy, types.StorageClassIntelligentTiering:
		return object.Standard, nil
	case types.StorageClassStandardIa, types.StorageClassOnezoneIa:
		return object.InfrequentAccess, nil
	case types.StorageClassGlacierIr, types.StorageClassGlacier, types.StorageClassDeepArchive:
		return object.Archive, nil
	}
	return "", s3err.APIError{
		Code: "InvalidStorageClass", HTTPStatusCode: http.StatusBadRequest,
		Description: "The storage class you specified is not valid.",
	}
}

// writeConditions refuses what S3 does not implement for writes.
func writeConditions(ifMatch, ifNoneMatch *string) (object.Conditions, error) {
	c := object.Conditions{IfMatch: text(ifMatch), IfNoneMatch: text(ifNoneMatch)}
	if c.IfNoneMatch != "" && (c.IfNoneMatch != "*" || c.IfMatch != "") {
		return c, s3err.GetNotImplementedErr("If-None-Match", s3err.NmpAdditionalMessageIfNoneMatch)
	}
	return c, nil
}

// headers are the headers of a request that are stored with an object.
type headers struct {
	cacheControl, contentDisposition, contentEncoding, contentLanguage, expires *string
	metadata                                                                    map[string]string
}

// attributes returns a copy of headers. Forms can contain what a header cannot.
func (h headers) attributes() (a object.Attributes, err error) {
	for _, field := range []struct {
		to   *string
		from *string
	}{
		{&a.CacheControl, h.cacheControl},
		{&a.ContentDisposition, h.contentDisposition},
		{&a.ContentEncoding, h.contentEncoding},
		{&a.ContentLanguage, h.contentLanguage},
		{&a.Expires, h.expires},
	} {
		if *field.to, err = headerValue(field.from); err != nil {
			return a, err
		}
	}
	a.ContentEncoding = withoutChunked(a.ContentEncoding)
	for name, value := range h.metadata {
		if !metadataName.MatchString(name) {
			return a, invalidArgument("expected names of metadata that are names of headers")
		}
		if value, err = headerValue(&value); err != nil {
			return a, err
		}
		if a.Metadata == nil {
			a.Metadata = map[string]string{}
		}
		a.Metadata[strings.Clone(name)] = value
	}
	return a, nil
}

var metadataName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headerValue returns a copy of the value of a header.
func headerValue(value *string) (string, error) {
	v := text(value)
	if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) || !isText(v) {
		return "", invalidArgument("expected values of headers in UTF-8 without control characters")
	}
	return v, nil
}

// withoutChunked removes aws-chunked, which is the encoding of the request, not of the object.
func withoutChunked(encoding string) string {
	var kept []string
	for e := range strings.SplitSeq(encoding, ",") {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "aws-chunked") {
			kept = append(kept, e)
		}
	}
	return strings.Join(kept, ",")
}

// DeleteObject deletes an object. It succeeds if there is none.
func (g *gateway) DeleteObject(ctx context.Context, in *awss3.DeleteObjectInput) (*awss3.DeleteObjectOutput, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(in.Key)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(in.VersionId); err != nil {
		return nil, err
	}
	limited, cancel := g.limited(r)
	defer cancel()
	d := object.DeleteRequest{Keys: []string{key}, IfMatch: text(in.IfMatch), Origin: r.Origin}
	if _, err := g.index.Delete(limited, r.bucket, d); err != nil {
		return nil, g.apiError("delete object", err, missingIn(object.Conditions{IfMatch: d.IfMatch}))
	}
	return &awss3.DeleteObjectOutput{}, nil
}

// maxDelete is the maximum number of keys in one request, as in S3.
const maxDelete = 1000

// DeleteObjects deletes up to 1,000 objects in one transaction.
func (g *gateway) DeleteObjects(ctx context.Context, in *awss3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.DeleteResult{}, err
	}
	if len(in.Delete.Objects) > maxDelete {
		return s3response.DeleteResult{}, s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	var out s3response.DeleteResult
	d := object.DeleteRequest{Origin: r.Origin}
	for _, o := range in.Delete.Objects {
		key, err := deleteKey(o)
		if err != nil {
			out.Error = append(out.Error, s3err.ObjectDeleteError(o.Key, o.VersionId, err))
			continue
		}
		d.Keys = append(d.Keys, key)
		out.Deleted = append(out.Deleted, types.DeletedObject{Key: o.Key, VersionId: o.VersionId})
	}
	slices.Sort(d.Keys)
	d.Keys = slices.Compact(d.Keys)
	limited, cancel := g.limited(r)
	defer cancel()
	if len(d.Keys) > 0 {
		_, err = g.index.Delete(limited, r.bucket, d)
	}
	return out, g.apiError("delete objects", err, s3err.ErrNoSuchBucket)
}

func deleteKey(o types.ObjectIdentifier) (string, error) {
	if err := checkVersion(o.VersionId); err != nil {
		return "", err
	}
	if o.ETag != nil || o.Size != nil || o.LastModifiedTime != nil {
		return "", notImplemented("A condition for each object")
	}
	return keyOf(o.Key)
}
