package s3

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
)

// maxFields caps a form's fields before its file, in bytes.
const maxFields = 64 << 10

// form is an HTML form up to the part named file. Like S3, we ignore later fields.
type form struct {
	fields map[string]string // keys in lower case
	file   io.Reader
}

// postObject stores the file in an HTML form.
func (r *request) postObject() (any, error) {
	if r.ContentLength > maxObject+maxFields {
		return nil, fail("EntityTooLarge")
	}
	f, err := r.parseForm()
	if err != nil {
		return nil, err
	}
	if f.fields["key"] == "" {
		return nil, invalidArgument("Bucket POST must contain a field named 'key'.")
	}
	r.key = f.fields["key"]
	if err := r.authorizeForm(f.fields); err != nil {
		return nil, err
	}
	size, err := checkPolicy(f.fields, r.bucket.Name, time.Now())
	if err != nil {
		return nil, err
	}
	if err := checkFields(f.fields); err != nil {
		return nil, err
	}
	if err := checkKey(r.key); err != nil {
		return nil, err
	}
	o, err := r.putFile(f, size)
	if err != nil {
		return nil, err
	}
	return r.formResult(f.fields, o)
}

// authorizeForm verifies the signature on a form's policy. The bucket's owner must have signed it.
func (r *request) authorizeForm(fields map[string]string) error {
	if fields["awsaccesskeyid"] != "" {
		return errSignatureV2()
	}
	signed, err := sigv4.ParsePolicy(fields, DefaultRegion, time.Now())
	if err != nil {
		return err
	}
	b, err := r.account(signed.AccessKey)
	if err != nil {
		return err
	}
	if err := signed.Verify(b.SecretKey); err != nil {
		return err
	}
	r.caller = b
	return r.authorize()
}

// parseForm reads a form up to its file. It bounds the fields, because we read them before their signature.
func (r *request) parseForm() (form, error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return form{}, fail("MalformedPOSTRequest")
	}
	head := &io.LimitedReader{R: r.open(), N: maxFields}
	parsed, err := readForm(multipart.NewReader(head, params["boundary"]))
	var known *failure
	switch {
	case err == nil:
		head.N = math.MaxInt64 // the file is streamed
		return parsed, nil
	case head.N <= 0:
		return form{}, fail("MaxMessageLengthExceeded")
	case errors.As(err, &known):
		return form{}, known
	}
	return form{}, fail("MalformedPOSTRequest")
}

// readForm reads a form's parts up to the one named file.
func readForm(r *multipart.Reader) (form, error) {
	f := form{fields: map[string]string{}}
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return form{}, invalidArgument("POST requires exactly one file upload per request.")
		}
		if err != nil {
			return form{}, fmt.Errorf("read part of form: %w", err)
		}
		name := strings.ToLower(part.FormName())
		switch name {
		case "":
			return form{}, fail("MalformedPOSTRequest")
		case "file":
			f.file = part
			return f, f.expand(part.FileName())
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return form{}, fmt.Errorf("read field of form: %w", err)
		}
		if old, ok := f.fields[name]; ok && strings.HasPrefix(name, "x-amz-meta-") {
			value = slices.Concat([]byte(old+","), value) // metadata that repeats a name is one list
		}
		f.fields[name] = string(value)
	}
}

