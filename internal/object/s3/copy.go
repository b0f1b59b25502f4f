package s3

import (
	"cmp"
	"encoding/xml"
	"io"
	"net/url"
	"strconv"
	"strings"

	"steward/internal/object"
)

// source returns the object to copy, from the caller's bucket or a public one.
func (r *request) source() (object.Object, error) {
	encoded, version, _ := strings.Cut(r.Header.Get("X-Amz-Copy-Source"), "?versionId=")
	path, err := url.QueryUnescape(encoded)
	if err != nil {
		return object.Object{}, invalidArgument("Invalid copy source encoding.")
	}
	name, key, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok {
		return object.Object{}, invalidArgument("Invalid copy source bucket name")
	}
	b, err := r.named(name)
	if err != nil {
		return object.Object{}, err
	}
	if !r.owns(b) && !isPublic(b) {
		return object.Object{}, fail("AccessDenied")
	}
	if err := checkKey(key); err != nil {
		return object.Object{}, err
	}
	if err := checkVersion(version); err != nil {
		return object.Object{}, err
	}
	if owner := r.Header.Get("X-Amz-Source-Expected-Bucket-Owner"); owner != "" && owner != b.AccessKey {
		return object.Object{}, fail("AccessDenied")
	}
	o, err := r.objectOf(b, key)
	if err != nil {
		return o, err
	}
	if r.checkConditions("X-Amz-Copy-Source-", o) != nil {
		return o, fail("PreconditionFailed") // even if the source is merely not modified
	}
	return o, nil
}

// copyResult answers CopyObject and UploadPartCopy.
type copyResult struct {
	XMLName      xml.Name
	ETag         string
	LastModified string
	typedSums
}

func (r *request) copyObject() (any, error) {
	src, err := r.source()
	if err != nil {
		return nil, err
	}
	put, err := r.copyRequest(src)
	if err != nil {
		return nil, err
	}
	o, err := r.copy(src, put)
	if err != nil {
		return nil, err
	}
	return copyResult{
		XMLName: xml.Name{Space: namespace, Local: "CopyObjectResult"}, ETag: quoted(o.ETag),
		LastModified: formatTime(o.ModifiedAt.Std()), typedSums: typedSumsOf(o.Attributes.Checksum),
	}, nil
}

// replaces parses a directive. It reports false for COPY (keep the source's values) and true for REPLACE.
func (r *request) replaces(header string) (bool, error) {
	switch directive := r.Header.Get(header); directive {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	}
	return false, invalidArgument("Unknown directive in %s.", strings.ToLower(header))
}

