package s3

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/object"
)

// CreateMultipartUpload starts an upload.
func (g *gateway) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.InitiateMultipartUploadResult{}, err
	}
	put, err := putRequest(r, s3response.PutObjectInput{
		Key: in.Key, ContentType: in.ContentType, CacheControl: in.CacheControl, ContentDisposition: in.ContentDisposition,
		ContentEncoding: in.ContentEncoding, ContentLanguage: in.ContentLanguage, Expires: in.Expires, Metadata: in.Metadata,
		Tagging: in.Tagging,
	})
	if err != nil {
		return s3response.InitiateMultipartUploadResult{}, err
	}
	if err := checkAlgorithm(in.ChecksumAlgorithm); err != nil {
		return s3response.InitiateMultipartUploadResult{}, err
	}
	if in.ChecksumAlgorithm != "" {
		put.Attributes.Checksum = &object.Checksum{
			Algorithm: strings.Clone(string(in.ChecksumAlgorithm)), Type: strings.Clone(string(in.ChecksumType)),
		}
	}
	limited, cancel := g.limited(r)
	defer cancel()
	u, err := g.uploads.Create(limited, r.bucket, put)
	if err != nil {
		return s3response.InitiateMultipartUploadResult{}, g.apiError("create upload", err, s3err.ErrNoSuchBucket)
	}
	return s3response.InitiateMultipartUploadResult{Bucket: r.bucket.Name, Key: u.Key, UploadId: u.ID}, nil
}

// upload returns an upload of the caller's bucket.
func (g *gateway) upload(ctx context.Context, bucket, key, id *string) (*request, object.Upload, error) {
	r, err := g.begin(ctx, toWrite, bucket)
	if err != nil {
		return nil, object.Upload{}, err
	}
	name, err := keyOf(key)
	if err != nil {
		return nil, object.Upload{}, err
	}
	uploadID := text(id)
	if !isText(uploadID) {
		return nil, object.Upload{}, s3err.GetNoSuchUploadErr(uploadID)
	}
	limited, cancel := g.limited(r)
	defer cancel()
	u, err := g.uploads.Get(limited, r.bucket, name, uploadID)
	return r, u, g.apiError("read upload", err, s3err.ErrNoSuchUpload)
}

// UploadPart stores a part. It has a checksum if the upload has, even if the client sends none.
func (g *gateway) UploadPart(ctx context.Context, in *awss3.UploadPartInput) (*awss3.UploadPartOutput, error) {
	r, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(in.ContentLength)
	if err != nil {
		return nil, err
	}
	body := &uploadReader{r: in.Body, conn: r.conn}
	sent := sums{in.ChecksumCRC32, in.ChecksumCRC32C, in.ChecksumCRC64NVME, in.ChecksumSHA1, in.ChecksumSHA256}
	sum, err := newChecksummer(body, partAlgorithm(u, in.ChecksumAlgorithm), r.expected(sent))
	if err != nil {
		return nil, err
	}
	if c := u.Attributes.Checksum; c != nil && sum.algorithm != types.ChecksumAlgorithm(c.Algorithm) {
		return nil, s3err.GetChecksumTypeMismatchErr(types.ChecksumAlgorithm(c.Algorithm), sum.algorithm)
	}
	part := object.PartRequest{Key: u.Key, UploadID: u.ID, Number: int(*in.PartNumber), Checksum: sum.sum}
	p, err := g.uploads.PutPart(r, r.bucket, part, sum, size)
	if err != nil {
		body.drain()
		return nil, g.apiError("store part", err, s3err.ErrNoSuchUpload)
	}
	c := sumsOf(p.Checksum)
	return &awss3.UploadPartOutput{
		ETag: quoted(p.ETag), ChecksumCRC32: c.crc32, ChecksumCRC32C: c.crc32c, ChecksumCRC64NVME: c.crc64nvme,
		ChecksumSHA1: c.sha1, ChecksumSHA256: c.sha256,
	}, nil
}

// partAlgorithm returns the algorithm of a part for which the client sends no checksum.
func partAlgorithm(u object.Upload, sent types.ChecksumAlgorithm) types.ChecksumAlgorithm {
	if c := u.Attributes.Checksum; c != nil {
		return types.ChecksumAlgorithm(c.Algorithm)
	}
	return sent
}

