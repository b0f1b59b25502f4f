package s3

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"steward/internal/blob"
	"steward/internal/errs"
	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
)

// failure is the error that a failed request gets.
type failure struct {
	code    string
	message string // "" for the code's default
	region  string // the region that the client should sign for
}

func (f *failure) Error() string { return f.code + ": " + f.text() }

func (f *failure) text() string { return cmp.Or(f.message, codes[f.code].message) }

func (f *failure) status() int { return cmp.Or(codes[f.code].status, http.StatusBadRequest) }

func fail(code string) error { return &failure{code: code} }

func failf(code, format string, args ...any) error {
	return &failure{code: code, message: fmt.Sprintf(format, args...)}
}

func notImplemented(what string) error {
	return failf("NotImplemented", "%s is not implemented by this server.", what)
}

func invalidArgument(format string, args ...any) error {
	return failf("InvalidArgument", format, args...)
}

// codes maps error codes to their status and default message. Others have the status 400, and each failure
// its own message.
var codes = map[string]struct {
	status  int
	message string
}{
	"AccessControlListNotSupported":         {400, "The bucket does not allow ACLs."},
	"AccessDenied":                          {403, "Access Denied."},
	"AccessForbidden":                       {403, "CORSResponse: This CORS request is not allowed. Check the origin, the method and the headers against the bucket's CORS configuration."},
	"BadDigest":                             {400, "The Content-MD5 or checksum value that you specified did not match what the server received."},
	"BucketAlreadyOwnedByYou":               {409, "Your previous request to create the named bucket succeeded and you already own it."},
	"EntityTooLarge":                        {400, "Your proposed upload exceeds the maximum allowed size."},
	"EntityTooSmall":                        {400, "Your proposed upload is smaller than the minimum allowed size."},
	"IncompleteBody":                        {400, "You did not provide the number of bytes specified by the Content-Length HTTP header."},
	"InternalError":                         {500, "We encountered an internal error. Please try again."},
	"InvalidAccessKeyId":                    {403, "The AWS Access Key Id you provided does not exist in our records."},
	"InvalidDigest":                         {400, "The Content-MD5 you specified is not valid."},
	"InvalidPart":                           {400, "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."},
	"InvalidPartNumber":                     {416, "The requested partnumber is not satisfiable."},
	"InvalidPartOrder":                      {400, "The list of parts was not in ascending order. Parts must be ordered by part number."},
	"InvalidRange":                          {416, "The requested range is not satisfiable."},
	"InvalidStorageClass":                   {400, "The storage class you specified is not valid."},
	"InvalidURI":                            {400, "Couldn't parse the specified URI."},
	"KeyTooLongError":                       {400, "Your key is too long."},
	"MalformedPOSTRequest":                  {400, "The body of your POST request is not well-formed multipart/form-data."},
	"MalformedXML":                          {400, "The XML you provided was not well-formed or did not validate against our published schema."},
	"MaxMessageLengthExceeded":              {400, "Your request was too big."},
	"MetadataTooLarge":                      {400, "Your metadata headers exceed the maximum allowed metadata size."},
	"MethodNotAllowed":                      {405, "The specified method is not allowed against this resource."},
	"MissingContentLength":                  {411, "You must provide the Content-Length HTTP header."},
	"NoSuchBucket":                          {404, "The specified bucket does not exist."},
	"NoSuchBucketPolicy":                    {404, "The bucket policy does not exist."},
	"NoSuchCORSConfiguration":               {404, "The CORS configuration does not exist."},
	"NoSuchKey":                             {404, "The specified key does not exist."},
	"NoSuchLifecycleConfiguration":          {404, "The lifecycle configuration does not exist."},
	"NoSuchPublicAccessBlockConfiguration":  {404, "The public access block configuration was not found."},
	"NoSuchTagSet":                          {404, "The TagSet does not exist."},
	"NoSuchUpload":                          {404, "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed."},
	"NoSuchVersion":                         {404, "The specified version does not exist."},
	"NoSuchWebsiteConfiguration":            {404, "The specified bucket does not have a website configuration."},
	"NotImplemented":                        {501, ""},
	"NotModified":                           {304, ""},
	"ObjectLockConfigurationNotFoundError":  {404, "Object Lock configuration does not exist for this bucket."},
	"OperationAborted":                      {409, "A conflicting conditional operation is currently in progress against this resource. Please try again."},
	"PreconditionFailed":                    {412, "At least one of the pre-conditions you specified did not hold."},
	"ReplicationConfigurationNotFoundError": {404, "The replication configuration was not found."},
	"RequestHeaderSectionTooLarge":          {400, "Your request header section exceeds the maximum allowed size."},
	"RequestTimeTooSkewed":                  {403, ""},
	"RequestTimeout":                        {400, "Your socket connection to the server was not read from or written to within the timeout period."},
	"ServerSideEncryptionConfigurationNotFoundError": {404, "The server side encryption configuration was not found."},
	"SignatureDoesNotMatch":                          {403, ""},
	"SlowDown":                                       {503, "Please reduce your request rate."},
}

// errorDocument is the XML body for a failure.
type errorDocument struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Region    string `xml:",omitempty"`
	Bucket    string `xml:"BucketName,omitempty"`
	Key       string `xml:",omitempty"`
	Resource  string
	RequestID string `xml:"RequestId"`
	HostID    string `xml:"HostId"`
}

// failure turns an error into the client's answer and logs errors that the client did not cause.
func (r *request) failure(err error) *failure {
	var known *failure
	var refused *sigv4.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		return &failure{code: refused.Code, message: refused.Message, region: refused.Region}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{code: "IncompleteBody"}
	case isTransient(err):
		r.server.Log.Warn("s3: "+r.route(), "error", err)
		return &failure{code: "SlowDown"}
	}
	for _, e := range []struct {
		err  error
		code string
	}{
		{object.ErrNoUpload, "NoSuchUpload"},
		{object.ErrInvalidPart, "InvalidPart"},
		{object.ErrPartOrder, "InvalidPartOrder"},
		{object.ErrPartTooSmall, "EntityTooSmall"},
		{object.ErrNoBucket, "NoSuchBucket"},
	} {
		if errors.Is(err, e.err) {
			return &failure{code: e.code}
		}
	}
	switch errs.KindOf(err) {
	case errs.NotFound:
		return &failure{code: "NoSuchKey"}
	case errs.Forbidden:
		return &failure{code: "AccessDenied", message: err.Error()}
	case errs.PreconditionFailed:
		return &failure{code: "PreconditionFailed"}
	case errs.TooLarge:
		return &failure{code: "EntityTooLarge"}
	case errs.Malformed:
		return &failure{code: "IncompleteBody"}
	case errs.Invalid:
		return &failure{code: "InvalidArgument", message: err.Error()}
	case errs.Conflict:
		return &failure{code: "OperationAborted", message: err.Error()}
	}
	r.server.Log.Error("s3: "+r.route(), "error", err)
	return &failure{code: "InternalError"}
}

// isTransient reports whether a retry may help: the disk is full, or the blob store or the database is down
// or slow.
func isTransient(err error) bool {
	kind := errs.KindOf(err)
	return errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, os.ErrDeadlineExceeded) ||
		kind == errs.Unavailable || kind == errs.RateLimited
}