// copyRequest returns the request for a copy. Headers and tags come from the source, or from the request if
// a directive says REPLACE.
func (r *request) copyRequest(src object.Object) (object.PutRequest, error) {
	put, err := r.putRequest()
	if err != nil {
		return put, err
	}
	replace, err := r.replaces("X-Amz-Metadata-Directive")
	if err != nil {
		return put, err
	}
	replaceTags, err := r.replaces("X-Amz-Tagging-Directive")
	if err != nil {
		return put, err
	}
	if src.Size > maxObject {
		return put, failf("InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: %d", int64(maxObject))
	}
	if src.BucketID == r.bucket.ID && src.Key == put.Key && !replace && !replaceTags && put.Tier == "" {
		return put, failf("InvalidRequest", "This copy request is illegal because it is trying to copy an object to itself without changing "+
			"the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	tags := put.Attributes.Tags
	if !replace {
		put.ContentType = src.ContentType
		put.Attributes = src.Attributes
	}
	put.Attributes.Tags = tags
	if !replaceTags {
		put.Attributes.Tags = src.Attributes.Tags
	}
	put.Attributes.Checksum = nil
	put.Attributes.PartChecksums = nil
	put.Event = object.EventCopy
	return put, nil
}

// copy copies an object with its checksum. A copy has no parts, so a checksum over parts does not fit it
// and must be replaced. We read the bytes to compute a new one in this case, or if the client asks for
// another algorithm.
func (r *request) copy(src object.Object, put object.PutRequest) (object.Object, error) {
	algorithm := strings.ToUpper(r.Header.Get("X-Amz-Checksum-Algorithm"))
	index := r.server.Index
	ontoItself := src.BucketID == r.bucket.ID && src.Key == put.Key
	if sum := src.Attributes.Checksum; sum != nil {
		algorithm = cmp.Or(algorithm, sum.Algorithm)
		if algorithm == sum.Algorithm && (ontoItself || sum.Type == fullObject) {
			put.Attributes.Checksum = sum
			return index.Copy(r.lasting(), src, r.bucket, put)
		}
	}
	if algorithm == "" {
		return index.Copy(r.lasting(), src, r.bucket, put)
	}
	body, err := r.hashed(src, 0, src.Size, algorithm)
	if err != nil {
		return object.Object{}, err
	}
	defer func() { _ = body.Close() }()
	put.Checksum = body.sum
	return index.Put(r.lasting(), r.bucket, put, body, src.Size)
}

// hashedObject reads from an object and computes a checksum as it goes.
type hashedObject struct {
	io.Reader
	io.Closer
	*checksummer
}

func (r *request) hashed(o object.Object, offset, length int64, algorithm string) (*hashedObject, error) {
	a, err := algorithmOf(algorithm)
	if err != nil {
		return nil, err
	}
	body, err := r.server.Blobs.Open(r.lasting(), o, offset, length)
	if err != nil {
		return nil, err
	}
	c := &checksummer{algorithm: a, hash: a.Hasher()}
	return &hashedObject{io.TeeReader(body, c), body, c}, nil
}

// uploadPartCopy copies a part from an object.
func (r *request) uploadPartCopy() (any, error) {
	number, err := r.partNumber()
	if err != nil {
		return nil, err
	}
	u, err := r.findUpload()
	if err != nil {
		return nil, err
	}
	src, err := r.source()
	if err != nil {
		return nil, err
	}
	part := object.PartRequest{Key: u.Key, UploadID: u.ID, Number: number}
	p, err := r.copyPart(u, part, src)
	if err != nil {
		return nil, err
	}
	return copyResult{
		XMLName: xml.Name{Space: namespace, Local: "CopyPartResult"}, ETag: quoted(p.ETag),
		LastModified: formatTime(p.ModifiedAt.Std()), typedSums: typedSums{sums: sumsOf(p.Checksum)},
	}, nil
}

// copyPart copies a part. It reads the bytes if the upload needs a checksum for each part.
func (r *request) copyPart(u object.Upload, part object.PartRequest, src object.Object) (object.Part, error) {
	offset, length, err := copyRange(r.Header.Get("X-Amz-Copy-Source-Range"), src.Size)
	if err != nil {
		return object.Part{}, err
	}
	c := u.Attributes.Checksum
	if c == nil {
		return r.server.Uploads.CopyPart(r.lasting(), r.bucket, part, object.Range{Object: src, Offset: offset, Length: length})
	}
	body, err := r.hashed(src, offset, length, c.Algorithm)
	if err != nil {
		return object.Part{}, err
	}
	defer func() { _ = body.Close() }()
	part.Checksum = body.sum
	return r.server.Uploads.PutPart(r.lasting(), r.bucket, part, body, length)
}

// copyRange parses the source's range: bytes=FIRST-LAST, with both inside the source.
func copyRange(header string, size int64) (offset, length int64, err error) {
	if header == "" {
		header = "bytes=0-" + strconv.FormatInt(max(size-1, 0), 10)
		if size == 0 {
			return 0, 0, nil
		}
	}
	rest, ok := strings.CutPrefix(header, "bytes=")
	first, last, isRange := strings.Cut(rest, "-")
	from, fromErr := strconv.ParseUint(first, 10, 63)
	to, toErr := strconv.ParseUint(last, 10, 63)
	switch {
	case !ok || !isRange || fromErr != nil || toErr != nil || from > to:
		return 0, 0, invalidArgument("The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the " +
			"zero-based offsets of the first and last bytes to copy")
	case int64(to) >= size:
		return 0, 0, failf("InvalidRange", "Range specified is not valid for source object of size: %d", size)
	case int64(to-from) >= maxObject:
		return 0, 0, failf("InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: %d", int64(maxObject))
	}
	return int64(from), int64(to-from) + 1, nil
}
