package s3

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"steward/internal/object"
)

func (r *request) putObject() (any, error) {
	put, err := r.putRequest()
	if err != nil {
		return nil, err
	}
	body, err := r.upload("")
	if err != nil {
		return nil, err
	}
	put.Checksum = body.sum
	o, err := r.server.Index.Put(r.lasting(), r.bucket, put, body, body.size)
	if err != nil {
		return nil, err
	}
	header := r.w.Header()
	header.Set("Etag", quoted(o.ETag))
	setChecksum(header, o.Attributes.Checksum)
	return nil, nil
}

// putRequest builds a request to store an object from the headers.
func (r *request) putRequest() (object.PutRequest, error) {
	put := object.PutRequest{Key: r.key, Origin: r.origin()}
	var err error
	if put.Conditions, err = r.writeConditions(); err != nil {
		return put, err
	}
	if err := r.setAttributes(&put); err != nil {
		return put, err
	}
	put.Tier, err = tierOf(r.Header.Get("X-Amz-Storage-Class"))
	if err != nil {
		return put, err
	}
	put.Attributes.Tags, err = parseTags(r.Header.Get("X-Amz-Tagging"))
	return put, err
}

// tierOf returns a storage class's tier, or "" to use the bucket's.
func tierOf(class string) (object.Tier, error) {
	switch class {
	case "":
		return "", nil
	case "STANDARD", "REDUCED_REDUNDANCY", "INTELLIGENT_TIERING":
		return object.Standard, nil
	case "STANDARD_IA", "ONEZONE_IA":
		return object.InfrequentAccess, nil
	case "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE":
		return object.Archive, nil
	}
	return "", fail("InvalidStorageClass")
}

// writeConditions returns a write's conditions. It refuses those that S3 does not implement either.
func (r *request) writeConditions() (object.Conditions, error) {
	c := object.Conditions{IfMatch: r.Header.Get("If-Match"), IfNoneMatch: r.Header.Get("If-None-Match")}
	if c.IfNoneMatch != "" && (c.IfNoneMatch != "*" || c.IfMatch != "") {
		return c, notImplemented("If-None-Match with anything but *")
	}
	return c, nil
}

const metadataPrefix = "X-Amz-Meta-"

// maxMetadata caps an object's metadata, names and values together, in bytes. S3 has the same limit.
const maxMetadata = 2 << 10

// setAttributes copies the headers that we store with an object.
func (r *request) setAttributes(put *object.PutRequest) error {
	a := &put.Attributes
	for name, to := range map[string]*string{
		"Content-Type": &put.ContentType, "Cache-Control": &a.CacheControl, "Content-Disposition": &a.ContentDisposition,
		"Content-Encoding": &a.ContentEncoding, "Content-Language": &a.ContentLanguage, "Expires": &a.Expires,
	} {
		value := strings.Join(r.Header.Values(name), ", ")
		if err := checkHeaderValue(value); err != nil {
			return err
		}
		*to = value
	}
	a.ContentEncoding = withoutChunked(a.ContentEncoding)
	size := 0
	for name, values := range r.Header {
		suffix, ok := strings.CutPrefix(name, metadataPrefix)
		if !ok {
			continue
		}
		value := utf8Of(strings.Join(values, ","))
		if err := checkHeaderValue(value); err != nil {
			return err
		}
		if a.Metadata == nil {
			a.Metadata = map[string]string{}
		}
		if !httpguts.ValidHeaderFieldName(suffix) {
			return invalidArgument("expected names of metadata that are names of headers")
		}
		a.Metadata[strings.ToLower(suffix)] = value
		if size += len(suffix) + len(value); size > maxMetadata {
			return fail("MetadataTooLarge")
		}
	}
	return nil
}

// utf8Of returns a header's value in UTF-8. It takes anything else for ISO 8859-1.
func utf8Of(value string) string {
	if isText(value) {
		return value
	}
	runes := make([]rune, len(value))
	for i := range len(value) {
		runes[i] = rune(value[i])
	}
	return string(runes)
}

// checkHeaderValue refuses values that are not valid in a header. Forms and queries can contain them.
func checkHeaderValue(value string) error {
	if !httpguts.ValidHeaderFieldValue(value) || !isText(value) {
		return invalidArgument("expected values of headers in UTF-8 without control characters")
	}
	return nil
}

