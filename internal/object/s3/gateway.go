package s3

import (
	"context"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"

	"steward/internal/errs"
	"steward/internal/object"
	"steward/internal/web"
)

// gateway is the backend of the protocol. What it does not implement is answered with
// NotImplemented.
type gateway struct {
	backend.BackendUnsupported
	base    context.Context // of all requests; see contextOf
	buckets *object.Buckets
	index   *object.Index
	uploads *object.Uploads
	blobs   *object.Blobs
	console string
	limits  Limits
	log     *slog.Logger
}

var _ backend.Backend = (*gateway)(nil)

func (g *gateway) String() string { return "Steward" }

// request is a request for a bucket by a caller who has been checked.
type request struct {
	context.Context

	bucket *object.Bucket
	conn   *conn
	http   *fasthttp.RequestCtx
	meta   web.Meta
	object.Origin
}

// right is what a request needs.
type right int

const (
	toRead  right = iota // objects: the owner, and everybody if the bucket is public
	toWrite              // everything else: the owner
)

// begin returns the request for a bucket. It has been authorized already: the caller is checked
// again so that no gap in what the protocol checks opens a bucket. The root account is refused.
func (g *gateway) begin(ctx context.Context, need right, name *string) (*request, error) {
	http, ok := ctx.(*fasthttp.RequestCtx)
	if !ok {
		return nil, s3err.GetAPIError(s3err.ErrInternalError)
	}
	conn, ok := connOf(http)
	if !ok {
		return nil, s3err.GetAPIError(s3err.ErrInternalError)
	}
	b, err := g.bucket(ctx, text(name))
	if err != nil {
		return nil, err
	}
	caller, _ := ctx.Value("account").(auth.Account)
	if caller.Access != b.AccessKey && (need != toRead || !isPublic(b)) {
		return nil, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	id, _ := ctx.Value("request-id").(string)
	r := &request{
		Context: contextOf(ctx, g.base), bucket: b, conn: conn, http: http,
		Origin: object.Origin{RequestID: strings.Clone(id), Address: http.RemoteIP().String()},
	}
	r.note()
	return r, nil
}

// bucket returns NoSuchBucket if there is none of this name.
func (g *gateway) bucket(ctx context.Context, name string) (*object.Bucket, error) {
	ctx, cancel := context.WithTimeout(contextOf(ctx, g.base), g.limits.Operation)
	defer cancel()
	b, err := g.buckets.ByName(ctx, name)
	if errs.KindOf(err) == errs.NotFound {
		return nil, s3err.GetBucketErr(s3err.ErrNoSuchBucket, name)
	}
	return b, g.apiError("read bucket", err, s3err.ErrNoSuchBucket)
}

func isPublic(b *object.Bucket) bool { return b.Config.Public != nil && *b.Config.Public }

// limited returns the context of an operation that carries no object.
func (g *gateway) limited(r *request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context, g.limits.Operation)
}

func (g *gateway) apiError(doing string, err error, missing s3err.ErrorCode) error {
	return apiError(g.log, doing, err, missing)
}

// text returns a copy of a text of a request, or "".
func text(s *string) string {
	if s == nil {
		return ""
	}
	return strings.Clone(*s)
}

// orNil returns nil for "", which the protocol leaves out.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// keyOf returns the key of a request.
func keyOf(s *string) (string, error) {
	key := text(s)
	switch {
	case len(key) > object.MaxKey:
		return "", s3err.GetKeyTooLongErr(int64(len(key)), object.MaxKey)
	case key == "" || !isText(key):
		return "", s3err.GetAPIError(s3err.ErrInvalidURI)
	}
	return key, nil
}

// isText reports whether a text is UTF-8 without U+0000, which databases do not store.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// checkVersion refuses versions: objects have one only, whose name is null.
func checkVersion(version *string) error {
	if v := text(version); v != "" && v != "null" {
		return s3err.GetInvalidArgumentErr(s3err.InvalidArgVersionId, v)
	}
	return nil
}

func quoted(etag string) *string {
	q := `"` + etag + `"`
	return &q
}