// UploadPartCopy stores a part that is copied from an object.
func (g *gateway) UploadPartCopy(ctx context.Context, in *awss3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	r, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return s3response.CopyPartResult{}, err
	}
	src, err := g.source(ctx, in.CopySource, in.ExpectedSourceBucketOwner, conditions{
		in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince,
	})
	if err != nil {
		return s3response.CopyPartResult{}, err
	}
	offset, length, err := backend.ParseCopySourceRange(src.Size, text(in.CopySourceRange))
	if err != nil {
		return s3response.CopyPartResult{}, err
	}
	length = min(length, src.Size-offset)
	if offset < 0 || length > maxObject {
		return s3response.CopyPartResult{}, s3err.GetCopySourceObjectTooLargeErr(maxObject)
	}
	part := object.PartRequest{Key: u.Key, UploadID: u.ID, Number: int(*in.PartNumber)}
	p, err := g.copyPart(r, u, part, object.Range{Object: src, Offset: offset, Length: length})
	if err != nil {
		return s3response.CopyPartResult{}, g.apiError("copy part", err, s3err.ErrNoSuchUpload)
	}
	c := sumsOf(p.Checksum)
	return s3response.CopyPartResult{
		ETag: quoted(p.ETag), LastModified: p.ModifiedAt.Std(), ChecksumCRC32: c.crc32, ChecksumCRC32C: c.crc32c,
		ChecksumCRC64NVME: c.crc64nvme, ChecksumSHA1: c.sha1, ChecksumSHA256: c.sha256,
	}, nil
}

// copyPart copies a part. If it needs a checksum, the bytes are read here.
func (g *gateway) copyPart(r *request, u object.Upload, part object.PartRequest, src object.Range) (object.Part, error) {
	algorithm := partAlgorithm(u, "")
	if algorithm == "" {
		return g.uploads.CopyPart(r, r.bucket, part, src)
	}
	body, err := g.blobs.Open(r, src.Object, src.Offset, src.Length)
	if err != nil {
		return object.Part{}, err
	}
	defer body.Close()
	hash, err := newHash(body, algorithm)
	if err != nil {
		return object.Part{}, err
	}
	part.Checksum = hash.sum
	return g.uploads.PutPart(r, r.bucket, part, hash, src.Length)
}

// CompleteMultipartUpload makes an object of the parts of an upload.
func (g *gateway) CompleteMultipartUpload(ctx context.Context, in *awss3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	var out s3response.CompleteMultipartUploadResult
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return out, "", err
	}
	complete, err := completeRequest(r, in)
	if err != nil {
		return out, "", err
	}
	limited, cancel := g.limited(r)
	defer cancel()
	o, err := g.uploads.Complete(limited, r.bucket, complete)
	if err != nil {
		return out, "", g.apiError("complete upload", err, missingIn(complete.Conditions))
	}
	out.Bucket = &r.bucket.Name
	out.Key = &o.Key
	out.ETag = quoted(o.ETag)
	if c := o.Attributes.Checksum; c != nil {
		sum := sumsOf(c)
		out.ChecksumCRC32 = sum.crc32
		out.ChecksumCRC32C = sum.crc32c
		out.ChecksumCRC64NVME = sum.crc64nvme
		out.ChecksumSHA1 = sum.sha1
		out.ChecksumSHA256 = sum.sha256
		t := types.ChecksumType(c.Type)
		out.ChecksumType = &t
	}
	return out, "", nil
}

