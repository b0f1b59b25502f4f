package s3

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/object"
)

// maxListing is the maximum size of the keys in one page. The protocol refuses responses of more
// than 4 MiB, and a byte can need 6 of XML.
const maxListing = 512 << 10

// list returns a page of a bucket.
func (g *gateway) list(r *request, l object.ListRequest) (object.ListPage, error) {
	for _, s := range []string{l.Prefix, l.Delimiter, l.After} {
		if !isText(s) || len(s) > object.MaxKey {
			return object.ListPage{}, invalidArgument("expected a prefix, delimiter and marker of at most 1024 bytes of UTF-8")
		}
	}
	if l.Limit == 0 {
		return object.ListPage{}, nil
	}
	ctx, cancel := g.limited(r)
	defer cancel()
	for {
		page, err := g.index.List(ctx, r.bucket, l)
		if err != nil {
			return page, g.apiError("list objects", err, s3err.ErrNoSuchBucket)
		}
		if sizeOfKeys(page) <= maxListing || l.Limit == 1 {
			return page, nil
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

// encoding is how the keys in a list are written: as they are, or like those of a URL, which keeps
// the characters that XML cannot express.
type encoding types.EncodingType

// encodingOf returns the encoding that a client has asked for.
func encodingOf(r *request) (encoding, error) {
	switch e := string(r.http.QueryArgs().Peek("encoding-type")); {
	case e == "":
		return "", nil
	case strings.EqualFold(e, "url"):
		return encoding(types.EncodingTypeUrl), nil
	}
	return "", invalidArgument("expected the encoding type url")
}

func (e encoding) encode(s string) *string {
	if e != "" {
		s = escaped(s)
	}
	return &s
}

// orNil is like encode, but nil for "".
func (e encoding) orNil(s string) *string {
	if s == "" {
		return nil
	}
	return e.encode(s)
}

// escaped escapes all characters but letters, digits, - . _ ~ and /.
func escaped(s string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(s))
}

func (e encoding) objects(r *request, list []object.Object, owner bool) []s3response.Object {
	out := make([]s3response.Object, len(list))
	for i, o := range list {
		modified := o.ModifiedAt.Std()
		out[i] = s3response.Object{
			Key: e.encode(o.Key), ETag: quoted(o.ETag), Size: &o.Size, LastModified: &modified,
			StorageClass: types.ObjectStorageClass(storageClasses[o.Tier]),
		}
		if c := o.Attributes.Checksum; c != nil {
			out[i].ChecksumAlgorithm = []types.ChecksumAlgorithm{types.ChecksumAlgorithm(c.Algorithm)}
			out[i].ChecksumType = types.ChecksumType(c.Type)
		}
		if owner {
			out[i].Owner = &types.Owner{ID: &r.bucket.AccessKey, DisplayName: &r.bucket.AccessKey}
		}
	}
	return out
}

func (e encoding) prefixes(list []string) []types.CommonPrefix {
	out := make([]types.CommonPrefix, len(list))
	for i, p := range list {
		out[i].Prefix = e.encode(p)
	}
	return out
}

// ListObjects lists a bucket with markers.
func (g *gateway) ListObjects(ctx context.Context, in *awss3.ListObjectsInput) (s3response.ListObjectsResult, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.ListObjectsResult{}, err
	}
	e, err := encodingOf(r)
	if err != nil {
		return s3response.ListObjectsResult{}, err
	}
	l := object.ListRequest{
		Prefix: text(in.Prefix), Delimiter: text(in.Delimiter), After: text(in.Marker), Limit: int(*in.MaxKeys),
	}
	page, err := g.list(r, l)
	if err != nil {
		return s3response.ListObjectsResult{}, err
	}
	out := s3response.ListObjectsResult{
		Name: &r.bucket.Name, Prefix: e.encode(l.Prefix), Marker: e.encode(l.After), Delimiter: e.orNil(l.Delimiter),
		MaxKeys: in.MaxKeys, IsTruncated: &page.Truncated, EncodingType: types.EncodingType(e),
		Contents: e.objects(r, page.Objects, true), CommonPrefixes: e.prefixes(page.Prefixes),
	}
	if page.Truncated {
		out.NextMarker = e.encode(page.Next)
	}
	return out, nil
}

// ListObjectsV2 lists a bucket with continuation tokens.
func (g *gateway) ListObjectsV2(ctx context.Context, in *awss3.ListObjectsV2Input) (s3response.ListObjectsV2Result, error) {
	r, err := g.begin(ctx, toWrite, in.Bucket)
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	e, err := encodingOf(r)
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	token := text(in.ContinuationToken)
	after, err := afterToken(token, text(in.StartAfter))
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	l := object.ListRequest{Prefix: text(in.Prefix), Delimiter: text(in.Delimiter), After: after, Limit: int(*in.MaxKeys)}
	page, err := g.list(r, l)
	if err != nil {
		return s3response.ListObjectsV2Result{}, err
	}
	count := int32(len(page.Objects) + len(page.Prefixes))
	out := s3response.ListObjectsV2Result{
		Name: &r.bucket.Name, Prefix: e.encode(l.Prefix), Delimiter: e.orNil(l.Delimiter), StartAfter: e.orNil(text(in.StartAfter)),
		ContinuationToken: orNil(token), MaxKeys: in.MaxKeys, KeyCount: &count, IsTruncated: &page.Truncated,
		EncodingType: types.EncodingType(e), CommonPrefixes: e.prefixes(page.Prefixes),
		Contents: e.objects(r, page.Objects, in.FetchOwner != nil && *in.FetchOwner),
	}
	if page.Truncated {
		next := base64.RawURLEncoding.EncodeToString([]byte(page.Next))
		out.NextContinuationToken = &next
	}
	return out, nil
}

// afterToken returns the key or prefix after which a list continues.
func afterToken(token, startAfter string) (string, error) {
	if token == "" {
		return startAfter, nil
	}
	after, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", invalidArgument("the continuation token provided is incorrect")
	}
	return string(after), nil
}