// withoutChunked removes aws-chunked, because it encodes the request and not the object.
func withoutChunked(value string) string {
	encodings := strings.Split(value, ",")
	kept := slices.DeleteFunc(encodings, func(e string) bool { return strings.EqualFold(strings.TrimSpace(e), "aws-chunked") })
	return strings.TrimSpace(strings.Join(kept, ","))
}

// deleteObject deletes an object. It succeeds if there is none.
func (r *request) deleteObject() (any, error) {
	if err := checkVersion(r.query.Get("versionId")); err != nil {
		return nil, err
	}
	d := object.DeleteRequest{Keys: []string{r.key}, IfMatch: r.Header.Get("If-Match"), Origin: r.origin()}
	_, err := r.server.Index.Delete(r.limited(), r.bucket, d)
	return nil, err
}

// deletion is the message that DeleteObjects takes.
type deletion struct {
	Quiet   bool
	Objects []struct {
		Key       string
		VersionID string `xml:"VersionId"`
		ETag      *string
		Size      *string
		Modified  *string `xml:"LastModifiedTime"`
	} `xml:"Object"`
}

type deletionResult struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ DeleteResult"`
	Deleted []deletedObject
	Errors  []deletionError `xml:"Error"`
}

type deletedObject struct {
	Key       string
	VersionID string `xml:"VersionId,omitempty"`
}

type deletionError struct {
	deletedObject
	Code, Message string
}

// maxDelete caps the keys in one request, as S3 does.
const maxDelete = 1000

// deleteObjects deletes up to 1,000 objects in one transaction.
func (r *request) deleteObjects() (any, error) {
	expected, err := r.expected()
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Content-Md5") == "" && expected == nil && r.Header.Get("X-Amz-Trailer") == "" {
		return nil, failf("InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
	}
	var out deletionResult
	err = r.message(func(text []byte) error {
		var in deletion
		if err := decodeXML(text, &in, "Delete", entries{"Object", maxDelete}); err != nil {
			return err
		}
		if len(in.Objects) == 0 {
			return fail("MalformedXML")
		}
		d := object.DeleteRequest{Origin: r.origin()}
		for _, o := range in.Objects {
			named := deletedObject{o.Key, o.VersionID}
			err := checkVersion(o.VersionID)
			if o.ETag != nil || o.Size != nil || o.Modified != nil {
				err = notImplemented("A condition for each object")
			}
			if err == nil {
				err = checkKey(o.Key)
			}
			if err != nil {
				f := r.failure(err)
				out.Errors = append(out.Errors, deletionError{named, f.code, f.text()})
				continue
			}
			d.Keys = append(d.Keys, o.Key)
			if !in.Quiet {
				out.Deleted = append(out.Deleted, named)
			}
		}
		slices.Sort(d.Keys)
		if d.Keys = slices.Compact(d.Keys); len(d.Keys) == 0 {
			return nil
		}
		_, err := r.server.Index.Delete(r.limited(), r.bucket, d)
		return err
	})
	return out, err
}

// maxDepth caps how deep a message's elements are nested. The ones we know have four levels.
const maxDepth = 8

// entries bounds how often a message may contain an element.
type entries struct {
	name  string
	limit int
}

// boundedTokens reads a message's tokens. It returns MalformedXML instead of more levels or entries than a
// message may have, because each takes many times its length once decoded.
type boundedTokens struct {
	d     *xml.Decoder
	left  entries
	depth int
}

// Token implements xml.TokenReader.
func (b *boundedTokens) Token() (xml.Token, error) {
	token, err := b.d.RawToken()
	switch t := token.(type) {
	case xml.StartElement:
		b.depth++
		if t.Name.Local == b.left.name {
			b.left.limit--
		}
		if b.depth > maxDepth || b.left.limit < 0 {
			return nil, fail("MalformedXML")
		}
	case xml.EndElement:
		b.depth--
	}
	return token, err
}

// decodeXML decodes a document with the given root element. It returns MalformedXML for any other, and for
// one with too many entries.
func decodeXML(text []byte, to any, root string, limit entries) error {
	d := xml.NewTokenDecoder(&boundedTokens{d: xml.NewDecoder(bytes.NewReader(text)), left: limit})
	for {
		token, err := d.Token()
		if err != nil {
			return fail("MalformedXML")
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local != root || d.DecodeElement(to, &start) != nil {
			return fail("MalformedXML")
		}
		break
	}
	for { // only space and comments may follow
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		text, _ := token.(xml.CharData)
		_, isElement := token.(xml.StartElement)
		if err != nil || isElement || len(bytes.TrimSpace(text)) > 0 {
			return fail("MalformedXML")
		}
	}
}