func completeRequest(r *request, in *awss3.CompleteMultipartUploadInput) (object.CompleteRequest, error) {
	key, err := keyOf(in.Key)
	if err != nil {
		return object.CompleteRequest{}, err
	}
	conditions, err := writeConditions(in.IfMatch, in.IfNoneMatch)
	if err != nil {
		return object.CompleteRequest{}, err
	}
	complete := object.CompleteRequest{Key: key, UploadID: text(in.UploadId), Conditions: conditions, Size: -1, Origin: r.Origin}
	if in.MpuObjectSize != nil {
		complete.Size = *in.MpuObjectSize
	}
	if len(in.MultipartUpload.Parts) > object.MaxParts {
		return complete, s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	for _, p := range in.MultipartUpload.Parts {
		if p.PartNumber == nil || p.ETag == nil {
			return complete, s3err.GetAPIError(s3err.ErrMalformedXML)
		}
		sum := sums{p.ChecksumCRC32, p.ChecksumCRC32C, p.ChecksumCRC64NVME, p.ChecksumSHA1, p.ChecksumSHA256}
		complete.Parts = append(complete.Parts, object.CompletedPart{
			Number: int(*p.PartNumber), ETag: strings.Trim(*p.ETag, `"`), Checksum: sum.value(),
		})
	}
	sent := sums{in.ChecksumCRC32, in.ChecksumCRC32C, in.ChecksumCRC64NVME, in.ChecksumSHA1, in.ChecksumSHA256}
	expected := sent.expected()
	wanted := types.ChecksumType(strings.Clone(string(in.ChecksumType)))
	complete.Checksum = func(u object.Upload, parts []object.Part) (*object.Checksum, error) {
		if c := u.Attributes.Checksum; wanted != "" && (c == nil || c.Type != string(wanted)) {
			return nil, s3err.GetChecksumTypeMismatchOnMpErr(wanted)
		}
		return combined(u, parts, expected)
	}
	return complete, nil
}

// AbortMultipartUpload removes an upload and its parts.
func (g *gateway) AbortMultipartUpload(ctx context.Context, in *awss3.AbortMultipartUploadInput) error {
	r, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return err
	}
	if in.IfMatchInitiatedTime != nil && in.IfMatchInitiatedTime.Unix() != u.CreatedAt.Std().Unix() {
		return s3err.GetPreconditionFailedErr(s3err.ConditionIfMatchInitiatedTime)
	}
	limited, cancel := g.limited(r)
	defer cancel()
	return g.apiError("abort upload", g.uploads.Abort(limited, r.bucket, u.Key, u.ID), s3err.ErrNoSuchUpload)
}

// markerOf returns the number of a part after which a list continues.
func markerOf(marker string) (int, error) {
	if marker == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(marker)
	if err != nil || n < 0 {
		return 0, invalidArgument("expected a number of a part")
	}
	return min(n, object.MaxParts), nil
}

// ListParts lists the parts of an upload.
func (g *gateway) ListParts(ctx context.Context, in *awss3.ListPartsInput) (s3response.ListPartsResult, error) {
	r, u, err := g.upload(ctx, in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return s3response.ListPartsResult{}, err
	}
	after, err := markerOf(text(in.PartNumberMarker))
	if err != nil {
		return s3response.ListPartsResult{}, err
	}
	limited, cancel := g.limited(r)
	defer cancel()
	list := object.PartsRequest{Key: u.Key, UploadID: u.ID, After: after, Limit: int(*in.MaxParts)}
	page, err := g.uploads.Parts(limited, r.bucket, list)
	if err != nil {
		return s3response.ListPartsResult{}, g.apiError("list parts", err, s3err.ErrNoSuchUpload)
	}
	owner := s3response.Owner{ID: r.bucket.AccessKey, DisplayName: r.bucket.AccessKey}
	out := s3response.ListPartsResult{
		Bucket: r.bucket.Name, Key: u.Key, UploadID: u.ID, Initiator: s3response.Initiator(owner), Owner: owner,
		StorageClass: storageClasses[u.Tier], PartNumberMarker: after, MaxParts: int(*in.MaxParts), IsTruncated: page.Truncated,
	}
	if c := u.Attributes.Checksum; c != nil {
		out.ChecksumAlgorithm = types.ChecksumAlgorithm(c.Algorithm)
		out.ChecksumType = types.ChecksumType(c.Type)
	}
	for _, p := range page.Parts {
		out.Parts = append(out.Parts, listedPart(p))
		out.NextPartNumberMarker = p.Number
	}
	return out, nil
}

func listedPart(p object.Part) s3response.Part {
	c := sumsOf(p.Checksum)
	return s3response.Part{
		PartNumber: p.Number, Size: p.Size, ETag: *quoted(p.ETag), LastModified: p.ModifiedAt.Std(), ChecksumCRC32: c.crc32,
		ChecksumCRC32C: c.crc32c, ChecksumCRC64NVME: c.crc64nvme, ChecksumSHA1: c.sha1, ChecksumSHA256: c.sha256,
	}
}

