package s3

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"steward/internal/budget"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
	"steward/internal/web"
)

// RoutePrefix begins every S3 request's Route. The operation's name follows.
const RoutePrefix = "s3."

// request is a request with its response.
type request struct {
	*http.Request

	server *Server
	w      *recorder
	began  time.Time
	meta   web.Meta
	slot   *budget.Charge // one of the server's slots, or nil
	// cancels release the timers of limited contexts.
	cancels []context.CancelFunc

	// Parsed from the method, the URL and the headers.
	level           level
	bucketName, key string
	query           url.Values
	operation       operation

	signature *sigv4.Signature // nil for anonymous requests and forms
	caller    *object.Bucket   // the bucket whose credentials signed the request, or nil
	bucket    *object.Bucket   // the bucket that it names; nil until the caller is authorized
	hoisted   map[string]bool  // headers from a presigned URL's query, in canonical form
	body      *bodyReader      // nil until someone reads it
	isObject  bool             // reports whether the response is about an object and gets the bucket's headers
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := s.newRequest(w, r)
	defer q.end()
	q.respond(q.serve())
}

func (s *Server) newRequest(w http.ResponseWriter, r *http.Request) *request {
	if s.Trace != nil {
		r = r.WithContext(s.Trace(r.Context(), r.Header.Get("Traceparent")))
	}
	q := &request{
		Request: r, server: s, w: &recorder{web.Recorder{ResponseWriter: w}}, began: time.Now(),
		meta: web.Meta{ID: id.New(id.Request), RemoteAddr: web.RemoteHost(r)},
	}
	header := w.Header()
	header.Set("Server", "Steward")
	header.Set("X-Amz-Request-Id", q.meta.ID)
	header.Set("X-Amz-Id-2", q.meta.ID)
	return q
}

// serve runs a request and returns its response. It does not read the body until it knows that the caller
// may do what it asks for.
func (r *request) serve() (any, error) {
	if err := r.takeSlot(budget.Address(r.RemoteAddr)); err != nil {
		return nil, err
	}
	if err := r.parse(); err != nil {
		return nil, err
	}
	r.allowOrigin()
	switch {
	case r.Method == http.MethodOptions:
		return nil, r.preflight()
	case r.operation.form:
		return r.postObject()
	}
	if err := r.checkLength(); err != nil {
		return nil, err
	}
	if err := r.authenticate(); err != nil {
		return nil, err
	}
	if err := r.authorize(); err != nil {
		return nil, err
	}
	if err := r.operation.check(r); err != nil {
		return nil, err
	}
	return r.operation.handle(r)
}

// slotGrant is the number of requests that an owner can always have in flight.
const slotGrant = 16

// NewSlots returns a pool for Server.Slots.
func NewSlots(n int64) *budget.Pool { return budget.NewPool(n, slotGrant) }

// takeSlot takes one of the server's slots for an owner, in place of the one that the request has. The
// owner is the client's address until we know the organization.
func (r *request) takeSlot(owner string) error {
	slot := r.server.Slots.Charge(owner, "")
	if !slot.Take(1) {
		return fail("SlowDown")
	}
	r.releaseSlot()
	r.slot = slot
	return nil
}

func (r *request) releaseSlot() {
	if r.slot != nil {
		r.slot.Release()
	}
}

// parse finds the bucket, the key and the operation that a request names.
func (r *request) parse() error {
	query, err := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, ";", "%3B")) // ; separates signed headers
	if err != nil {
		return fail("InvalidURI")
	}
	r.query = query
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	name, inHost := r.server.bucketOfHost(r.Host)
	key := path
	if !inHost {
		name, key, _ = strings.Cut(path, "/")
		if name, err = url.PathUnescape(name); err != nil {
			return fail("InvalidURI")
		}
	}
	if key, err = url.PathUnescape(key); err != nil {
		return fail("InvalidURI")
	}
	r.bucketName = name
	r.key = key
	switch {
	case key != "":
		r.level = objectLevel
	case name != "" || path != "":
		r.level = bucketLevel
	}
	r.operation = r.findOperation()
	return nil
}