// expand replaces ${filename} in all fields by the file's base name. It returns MaxMessageLengthExceeded if
// this makes the fields too large.
func (f form) expand(filename string) error {
	const variable = "${filename}"
	filename = filename[strings.LastIndexAny(filename, `/\`)+1:]
	size := 0
	for name, value := range f.fields {
		if name == "policy" {
			continue
		}
		size += len(value) + strings.Count(value, variable)*(len(filename)-len(variable))
		if size > maxFields {
			return fail("MaxMessageLengthExceeded")
		}
		f.fields[name] = strings.ReplaceAll(value, variable, filename)
	}
	return nil
}

// sizeRange bounds a file's size.
type sizeRange struct{ min, max int64 }

// checkPolicy returns an error unless a policy is still valid and allows the form. Its conditions must
// mention every field except the signature's. It returns the allowed file sizes.
func checkPolicy(fields map[string]string, bucket string, now time.Time) (sizeRange, error) {
	size := sizeRange{0, maxObject}
	encoded := strings.TrimRight(strings.TrimSpace(fields["policy"]), "=")
	text, err := base64.RawStdEncoding.DecodeString(encoded)
	var document struct {
		Expiration string
		Conditions []any
	}
	if err != nil || json.Unmarshal(text, &document) != nil {
		return size, failf("InvalidPolicyDocument", "Invalid Policy: Invalid JSON.")
	}
	expiration, err := time.Parse(time.RFC3339, document.Expiration)
	if err != nil {
		return size, failf("InvalidPolicyDocument", "Invalid Policy: Invalid 'expiration' value: %q", document.Expiration)
	}
	if now.After(expiration) {
		return size, failf("AccessDenied", "Invalid according to Policy: Policy expired.")
	}
	if len(document.Conditions) == 0 {
		return size, failf("InvalidPolicyDocument", "Invalid Policy: Policy missing condition.")
	}
	left := map[string]bool{}
	for name := range fields {
		left[name] = name != "policy" && name != "x-amz-signature" && !strings.HasPrefix(name, "x-ignore-")
	}
	value := func(name string) string {
		if name == "bucket" {
			return bucket
		}
		return fields[name]
	}
	for _, c := range document.Conditions {
		names, err := checkCondition(c, value, &size)
		if err != nil {
			return size, err
		}
		for _, name := range names {
			left[name] = false
		}
	}
	for name, isExtra := range left {
		if isExtra && name != "bucket" {
			return size, failf("AccessDenied", "Invalid according to Policy: Extra input fields: %s", name)
		}
	}
	return size, nil
}

// checkCondition checks a policy's condition: {"field": "value"}, ["eq", "$field", "value"],
// ["starts-with", "$field", "prefix"] or ["content-length-range", min, max], in any case. It returns the
// fields that the condition covers.
func checkCondition(c any, value func(name string) string, size *sizeRange) (names []string, err error) {
	invalid := failf("InvalidPolicyDocument", "Invalid Policy: Invalid condition.")
	denied := failf("AccessDenied", "Invalid according to Policy: Policy Condition failed: %v", c)
	switch c := c.(type) {
	case map[string]any:
		for name, want := range c {
			covered, err := checkCondition([]any{"eq", "$" + name, want}, value, size)
			if err != nil {
				return nil, err
			}
			names = append(names, covered...)
		}
		if len(c) == 0 {
			return nil, invalid
		}
		return names, nil
	case []any:
		if len(c) != 3 {
			return nil, invalid
		}
		operator, _ := c[0].(string)
		if strings.EqualFold(operator, "content-length-range") {
			low, lowOK := sizeIn(c[1])
			high, highOK := sizeIn(c[2])
			if !lowOK || !highOK || low < 0 || high < low {
				return nil, invalid
			}
			size.min = max(size.min, low)
			size.max = min(size.max, high)
			return nil, nil
		}
		name, isName := c[1].(string)
		want, isText := c[2].(string)
		if !isName || !isText || !strings.HasPrefix(name, "$") {
			return nil, invalid
		}
		name = strings.ToLower(name[1:])
		got := value(name)
		switch {
		case strings.EqualFold(operator, "eq"):
			if got != want {
				return nil, denied
			}
		case strings.EqualFold(operator, "starts-with"):
			for part := range strings.SplitSeq(got, ",") {
				if name != "content-type" {
					part = got
				}
				if !strings.HasPrefix(part, want) {
					return nil, denied
				}
			}
		default:
			return nil, invalid
		}
		return []string{name}, nil
	}
	return nil, invalid
}

// sizeIn reads a number from a policy. Clients may write it as a string.
func sizeIn(v any) (int64, bool) {
	if n, ok := v.(float64); ok {
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	}
	text, _ := v.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// checkFields returns an error if a form asks for more than we implement.
func checkFields(fields map[string]string) error {
	for name, value := range fields {
		if strings.HasPrefix(name, "x-amz-") && !httpguts.ValidHeaderFieldName(name) {
			return invalidArgument("The field %s has a name that no header can have.", strconv.Quote(name))
		}
		if name == "acl" {
			name = "x-amz-acl"
		}
		if err := (operation{headers: formFields}).checkHeader(name, value); err != nil {
			return err
		}
	}
	return nil
}

// putFile stores a form's file as PutObject would, with the fields as headers.
func (r *request) putFile(f form, size sizeRange) (object.Object, error) {
	header := http.Header{}
	for name, value := range f.fields {
		if strings.HasPrefix(name, "x-amz-") || slices.Contains(describing, http.CanonicalHeaderKey(name)) {
			header.Set(name, value)
		}
	}
	r.Header = header
	put, err := r.putRequest()
	if err != nil {
		return object.Object{}, err
	}
	put.Event = object.EventPost
	if document := f.fields["tagging"]; document != "" {
		if put.Attributes.Tags, err = decodeTags([]byte(document)); err != nil {
			return object.Object{}, err
		}
	}
	sum, err := r.newChecksummer(f.fields["x-amz-checksum-algorithm"], "")
	if err != nil {
		return object.Object{}, err
	}
	file := &formFile{r: f.file, size: size}
	put.Checksum = sum.sum
	return r.server.Index.Put(r.lasting(), r.bucket, put, io.TeeReader(file, sum), -1)
}

// formFile reads a form's file. The form does not announce its size, so reading fails once it breaks the
// policy's bounds.
type formFile struct {
	r    io.Reader
	size sizeRange
	read int64
}

func (f *formFile) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.read += int64(n)
	switch {
	case f.read > f.size.max:
		return 0, fail("EntityTooLarge")
	case errors.Is(err, io.EOF) && f.read < f.size.min:
		return 0, fail("EntityTooSmall")
	}
	return n, err
}

// formResult answers a form in the way that its fields ask for.
func (r *request) formResult(fields map[string]string, o object.Object) (any, error) {
	header := r.w.Header()
	header.Set("Etag", quoted(o.ETag))
	header.Set("Location", r.location(o.Key))
	setChecksum(header, o.Attributes.Checksum)
	redirect := cmp.Or(fields["success_action_redirect"], fields["redirect"])
	if target, err := url.Parse(redirect); redirect != "" && err == nil && (target.Scheme == "http" || target.Scheme == "https") {
		query := target.Query()
		query.Set("bucket", r.bucket.Name)
		query.Set("key", o.Key)
		query.Set("etag", quoted(o.ETag))
		target.RawQuery = query.Encode()
		header.Set("Location", target.String())
		r.operation.status = http.StatusSeeOther
		return nil, nil
	}
	switch fields["success_action_status"] {
	case "200":
		r.operation.status = http.StatusOK
	case "201":
		r.operation.status = http.StatusCreated
		return created{Location: r.location(o.Key), Bucket: r.bucket.Name, Key: o.Key, ETag: quoted(o.ETag)}, nil
	default:
		r.operation.status = http.StatusNoContent
	}
	return nil, nil
}

// created answers a form that asks for status 201.
type created struct {
	XMLName                     xml.Name `xml:"PostResponse"`
	Location, Bucket, Key, ETag string
}
