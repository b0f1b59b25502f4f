// Package sigv4 verifies AWS signatures, version 4, for S3: in a request's headers, in a presigned URL's
// query, and on an HTML form's policy. It also reads aws-chunked bodies, whose chunks can be signed, and
// presigns URLs.
//
// Parse reads a request's claims, which name the access key. You then look up its secret, call Verify, and
// only after that read the body, through Body.
package sigv4

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error refuses a signature or a body, with an S3 error code.
type Error struct {
	Code, Message string
	// Region is the region to sign for, if the client signed for another one.
	Region string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	dateFormat = "20060102"
	// maxSkew is how far a client's clock may be off.
	maxSkew = 15 * time.Minute
	// maxExpiry caps a presigned URL's lifetime.
	maxExpiry = 7 * 24 * time.Hour
	// maxPolicyAge caps the age of a form's signature, even if its policy is still valid.
	maxPolicyAge = 7 * 24 * time.Hour
)

// X-Amz-Content-Sha256 contains the body's hash or one of these values.
const (
	Unsigned                = "UNSIGNED-PAYLOAD"
	SignedChunks            = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	SignedChunksTrailer     = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	UnsignedChunksTrailer   = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	asymmetricChunks        = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"
	asymmetricChunksTrailer = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER"
)

// Query parameters in a presigned URL.
const (
	queryAlgorithm = "X-Amz-Algorithm"
	queryAccess    = "X-Amz-Credential"
	queryDate      = "X-Amz-Date"
	queryExpires   = "X-Amz-Expires"
	queryHeaders   = "X-Amz-SignedHeaders"
	querySignature = "X-Amz-Signature"
	queryPayload   = "X-Amz-Content-Sha256"
	queryToken     = "X-Amz-Security-Token"
)

// scope says where and when a derived key is valid.
type scope struct{ access, date, region string }

// parseScope parses a credential: access/date/region/s3/aws4_request. Errors have the given code.
func parseScope(credential, region, code string) (s scope, err error) {
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || parts[0] == "" {
		return s, refuse(code, "The credential must be ACCESS-KEY/YYYYMMDD/REGION/s3/aws4_request.")
	}
	if _, err := time.Parse(dateFormat, parts[1]); err != nil {
		return s, refuse(code, "The date of the credential must be YYYYMMDD.")
	}
	if parts[3] != "s3" {
		return s, refuse(code, "The service of the credential must be s3.")
	}
	if parts[4] != "aws4_request" {
		return s, refuse(code, "The credential must end with aws4_request.")
	}
	if parts[2] != region {
		return s, &Error{Code: code, Message: fmt.Sprintf("The region %q is wrong; expecting %q.", parts[2], region), Region: region}
	}
	return scope{parts[0], parts[1], parts[2]}, nil
}

func (s scope) String() string { return s.date + "/" + s.region + "/s3/aws4_request" }

// key derives the signing key for a scope.
func (s scope) key(secret string) []byte {
	key := []byte("AWS4" + secret)
	for _, text := range []string{s.date, s.region, "s3", "aws4_request"} {
		key = sign(key, text)
	}
	return key
}

func sign(key []byte, text string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(text))
	return hash.Sum(nil)
}

func hexHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// equal compares a signature with the one that the client sent, in hex, in constant time.
func equal(want []byte, sent string) bool {
	return hmac.Equal([]byte(hex.EncodeToString(want)), []byte(sent))
}

// Signature is a request's signature.
type Signature struct {
	// AccessKey is the key that the request claims to be signed with.
	AccessKey string
	// Presigned reports whether the signature is in the query.
	Presigned bool
	// Payload is the body's hash in hex, or one of the constants.
	Payload string

	scope   scope
	time    time.Time
	headers []string // signed headers, in lower case
	sent    string
	key     []byte // set by Verify
}

// IsV2 reports whether a request has a version 2 signature.
func IsV2(header http.Header, query url.Values) bool {
	return strings.HasPrefix(header.Get("Authorization"), "AWS ") || query.Has("AWSAccessKeyId")
}