// bucketOfHost returns the bucket that a host name under the server's domain names.
func (s *Server) bucketOfHost(host string) (string, bool) {
	if s.Domain == "" {
		return "", false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	bucket, ok := strings.CutSuffix(strings.ToLower(host), "."+s.Domain)
	return bucket, ok && bucket != ""
}

// authenticate verifies a request's signature, if it has one.
func (r *request) authenticate() error {
	if sigv4.IsV2(r.Header, r.query) {
		return errSignatureV2()
	}
	signature, err := sigv4.Parse(r.Request, r.query, DefaultRegion, time.Now())
	if err != nil || signature == nil {
		return err
	}
	b, err := r.account(signature.AccessKey)
	if err != nil {
		return err
	}
	if err := signature.Verify(r.Request, r.query, b.SecretKey); err != nil {
		return err
	}
	r.signature = signature
	r.caller = b
	if signature.Presigned {
		return r.hoist()
	}
	return nil
}

// errSignatureV2 answers a version 2 signature, which some clients still use by default.
func errSignatureV2() error {
	return failf("InvalidRequest", "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256: "+
		"set the signature version of your client to s3v4.")
}

// account returns the bucket that an access key belongs to.
func (r *request) account(accessKey string) (*object.Bucket, error) {
	if !isText(accessKey) {
		return nil, fail("InvalidAccessKeyId")
	}
	b, err := r.server.Buckets.ByAccessKey(r.limited(), accessKey)
	if errs.KindOf(err) == errs.NotFound {
		return nil, fail("InvalidAccessKeyId")
	}
	return b, err
}

// hoist turns query parameters of a presigned URL into the headers that they stand for. The signature
// covers them. It refuses names that no header can have and names that differ only in case.
func (r *request) hoist() error {
	r.hoisted = map[string]bool{}
	for name, values := range r.query {
		lower := strings.ToLower(name)
		header := http.CanonicalHeaderKey(name)
		switch {
		case !strings.HasPrefix(lower, "x-amz-") || matchesAny(presignQuery, lower):
			continue
		case r.hoisted[header] || !httpguts.ValidHeaderFieldName(name):
			return invalidArgument("The query parameter %s cannot stand for a header.", strconv.Quote(name))
		case len(r.Header.Values(name)) > 0:
			continue
		}
		r.Header.Set(name, values[0])
		r.hoisted[header] = true
	}
	return nil
}

// authorize returns an error unless the caller may do what it asks for. A bucket's owner may do everything
// there; everybody may read a public bucket's objects.
func (r *request) authorize() error {
	if r.level == serviceLevel {
		if r.caller == nil {
			return fail("AccessDenied")
		}
		r.meta.OrgID = r.caller.OrgID
		return r.takeSlot(r.meta.OrgID)
	}
	b, err := r.named(r.bucketName)
	if err != nil {
		if r.operation.creates && r.caller != nil && errs.KindOf(err) == errs.NotFound {
			return fail("AccessDenied")
		}
		return err
	}
	if !r.owns(b) && !(r.operation.public && isPublic(b)) {
		return fail("AccessDenied")
	}
	r.bucket = b
	r.meta.OrgID = b.OrgID
	r.meta.Resource = b.Name
	if err := r.takeSlot(b.OrgID); err != nil {
		return err
	}
	if r.level == objectLevel {
		return checkKey(r.key)
	}
	return nil
}

func (r *request) owns(b *object.Bucket) bool { return r.caller != nil && r.caller.ID == b.ID }

// named finds a bucket by name.
func (r *request) named(name string) (*object.Bucket, error) {
	return r.server.Buckets.ByName(r.limited(), name)
}

func isPublic(b *object.Bucket) bool { return b.Config.Public != nil && *b.Config.Public }

// limited returns the context for an operation that carries no object. A client that goes away does not
// interrupt its changes.
func (r *request) limited() context.Context {
	ctx, cancel := context.WithTimeout(r.lasting(), r.server.Limits.Operation)
	r.cancels = append(r.cancels, cancel)
	return ctx
}

// lasting returns the request's context, but it does not end when the client goes away.
func (r *request) lasting() context.Context { return context.WithoutCancel(r.Context()) }

func (r *request) origin() object.Origin {
	return object.Origin{RequestID: r.meta.ID, Address: r.meta.RemoteAddr}
}

// checkKey refuses keys that are too long, that databases cannot store, or that would leave the bucket if a
// client took them for paths.
func checkKey(key string) error {
	switch {
	case len(key) > object.MaxKey:
		return fail("KeyTooLongError")
	case key == "" || !isText(key):
		return fail("InvalidURI")
	}
	depth, dots := 0, false
	for segment := range strings.SplitSeq(key, "/") {
		switch segment {
		case "":
		case ".", "..":
			dots = true
			depth -= len(segment) - 1
		default:
			depth++
		}
		if depth < 0 {
			break
		}
	}
	if depth < 0 || dots && depth == 0 {
		return failf("BadRequest", "The segments . and .. of a key must not lead out of the bucket.")
	}
	return nil
}

// isText reports whether a text is UTF-8 without U+0000, which databases cannot store.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// respond writes a value as XML, a *content's bytes, or an error.
func (r *request) respond(value any, err error) {
	header := r.w.Header()
	if r.isObject {
		for name, value := range r.bucket.Config.AdditionalHeaders {
			if len(header.Values(name)) == 0 {
				header.Set(name, value)
			}
		}
	}
	r.discardBody()
	if r.server.leaving.Load() {
		header.Set("Connection", "close")
	}
	if err != nil {
		r.sendFailure(r.failure(err))
		return
	}
	switch v := value.(type) {
	case nil:
		r.w.WriteHeader(cmp.Or(r.operation.status, http.StatusOK))
	case *content:
		r.sendContent(v)
	default:
		r.sendXML(cmp.Or(r.operation.status, http.StatusOK), v)
	}
}

func (r *request) sendFailure(f *failure) {
	if f.status() == http.StatusNotModified {
		r.w.WriteHeader(http.StatusNotModified)
		return
	}
	header := r.w.Header()
	for _, name := range describing {
		header.Del(name) // nobody should cache an error as long as the object
	}
	if f.status() != http.StatusRequestedRangeNotSatisfiable {
		header.Del("Content-Range")
	}
	r.sendXML(f.status(), errorDocument{
		Code: f.code, Message: f.text(), Region: f.region, Bucket: r.bucketName, Key: r.key,
		Resource: r.URL.Path, RequestID: r.meta.ID, HostID: r.meta.ID,
	})
}

func (r *request) sendXML(status int, value any) {
	document, err := xml.Marshal(value)
	if err != nil { // a programming error
		r.server.Log.Error("s3: "+r.route(), "error", err)
		r.w.WriteHeader(http.StatusInternalServerError)
		return
	}
	header := r.w.Header()
	header.Set("Content-Type", "application/xml")
	header.Set("Content-Length", strconv.Itoa(len(xml.Header)+len(document)))
	r.w.WriteHeader(status)
	_, _ = io.WriteString(r.w, xml.Header)
	_, _ = r.w.Write(document)
}

// route returns the operation's name for logs, metrics and traces.
func (r *request) route() string { return RoutePrefix + cmp.Or(r.operation.name, "unknown") }

// end reports a request that was served, or has panicked.
func (r *request) end() {
	r.releaseSlot()
	for _, cancel := range r.cancels {
		cancel()
	}
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		r.server.Log.Error("panic", "value", p, "stack", string(debug.Stack()), "request_id", r.meta.ID)
		if r.w.Status == 0 {
			r.w.Header().Set("Connection", "close")
			r.sendFailure(&failure{code: "InternalError"})
		}
	}
	if r.server.Done == nil {
		return
	}
	took := time.Since(r.began)
	r.meta.Route = r.route()
	served := web.Served{
		Meta: &r.meta, Method: r.Method, Status: r.w.Status, Bytes: r.w.Bytes, At: r.began.Add(took), Took: took,
		Context: r.Context(),
	}
	if served.Status < http.StatusMultipleChoices {
		served.Received = int(max(r.ContentLength, 0))
	}
	r.server.Done(served)
}

// recorder records a response's status and size.
type recorder struct{ web.Recorder }

// ReadFrom lets the kernel send a file directly.
func (w *recorder) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.Bytes += int(n)
	return n, err
}
