package s3

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"steward/internal/blob"
	"steward/internal/errs"
	"steward/internal/object"
)

// apiError returns the S3 error of an error. What is not found becomes missing, such as
// ErrNoSuchKey. Errors that the client did not cause are logged.
func apiError(log *slog.Logger, doing string, err error, missing s3err.ErrorCode) error {
	var known s3err.S3Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s3err.GetAPIError(s3err.ErrIncompleteBody)
	case isTransient(err):
		log.Warn("s3: "+doing, "error", err)
		return s3err.GetAPIError(s3err.ErrSlowDown)
	}
	if code, ok := uploadError(err); ok {
		return s3err.GetAPIError(code)
	}
	switch errs.KindOf(err) {
	case errs.NotFound:
		return s3err.GetAPIError(missing)
	case errs.Forbidden:
		return s3err.APIError{Code: "AccessDenied", Description: err.Error(), HTTPStatusCode: http.StatusForbidden}
	case errs.PreconditionFailed:
		return s3err.GetAPIError(s3err.ErrPreconditionFailed)
	case errs.TooLarge:
		return s3err.GetAPIError(s3err.ErrEntityTooLarge)
	case errs.Malformed:
		return s3err.GetAPIError(s3err.ErrIncompleteBody)
	case errs.Invalid:
		return invalidArgument(err.Error())
	case errs.Conflict:
		return s3err.APIError{Code: "OperationAborted", Description: err.Error(), HTTPStatusCode: http.StatusConflict}
	}
	log.Error("s3: "+doing, "error", err)
	return s3err.GetAPIError(s3err.ErrInternalError)
}

// isTransient reports whether a retry may help: the disk is full, or the blob store or the database
// is down or slow.
func isTransient(err error) bool {
	kind := errs.KindOf(err)
	return errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, os.ErrDeadlineExceeded) ||
		kind == errs.Unavailable || kind == errs.RateLimited
}

func uploadError(err error) (s3err.ErrorCode, bool) {
	for _, e := range []struct {
		err  error
		code s3err.ErrorCode
	}{
		{object.ErrNoUpload, s3err.ErrNoSuchUpload},
		{object.ErrInvalidPart, s3err.ErrInvalidPart},
		{object.ErrPartOrder, s3err.ErrInvalidPartOrder},
		{object.ErrPartTooSmall, s3err.ErrEntityTooSmall},
	} {
		if errors.Is(err, e.err) {
			return e.code, true
		}
	}
	return 0, false
}

// errRequestTimeout is the answer to a client that has stopped sending.
func errRequestTimeout() s3err.S3Error {
	return s3err.APIError{
		Code: "RequestTimeout", HTTPStatusCode: http.StatusBadRequest,
		Description: "Your socket connection to the server was not read from or written to within the timeout period.",
	}
}

// errSignatureV2 is the answer to a signature that is not of version 4. Some clients make those of
// version 2 unless they are told otherwise.
func errSignatureV2() s3err.S3Error {
	return s3err.APIError{
		Code: "InvalidRequest", HTTPStatusCode: http.StatusBadRequest,
		Description: "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256: " +
			"set the signature version of your client to s3v4.",
	}
}

func invalidArgument(message string) s3err.S3Error {
	return s3err.APIError{Code: "InvalidArgument", Description: message, HTTPStatusCode: http.StatusBadRequest}
}

func notImplemented(what string) s3err.S3Error {
	return s3err.APIError{
		Code: "NotImplemented", HTTPStatusCode: http.StatusNotImplemented,
		Description: what + " is not implemented by this server.",
	}
}

// sendUnreadable is the answer to what is not an HTTP request, is too large, or does not arrive. The
// connection is closed afterwards.
func sendUnreadable(ctx *fasthttp.RequestCtx, err error) {
	var answer s3err.S3Error = s3err.GetAPIError(s3err.ErrCannotParseHTTPRequest)
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		answer = s3err.GetRequestHeaderSectionTooLargeErr(maxHeader)
	case errors.Is(err, os.ErrDeadlineExceeded):
		answer = errRequestTimeout()
	}
	request := utils.NewS3RequestID()
	ctx.Response.Header.Set(utils.HeaderAmzRequestID, request)
	ctx.Response.Header.SetContentType("application/xml")
	ctx.Response.SetStatusCode(answer.StatusCode())
	ctx.Response.SetBody(answer.XMLBody(request, ""))
}

// maxHeader is the maximum size of the headers of a request, which the protocol fixes.
const maxHeader = 8 << 10
