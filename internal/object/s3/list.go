package s3

import (
	"encoding/base64"
	"encoding/xml"
	"strconv"
	"strings"

	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
)

// maxPage caps a page's entries, and maxListing the total size of its keys in bytes.
const (
	maxPage    = 1000
	maxListing = 512 << 10
)

// numberOf parses a number that a client sends. It returns def if there is none, and most at the most.
func numberOf(sent, name string, def, most int) (int, error) {
	if sent == "" {
		return def, nil
	}
	n, err := strconv.Atoi(sent)
	if err != nil || n < 0 {
		return 0, invalidArgument("Argument %s must be an integer between 0 and 2147483647", name)
	}
	return min(n, most), nil
}

// checkTexts refuses texts that no key can contain.
func checkTexts(texts ...string) error {
	for _, s := range texts {
		if !isText(s) || len(s) > object.MaxKey {
			return invalidArgument("expected a prefix, delimiter and markers of at most %d bytes of UTF-8", object.MaxKey)
		}
	}
	return nil
}

// list returns one page. It halves the limit until the keys fit.
func (r *request) list(l object.ListRequest) (object.ListPage, error) {
	if err := checkTexts(l.Prefix, l.Delimiter, l.After); err != nil || l.Limit == 0 {
		return object.ListPage{}, err
	}
	ctx := r.limited()
	for {
		page, err := r.server.Index.List(ctx, r.bucket, l)
		if err != nil || sizeOfKeys(page) <= maxListing || l.Limit == 1 {
			return page, err
		}
		l.Limit /= 2
	}
}

func sizeOfKeys(page object.ListPage) (size int) {
	for _, o := range page.Objects {
		size += len(o.Key)
	}
	for _, p := range page.Prefixes {
		size += len(p)
	}
	return size
}

// encoding says how a list writes its keys: verbatim, or URL-encoded to keep characters that XML cannot
// express.
type encoding string

// encoding returns the encoding that the client asks for.
func (r *request) encoding() (encoding, error) {
	switch e := r.query.Get("encoding-type"); {
	case e == "":
		return "", nil
	case strings.EqualFold(e, "url"):
		return "url", nil
	}
	return "", invalidArgument("expected the encoding type url")
}

func (e encoding) encode(s string) string {
	if e != "" {
		return sigv4.Escape(s)
	}
	return s
}

// listing answers ListObjects and ListObjectsV2.
type listing struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	Marker                *string `xml:",omitempty"`
	NextMarker            string  `xml:",omitempty"`
	ContinuationToken     *string `xml:",omitempty"`
	NextContinuationToken string  `xml:",omitempty"`
	StartAfter            string  `xml:",omitempty"`
	KeyCount              *int    `xml:",omitempty"`
	MaxKeys               int
	Delimiter             string   `xml:",omitempty"`
	EncodingType          encoding `xml:",omitempty"`
	IsTruncated           bool
	Contents              []listedObject
	CommonPrefixes        []commonPrefix
}

type listedObject struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
	checksumKind
	Owner *owner `xml:",omitempty"`
}

type commonPrefix struct{ Prefix string }

// listObjects lists a bucket: with continuation tokens in version 2, with markers in version 1.
func (r *request) listObjects() (any, error) {
	e, err := r.encoding()
	if err != nil {
		return nil, err
	}
	limit, err := numberOf(r.query.Get("max-keys"), "max-keys", maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	l := object.ListRequest{Prefix: r.query.Get("prefix"), Delimiter: r.query.Get("delimiter"), Limit: limit}
	out := listing{
		Name: r.bucket.Name, Prefix: e.encode(l.Prefix), Delimiter: e.encode(l.Delimiter), MaxKeys: limit, EncodingType: e,
	}
	second := r.query.Get("list-type") == "2"
	withOwner := !second || r.query.Get("fetch-owner") == "true"
	if second {
		startAfter := r.query.Get("start-after")
		l.After = startAfter
		out.StartAfter = e.encode(startAfter)
		if r.query.Has("continuation-token") {
			token := r.query.Get("continuation-token")
			out.ContinuationToken = &token
			after, err := base64.RawURLEncoding.DecodeString(token)
			if err != nil {
				return nil, invalidArgument("The continuation token provided is incorrect")
			}
			if token != "" {
				l.After = string(after)
			}
		}
	} else {
		l.After = r.query.Get("marker")
		marker := e.encode(l.After)
		out.Marker = &marker
	}
	page, err := r.list(l)
	if err != nil {
		return nil, err
	}
	out.IsTruncated = page.Truncated
	if second {
		count := len(page.Objects) + len(page.Prefixes)
		out.KeyCount = &count
	}
	switch {
	case page.Truncated && second:
		out.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(page.Next))
	case page.Truncated:
		out.NextMarker = e.encode(page.Next)
	}
	out.Contents = make([]listedObject, len(page.Objects))
	for i, o := range page.Objects {
		listed := listedObject{
			Key: e.encode(o.Key), LastModified: formatTime(o.ModifiedAt.Std()), ETag: quoted(o.ETag), Size: o.Size,
			StorageClass: storageClasses[o.Tier], checksumKind: kindOf(o.Attributes.Checksum),
		}
		if withOwner {
			owner := ownerOf(r.bucket)
			listed.Owner = &owner
		}
		out.Contents[i] = listed
	}
	for _, p := range page.Prefixes {
		out.CommonPrefixes = append(out.CommonPrefixes, commonPrefix{e.encode(p)})
	}
	return out, nil
}
