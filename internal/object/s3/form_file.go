package s3

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3err"
)

// maxFields is the maximum size of the fields of a form before its file.
const maxFields = 64 << 10

// form is a form up to its file, the part of that name. As in S3, fields after it are ignored.
type form struct {
	fields map[string]string // by their names in lower case
	file   io.Reader
}

// parseForm reads a form up to its file.
func parseForm(ctx fiber.Ctx) (form, error) {
	_, params, err := mime.ParseMediaType(ctx.Get(fiber.HeaderContentType))
	stream := ctx.Request().BodyStream()
	if err != nil || params["boundary"] == "" || stream == nil {
		return form{}, s3err.GetAPIError(s3err.ErrMalformedPOSTRequest)
	}
	head := &io.LimitedReader{R: stream, N: maxFields}
	parsed, err := readForm(multipart.NewReader(head, params["boundary"]))
	var known s3err.S3Error
	switch {
	case err == nil:
		head.N = math.MaxInt64 // the file is streamed
		return parsed, nil
	case head.N <= 0:
		return form{}, s3err.GetMaxMessageLengthExceeded(maxFields)
	case errors.As(err, &known):
		return form{}, known
	}
	return form{}, s3err.GetAPIError(s3err.ErrMalformedPOSTRequest)
}

// readForm reads the parts of a form up to the one that is named file.
func readForm(r *multipart.Reader) (form, error) {
	f := form{fields: map[string]string{}}
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return form{}, s3err.GetInvalidArgumentErr(s3err.InvalidArgPOSTFileRequired, "0")
		}
		if err != nil {
			return form{}, fmt.Errorf("read part of form: %w", err)
		}
		name := strings.ToLower(part.FormName())
		switch name {
		case "":
			return form{}, s3err.GetAPIError(s3err.ErrMalformedPOSTRequest)
		case "file":
			f.file = part
			f.expand(part.FileName())
			return f, nil
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return form{}, fmt.Errorf("read field of form: %w", err)
		}
		f.add(name, string(value))
	}
}

// add adds a field. Metadata of the same name is one list.
func (f form) add(name, value string) {
	if old, ok := f.fields[name]; ok && strings.HasPrefix(name, "x-amz-meta-") {
		value = old + "," + value
	}
	f.fields[name] = value
}

// expand replaces ${filename} in all fields by the name of the file without its directory.
func (f form) expand(filename string) {
	filename = filename[strings.LastIndexAny(filename, `/\`)+1:]
	for name, value := range f.fields {
		f.fields[name] = strings.ReplaceAll(value, "${filename}", filename)
	}
}

// checkFields returns an error if a form asks for more than is carried out.
func checkFields(fields map[string]string) error {
	for name, value := range fields {
		if name == "acl" {
			name = "x-amz-acl"
		}
		if err := (operation{headers: formFields}).checkHeader(name, value); err != nil {
			return err
		}
		if algorithm, ok := strings.CutPrefix(name, "x-amz-checksum-"); ok && algorithm != "algorithm" {
			if err := checkAlgorithm(types.ChecksumAlgorithm(strings.ToUpper(algorithm))); err != nil {
				return err
			}
		}
	}
	return nil
}

// formFile is the file of a form. Reading it fails if it has another size than the policy allows: its
// size is not known before.
type formFile struct {
	r                     io.Reader
	size                  sizeRange
	storageClass, tagging string // fields that the protocol does not hand over as they are
	read                  int64
}

func (f *formFile) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.read += int64(n)
	switch {
	case f.read > f.size.max:
		return 0, s3err.GetEntityTooLargeErr(f.read, f.size.max)
	case errors.Is(err, io.EOF) && f.read < f.size.min:
		return 0, s3err.GetEntityTooSmallErr(f.read, f.size.min)
	}
	return n, err
}

// Length returns how much has been read.
func (f *formFile) Length() int64 { return f.read }

// sizeRange is the range of sizes that a file may have.
type sizeRange struct{ min, max int64 }

// sizeRangeOf returns the range that a policy allows. A policy that cannot be read is refused later.
func sizeRangeOf(policy string) sizeRange {
	size := sizeRange{0, maxObject}
	var document struct{ Conditions []any }
	policy = strings.TrimSpace(policy)
	text, err := base64.StdEncoding.DecodeString(policy)
	if err != nil {
		text, err = base64.RawStdEncoding.DecodeString(policy)
	}
	if err != nil || json.Unmarshal(text, &document) != nil {
		return size
	}
	for _, c := range document.Conditions {
		condition, ok := c.([]any)
		if !ok || len(condition) != 3 || !strings.EqualFold(fmt.Sprint(condition[0]), "content-length-range") {
			continue
		}
		size.min = max(size.min, sizeIn(condition[1]))
		size.max = min(size.max, sizeIn(condition[2]))
	}
	return size
}

// sizeIn returns the number in a policy, which may be a text.
func sizeIn(v any) int64 {
	if n, ok := v.(float64); ok {
		return int64(n)
	}
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