// Parse returns a request's signature without verifying it, or nil if the request has none. It refuses a
// signature that is malformed, too old, in the future or for another region, or that leaves out a header
// that must be signed. It also refuses repeated names: a signature covers a header's values joined by commas
// and the query sorted, so it would fit another split or order, too.
func Parse(r *http.Request, query url.Values, region string, now time.Time) (*Signature, error) {
	authorizations := r.Header.Values("Authorization")
	presigned := query.Has(querySignature) || query.Has(queryAlgorithm) || query.Has(queryAccess)
	var s *Signature
	var err error
	switch {
	case len(authorizations) == 0 && !presigned:
		return nil, nil
	case len(authorizations) > 1, len(authorizations) == 1 && presigned:
		return nil, refuse("InvalidArgument", "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "+
			"Signature query string parameter or the Authorization header should be specified.")
	case presigned:
		s, err = parseQuery(r.Header, query, region, now)
	default:
		s, err = parseHeader(r.Header, authorizations[0], region, now)
	}
	if err != nil {
		return nil, err
	}
	if r.Header.Get(queryToken) != "" || query.Get(queryToken) != "" {
		return nil, refuse("InvalidToken", "The provided token is malformed or otherwise invalid.")
	}
	if err := checkPayload(s.Payload); err != nil {
		return nil, err
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, refuse("InvalidArgument", "The query parameter %s occurs more than once.", strconv.Quote(name))
		}
	}
	s.AccessKey = s.scope.access
	return s, s.checkHeaders(r.Header)
}