// ListMultipartUploads lists the uploads of a bucket.
func (g *gateway) ListMultipartUploads(ctx context.Context, in *awss3.ListMultipartUploadsInput) (s3response.ListMultipartUploadsResult, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.ListMultipartUploadsResult{}, err
	}
	e, err := encodingOf(r)
	if err != nil {
		return s3response.ListMultipartUploadsResult{}, err
	}
	l := uploadList{
		prefix: text(in.Prefix), delimiter: text(in.Delimiter), limit: int(*in.MaxUploads),
		key: text(in.KeyMarker), id: text(in.UploadIdMarker),
	}
	out := s3response.ListMultipartUploadsResult{
		Bucket: r.bucket.Name, KeyMarker: *e.encode(l.key), UploadIDMarker: l.id, Delimiter: *e.encode(l.delimiter),
		Prefix: *e.encode(l.prefix), EncodingType: string(e), MaxUploads: l.limit,
	}
	limited, cancel := g.limited(r)
	defer cancel()
	if err := l.read(limited, g.uploads, r.bucket); err != nil {
		return out, g.apiError("list uploads", err, s3err.ErrNoSuchBucket)
	}
	out.IsTruncated = l.truncated
	if l.truncated {
		out.NextKeyMarker = *e.encode(l.key)
		out.NextUploadIDMarker = l.id
	}
	for _, p := range l.prefixes {
		out.CommonPrefixes = append(out.CommonPrefixes, s3response.CommonPrefix{Prefix: *e.encode(p)})
	}
	for _, u := range l.uploads {
		out.Uploads = append(out.Uploads, listedUpload(e, r.bucket, u))
	}
	return out, nil
}

func listedUpload(e encoding, b *object.Bucket, u object.Upload) s3response.Upload {
	owner := s3response.Owner{ID: b.AccessKey, DisplayName: b.AccessKey}
	out := s3response.Upload{
		Key: *e.encode(u.Key), UploadID: u.ID, Initiator: s3response.Initiator(owner), Owner: owner,
		StorageClass: storageClasses[u.Tier], Initiated: u.CreatedAt.Std(),
	}
	if c := u.Attributes.Checksum; c != nil {
		out.ChecksumAlgorithm = types.ChecksumAlgorithm(c.Algorithm)
		out.ChecksumType = types.ChecksumType(c.Type)
	}
	return out
}

// uploadList is a list of uploads under way, with common prefixes.
type uploadList struct {
	prefix, delimiter string
	limit             int
	key, id           string // of the upload after which the list continues

	uploads   []object.Upload
	prefixes  []string
	truncated bool
}

// read reads a page. A common prefix is one entry, and its uploads are skipped.
func (l *uploadList) read(ctx context.Context, uploads *object.Uploads, b *object.Bucket) error {
	for _, s := range []string{l.prefix, l.delimiter, l.key, l.id} {
		if !isText(s) || len(s) > object.MaxKey {
			return invalidArgument("expected a prefix, delimiter and markers of at most 1024 bytes of UTF-8")
		}
	}
	for len(l.uploads)+len(l.prefixes) < l.limit {
		page, err := uploads.List(ctx, b, object.UploadsRequest{
			Prefix: l.prefix, AfterKey: l.key, AfterID: l.id, Limit: l.limit - len(l.uploads) - len(l.prefixes),
		})
		if err != nil {
			return err
		}
		for _, u := range page.Uploads {
			if !l.add(u) {
				page.Truncated = true
				break
			}
		}
		l.truncated = page.Truncated
		if !page.Truncated || len(page.Uploads) == 0 {
			return nil
		}
	}
	return nil
}

// add adds an upload or its common prefix. It reports false if the list continues elsewhere than
// after the upload.
func (l *uploadList) add(u object.Upload) bool {
	rest := u.Key[len(l.prefix):]
	at := strings.Index(rest, l.delimiter)
	if l.delimiter == "" || at < 0 {
		l.uploads = append(l.uploads, u)
		l.key = u.Key
		l.id = u.ID
		return true
	}
	common := u.Key[:len(l.prefix)+at+len(l.delimiter)]
	if len(l.prefixes) == 0 || l.prefixes[len(l.prefixes)-1] != common {
		l.prefixes = append(l.prefixes, common)
	}
	l.key = common + strings.Repeat(string(utf8.MaxRune), max(0, (object.MaxKey-len(common))/utf8.UTFMax))
	l.id = ""
	return false
}
