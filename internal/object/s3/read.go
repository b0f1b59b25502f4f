package s3

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/object"
)

// storageClasses maps tiers to S3 names. Archive becomes GLACIER_IR, because clients can read it at once.
var storageClasses = map[object.Tier]string{
	object.Standard:         "STANDARD",
	object.InfrequentAccess: "STANDARD_IA",
	object.Archive:          "GLACIER_IR",
}

// content is a response with an object's bytes.
type content struct {
	body   io.ReadCloser
	length int64
}

// smallContent is the size up to which copying bytes beats letting the kernel send the file.
const smallContent = 16 << 10

func (r *request) sendContent(c *content) {
	defer c.body.Close()
	r.w.WriteHeader(cmp.Or(r.operation.status, http.StatusOK))
	var w io.Writer = r.w
	if c.length <= smallContent {
		w = struct{ io.Writer }{r.w}
	}
	if _, err := io.Copy(w, c.body); err != nil {
		r.server.Log.Debug("s3: a response ended early", "request_id", r.meta.ID, "error", err)
	}
}

// span is the range that a request reads.
type span struct {
	offset, length int64
	partial        bool
	parts          int // how many parts the object has, if the request asks for one
}

// spanOf returns the span for a request's Range header or partNumber parameter.
func (r *request) spanOf(o object.Object) (span, error) {
	whole := span{length: o.Size}
	header := r.Header.Get("Range")
	if r.query.Has("partNumber") {
		if header != "" {
			return whole, failf("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
		}
		number, err := r.partNumber()
		if err != nil {
			return whole, err
		}
		return partSpan(o, number)
	}
	rest, ok := strings.CutPrefix(header, "bytes=")
	first, last, isRange := strings.Cut(rest, "-")
	if !ok || !isRange || strings.ContainsAny(rest, ",") || !isCurrent(r.Header.Get("If-Range"), o) {
		return whole, nil // ignore the header
	}
	from, fromErr := strconv.ParseUint(first, 10, 63)
	to, toErr := strconv.ParseUint(last, 10, 63)
	offset, end := int64(from), min(int64(to), o.Size-1)
	switch {
	case first == "" && toErr == nil: // the last bytes
		if to == 0 {
			return whole, fail("InvalidRange")
		}
		if o.Size == 0 {
			return whole, nil
		}
		offset = max(0, o.Size-int64(to))
		end = o.Size - 1
	case fromErr != nil, last != "" && toErr != nil, last != "" && from > to:
		return whole, nil
	case offset >= o.Size:
		return whole, fail("InvalidRange")
	case last == "":
		end = o.Size - 1
	}
	return span{offset: offset, length: end - offset + 1, partial: true}, nil
}

// isCurrent reports whether an If-Range header, which may be empty, names the object. The client has the
// beginning of another one otherwise, and must not append this one's end.
func isCurrent(ifRange string, o object.Object) bool {
	return ifRange == "" || ifRange == quoted(o.ETag) || ifRange == lastModified(o)
}

func lastModified(o object.Object) string { return o.ModifiedAt.Std().UTC().Format(http.TimeFormat) }

// partNumber parses the query's part number.
func (r *request) partNumber() (int, error) {
	n, err := strconv.Atoi(r.query.Get("partNumber"))
	if err != nil || n < 1 || n > object.MaxParts {
		return 0, invalidArgument("Part number must be an integer between 1 and %d, inclusive", object.MaxParts)
	}
	return n, nil
}

// partSpan returns a part's span. An object that was not uploaded in parts has one part.
func partSpan(o object.Object, number int) (span, error) {
	sizes := []int64{o.Size}
	if o.Multipart() {
		sizes = o.PartSizes()
	}
	if number > len(sizes) {
		return span{}, fail("InvalidPartNumber")
	}
	s := span{length: sizes[number-1], partial: o.Size > 0}
	for _, size := range sizes[:number-1] {
		s.offset += size
	}
	if o.Multipart() {
		s.parts = len(sizes)
	}
	return s, nil
}

// checkConditions compares an object with a read's conditions, or, with the prefix X-Amz-Copy-Source-, with
// those on a copy's source. It returns NotModified or PreconditionFailed. Header times have no fractions of
// a second, so we drop the object's. A condition on the ETag overrides one on the time, and we ignore times
// that we cannot parse.
func (r *request) checkConditions(prefix string, o object.Object) error {
	modified := o.ModifiedAt.Std().Truncate(time.Second)
	if etag := r.Header.Get(prefix + "If-Match"); etag != "" {
		if !object.Matches(etag, o.ETag) {
			return fail("PreconditionFailed")
		}
	} else if t, err := http.ParseTime(r.Header.Get(prefix + "If-Unmodified-Since")); err == nil && modified.After(t) {
		return fail("PreconditionFailed")
	}
	if etag := r.Header.Get(prefix + "If-None-Match"); etag != "" {
		if object.Matches(etag, o.ETag) {
			return fail("NotModified")
		}
	} else if t, err := http.ParseTime(r.Header.Get(prefix + "If-Modified-Since")); err == nil && !modified.After(t) {
		return fail("NotModified")
	}
	return nil
}

// find returns the object that a request names.
func (r *request) find() (object.Object, error) {
	if err := checkVersion(r.query.Get("versionId")); err != nil {
		return object.Object{}, err
	}
	return r.objectOf(r.bucket, r.key)
}

func (r *request) objectOf(b *object.Bucket, key string) (object.Object, error) {
	return r.server.Index.Get(r.limited(), b, key)
}

// checkVersion refuses versions other than null, the only one that objects have.
func checkVersion(version string) error {
	if version != "" && version != "null" {
		return invalidArgument("Invalid version id specified")
	}
	return nil
}

// head sets an object's headers and returns the span that the request reads.
func (r *request) head() (object.Object, span, error) {
	o, err := r.find()
	if err != nil {
		return o, span{}, err
	}
	r.isObject = true
	header := r.w.Header()
	a := o.Attributes
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	set("Etag", quoted(o.ETag))
	set("Last-Modified", lastModified(o))
	set("Cache-Control", a.CacheControl)
	if c := r.bucket.Config.CacheControl; c != nil && a.CacheControl == "" {
		set("Cache-Control", *c)
	}
	set("Expires", a.Expires)
	if err := r.checkConditions("", o); err != nil {
		return o, span{}, err
	}
	s, err := r.spanOf(o)
	if err != nil {
		if f := r.failure(err); f.status() == http.StatusRequestedRangeNotSatisfiable {
			set("Content-Range", fmt.Sprintf("bytes */%d", o.Size))
		}
		return o, s, err
	}
	set("Accept-Ranges", "bytes")
	set("Content-Disposition", a.ContentDisposition)
	set("Content-Encoding", a.ContentEncoding)
	set("Content-Language", a.ContentLanguage)
	set("Content-Length", strconv.FormatInt(s.length, 10))
	set("Content-Type", "binary/octet-stream")
	set("Content-Type", o.ContentType)
	set("X-Amz-Storage-Class", storageClasses[o.Tier])
	if s.partial {
		r.operation.status = http.StatusPartialContent
		set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", s.offset, s.offset+s.length-1, o.Size))
	}
	if s.parts > 0 {
		set("X-Amz-Mp-Parts-Count", strconv.Itoa(s.parts))
	}
	if n := len(a.Tags); n > 0 {
		set("X-Amz-Tagging-Count", strconv.Itoa(n))
	}
	for name, value := range a.Metadata {
		header[strings.ToLower(metadataPrefix+name)] = []string{mime.BEncoding.Encode("UTF-8", value)} // ASCII stays as it is
	}
	if strings.EqualFold(r.Header.Get("X-Amz-Checksum-Mode"), "ENABLED") && !s.partial {
		setChecksum(header, a.Checksum)
	}
	return o, s, r.override()
}

// describing lists the headers of HTTP that describe an object. Clients store them with it.
var describing = []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Expires"}

// override replaces headers by those that a signed request's query asks for.
func (r *request) override() error {
	for _, name := range describing {
		value := r.query.Get("response-" + strings.ToLower(name))
		if value == "" {
			continue
		}
		if r.caller == nil {
			return failf("InvalidRequest", "Request specific response headers cannot be used for anonymous GET requests.")
		}
		if err := checkHeaderValue(value); err != nil {
			return err
		}
		r.w.Header().Set(name, value)
	}
	return nil
}

func quoted(etag string) string { return `"` + etag + `"` }

func (r *request) headObject() (any, error) {
	_, _, err := r.head()
	return nil, err
}

func (r *request) getObject() (any, error) {
	o, s, err := r.head()
	if err != nil {
		return nil, err
	}
	body, err := r.server.Blobs.Open(r.Context(), o, s.offset, s.length)
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	return &content{body, s.length}, nil
}

// attributesDocument answers GetObjectAttributes.
type attributesDocument struct {
	XMLName      xml.Name     `xml:"http://s3.amazonaws.com/doc/2006-03-01/ GetObjectAttributesResponse"`
	ETag         string       `xml:",omitempty"`
	Checksum     *typedSums   `xml:",omitempty"`
	ObjectParts  *objectParts `xml:",omitempty"`
	StorageClass string       `xml:",omitempty"`
	ObjectSize   *int64       `xml:",omitempty"`
}

type objectParts struct {
	PartsCount           int
	PartNumberMarker     int
	NextPartNumberMarker int
	MaxParts             int
	IsTruncated          bool
	Parts                []attributePart `xml:"Part"`
}

type attributePart struct {
	sums
	PartNumber int
	Size       int64
}

// getObjectAttributes returns the attributes that the client asks for.
func (r *request) getObjectAttributes() (any, error) {
	asked := map[string]bool{}
	for _, name := range strings.FieldsFunc(strings.Join(r.Header.Values("X-Amz-Object-Attributes"), ","), isSeparator) {
		if !slices.Contains([]string{"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"}, name) {
			return nil, invalidArgument("Invalid attribute name specified.")
		}
		asked[name] = true
	}
	if len(asked) == 0 {
		return nil, failf("InvalidRequest", "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty")
	}
	o, err := r.find()
	if err != nil {
		return nil, err
	}
	r.w.Header().Set("Last-Modified", lastModified(o))
	out := attributesDocument{}
	if asked["ETag"] {
		out.ETag = o.ETag
	}
	if c := o.Attributes.Checksum; asked["Checksum"] && c != nil {
		out.Checksum = new(typedSumsOf(c))
	}
	if asked["StorageClass"] {
		out.StorageClass = storageClasses[o.Tier]
	}
	if asked["ObjectSize"] {
		out.ObjectSize = &o.Size
	}
	if asked["ObjectParts"] && o.Multipart() {
		out.ObjectParts, err = r.objectParts(o)
	}
	return out, err
}

// objectParts returns an object's parts. We list them even without checksums, unlike AWS.
func (r *request) objectParts(o object.Object) (*objectParts, error) {
	after, err := numberOf(r.Header.Get("X-Amz-Part-Number-Marker"), "x-amz-part-number-marker", 0, object.MaxParts)
	if err != nil {
		return nil, err
	}
	limit, err := numberOf(r.Header.Get("X-Amz-Max-Parts"), "x-amz-max-parts", maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	sizes := o.PartSizes()
	out := &objectParts{PartsCount: len(sizes), PartNumberMarker: after, MaxParts: limit}
	for i := after; i < len(sizes) && i < after+limit; i++ {
		part := attributePart{PartNumber: i + 1, Size: sizes[i]}
		if c := o.Attributes.Checksum; c != nil && i < len(o.Attributes.PartChecksums) {
			part.sums = sumsOf(&object.Checksum{Algorithm: c.Algorithm, Value: o.Attributes.PartChecksums[i]})
		}
		out.Parts = append(out.Parts, part)
	}
	out.NextPartNumberMarker = after + len(out.Parts)
	out.IsTruncated = out.NextPartNumberMarker < len(sizes)
	return out, nil
}