func parseHeader(header http.Header, authorization, region string, now time.Time) (*Signature, error) {
	const code = "AuthorizationHeaderMalformed"
	rest, ok := strings.CutPrefix(authorization, algorithm)
	if !ok || rest == "" || rest[0] != ' ' {
		return nil, refuse("InvalidRequest", "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		if fields[name] != "" {
			return nil, refuse(code, "The authorization header has %s more than once.", strconv.Quote(name))
		}
		fields[name] = value
	}
	for _, name := range []string{"Credential", "SignedHeaders", "Signature"} {
		if fields[name] == "" {
			return nil, refuse(code, "The authorization header requires %s.", name)
		}
	}
	scope, err := parseScope(fields["Credential"], region, code)
	if err != nil {
		return nil, err
	}
	signed, ok := dateOf(header)
	switch {
	case !ok:
		return nil, refuse("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header.")
	case now.Sub(signed).Abs() > maxSkew:
		return nil, refuse("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
	case signed.Format(dateFormat) != scope.date:
		return nil, refuse(code, "The date of the credential is not that of the request.")
	}
	payload := header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		return nil, refuse("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
	}
	return &Signature{
		Payload: payload, scope: scope, time: signed, headers: strings.Split(fields["SignedHeaders"], ";"), sent: fields["Signature"],
	}, nil
}

// dateOf returns the time when a request was signed.
func dateOf(header http.Header) (time.Time, bool) {
	date := header.Get("X-Amz-Date")
	if date == "" {
		date = header.Get("Date")
		if t, err := http.ParseTime(date); err == nil {
			return t.UTC(), true
		}
	}
	t, err := time.Parse(timeFormat, date)
	return t, err == nil
}

func parseQuery(header http.Header, query url.Values, region string, now time.Time) (*Signature, error) {
	const code = "AuthorizationQueryParametersError"
	for _, name := range []string{queryAlgorithm, queryAccess, queryDate, queryExpires, queryHeaders, querySignature} {
		if values := query[name]; len(values) != 1 || values[0] == "" {
			return nil, refuse(code, "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "+
				"X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters, each once.")
		}
	}
	if query.Get(queryAlgorithm) != algorithm {
		return nil, refuse(code, `X-Amz-Algorithm only supports "AWS4-HMAC-SHA256".`)
	}
	scope, err := parseScope(query.Get(queryAccess), region, code)
	if err != nil {
		return nil, err
	}
	signed, err := time.Parse(timeFormat, query.Get(queryDate))
	if err != nil || signed.Format(dateFormat) != scope.date {
		return nil, refuse(code, "X-Amz-Date must be YYYYMMDDTHHMMSSZ, on the date of the credential.")
	}
	seconds, err := strconv.ParseInt(query.Get(queryExpires), 10, 64)
	if err != nil || seconds < 1 || seconds > int64(maxExpiry/time.Second) {
		return nil, refuse(code, "X-Amz-Expires must be 1 to %d seconds.", int64(maxExpiry/time.Second))
	}
	switch {
	case now.Add(maxSkew).Before(signed):
		return nil, refuse("AccessDenied", "Request is not valid yet.")
	case now.After(signed.Add(time.Duration(seconds) * time.Second)):
		return nil, refuse("AccessDenied", "Request has expired.")
	}
	return &Signature{
		Presigned: true, Payload: cmp.Or(query.Get(queryPayload), header.Get(queryPayload), Unsigned), scope: scope, time: signed,
		headers: strings.Split(query.Get(queryHeaders), ";"), sent: query.Get(querySignature),
	}, nil
}

func checkPayload(payload string) error {
	switch payload {
	case Unsigned, SignedChunks, SignedChunksTrailer, UnsignedChunksTrailer:
		return nil
	case asymmetricChunks, asymmetricChunksTrailer:
		return refuse("NotImplemented", "The x-amz-content-sha256 value %s is not implemented by this server.", payload)
	}
	if sum, err := hex.DecodeString(payload); err != nil || len(sum) != sha256.Size || payload != strings.ToLower(payload) {
		return refuse("InvalidArgument", "x-amz-content-sha256 must be %s, %s, %s, %s or a valid sha256 value.",
			Unsigned, UnsignedChunksTrailer, SignedChunks, SignedChunksTrailer)
	}
	return nil
}

// checkHeaders refuses a request with an unsigned S3 header, because somebody else may have added it.
// X-Amz-Cf-Id may be unsigned: CloudFront adds it. Only headers that are read as lists may be repeated.
func (s *Signature) checkHeaders(header http.Header) error {
	if !slices.Contains(s.headers, "host") {
		return refuse("AccessDenied", "The header host must be signed.")
	}
	signed := map[string]bool{}
	for _, name := range s.headers { // each adds a header's value to what we hash
		if signed[name] || name != strings.ToLower(name) {
			return refuse("InvalidArgument", "SignedHeaders must name each header once, in lower case.")
		}
		signed[name] = true
	}
	for name, values := range header {
		name = strings.ToLower(name)
		if !strings.HasPrefix(name, "x-amz-") || name == "x-amz-cf-id" {
			continue
		}
		if !signed[name] {
			return refuse("AccessDenied", "There were headers present in the request which were not signed: %s", name)
		}
		isList := strings.HasPrefix(name, "x-amz-meta-") || name == "x-amz-object-attributes"
		if len(values) > 1 && !isList {
			return refuse("InvalidArgument", "The header %s occurs more than once.", name)
		}
	}
	return nil
}

// Verify returns an error unless the secret signed the request.
func (s *Signature) Verify(r *http.Request, query url.Values, secret string) error {
	s.key = s.scope.key(secret)
	path := r.URL.EscapedPath()
	if s.matches(r, canonicalPath(r.URL.Path), query) || s.matches(r, path, query) { // a few clients sign the path as they send it
		return nil
	}
	return mismatch()
}

func mismatch() error {
	return refuse("SignatureDoesNotMatch",
		"The request signature we calculated does not match the signature you provided. Check your key and signing method.")
}

func (s *Signature) matches(r *http.Request, path string, query url.Values) bool {
	text := strings.Join([]string{
		r.Method, path, canonicalQuery(query), s.canonicalHeaders(r), strings.Join(s.headers, ";"), s.Payload,
	}, "\n")
	return equal(sign(s.key, stringToSign(s.time, s.scope, text)), s.sent)
}

func stringToSign(t time.Time, s scope, canonical string) string {
	return strings.Join([]string{algorithm, t.Format(timeFormat), s.String(), hexHash(canonical)}, "\n")
}

// canonicalHeaders returns the signed headers, one per line.
func (s *Signature) canonicalHeaders(r *http.Request) string {
	var b strings.Builder
	for _, name := range s.headers {
		var values []string
		switch name {
		case "host":
			values = []string{r.Host}
		case "content-length":
			values = []string{strconv.FormatInt(r.ContentLength, 10)}
		case "transfer-encoding":
			values = r.TransferEncoding
		default:
			values = r.Header.Values(name)
		}
		b.WriteString(name + ":")
		for i, value := range values {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.Join(strings.FieldsFunc(value, isBlank), " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' }

func canonicalPath(path string) string { return cmp.Or(Escape(path), "/") }

// canonicalQuery returns the signed parameters, sorted by their encoded names and values.
func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		if name == querySignature {
			continue
		}
		for _, value := range values {
			pairs = append(pairs, escape(name)+"\x00"+escape(value)) // a NUL sorts before all that names have
		}
	}
	slices.Sort(pairs)
	return strings.ReplaceAll(strings.Join(pairs, "&"), "\x00", "=")
}

// escape escapes all bytes except letters, digits, - . _ and ~.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Escape escapes all bytes in a path except letters, digits, - . _ ~ and /.
func Escape(path string) string { return strings.ReplaceAll(escape(path), "%2F", "/") }

// Presigned is a request to sign in its URL.
type Presigned struct {
	Method string
	// URL's path is not escaped.
	URL                       url.URL
	AccessKey, Secret, Region string
	At                        time.Time
	Expires                   time.Duration
}

// Presign returns a URL that carries its signature in the query.
func Presign(p Presigned) string {
	target := p.URL
	s := &Signature{Payload: Unsigned, headers: []string{"host"}, time: p.At.UTC()}
	s.scope = scope{p.AccessKey, s.time.Format(dateFormat), p.Region}
	s.key = s.scope.key(p.Secret)
	query := target.Query()
	query.Set(queryAlgorithm, algorithm)
	query.Set(queryAccess, p.AccessKey+"/"+s.scope.String())
	query.Set(queryDate, s.time.Format(timeFormat))
	query.Set(queryExpires, strconv.FormatInt(int64(p.Expires/time.Second), 10))
	query.Set(queryHeaders, "host")
	path := canonicalPath(target.Path)
	text := strings.Join([]string{p.Method, path, canonicalQuery(query), "host:" + target.Host + "\n", "host", Unsigned}, "\n")
	signature := hex.EncodeToString(sign(s.key, stringToSign(s.time, s.scope, text)))
	return target.Scheme + "://" + target.Host + path + "?" + canonicalQuery(query) + "&" + querySignature + "=" + signature
}

// Policy is the signature on a form's policy.
type Policy struct {
	// AccessKey is the key that the form claims to be signed with.
	AccessKey string

	scope        scope
	policy, sent string
}

// ParsePolicy returns a form's signature without verifying it. Field names are in lower case.
func ParsePolicy(fields map[string]string, region string, now time.Time) (*Policy, error) {
	for _, name := range []string{"policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"} {
		if fields[name] == "" {
			return nil, refuse("AccessDenied", "The form has no field %s: nobody writes without a signature.", name)
		}
	}
	if fields["x-amz-algorithm"] != algorithm {
		return nil, refuse("InvalidArgument", "x-amz-algorithm only supports %s.", algorithm)
	}
	if fields["x-amz-security-token"] != "" {
		return nil, refuse("InvalidToken", "The provided token is malformed or otherwise invalid.")
	}
	const code = "InvalidArgument"
	scope, err := parseScope(fields["x-amz-credential"], region, code)
	if err != nil {
		return nil, err
	}
	signed, err := time.Parse(timeFormat, fields["x-amz-date"])
	if err != nil || signed.Format(dateFormat) != scope.date {
		return nil, refuse(code, "x-amz-date must be YYYYMMDDTHHMMSSZ, on the date of the credential.")
	}
	if now.Sub(signed) > maxPolicyAge {
		return nil, refuse("AccessDenied", "Invalid according to Policy: Policy expired.")
	}
	return &Policy{AccessKey: scope.access, scope: scope, policy: fields["policy"], sent: fields["x-amz-signature"]}, nil
}

// Verify returns an error unless the secret signed the policy.
func (p *Policy) Verify(secret string) error {
	if equal(sign(p.scope.key(secret), p.policy), p.sent) {
		return nil
	}
	return mismatch()
}
