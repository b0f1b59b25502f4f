package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/encode"
	"steward/internal/errs"
)

// statuses is the only place where a kind of error becomes an HTTP status.
var statuses = map[errs.Kind]int{
	errs.Malformed:            http.StatusBadRequest,
	errs.Unauthorized:         http.StatusUnauthorized,
	errs.Forbidden:            http.StatusForbidden,
	errs.NotFound:             http.StatusNotFound,
	errs.MethodNotAllowed:     http.StatusMethodNotAllowed,
	errs.Conflict:             http.StatusConflict,
	errs.PreconditionFailed:   http.StatusPreconditionFailed,
	errs.TooLarge:             http.StatusRequestEntityTooLarge,
	errs.HeadersTooLarge:      http.StatusRequestHeaderFieldsTooLarge,
	errs.UnsupportedMediaType: http.StatusUnsupportedMediaType,
	errs.Invalid:              http.StatusUnprocessableEntity,
	errs.RateLimited:          http.StatusTooManyRequests,
	errs.Internal:             http.StatusInternalServerError,
	errs.Unavailable:          http.StatusServiceUnavailable,
}

// Problem is the body of an error on the root face (RFC 9457).
type Problem struct {
	Type      string       `json:"type" doc:"Always about:blank; see code" example:"about:blank"`
	Title     string       `json:"title" doc:"Text of the HTTP status"`
	Status    int          `json:"status" doc:"HTTP status"`
	Detail    string       `json:"detail" doc:"Description of the error"`
	Code      errs.Kind    `json:"code" doc:"Stable, machine-readable kind of the error"`
	RequestID string       `json:"request_id" doc:"Value of the X-Request-Id header"`
	Errors    []errs.Fault `json:"errors,omitempty" doc:"All invalid values of the request"`
}

// Visible returns the error that a client sees for err. An error that is not an *errs.Error is
// logged and becomes an Internal without details.
func Visible(ctx context.Context, err error) *errs.Error {
	var e *errs.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e = errs.Unavailablef(err, "the request was canceled or timed out")
	default:
		e = &errs.Error{Kind: errs.Internal, Message: "internal error", Cause: err}
	}
	if e.Kind == errs.Internal || e.Cause != nil {
		Log(ctx).Error("request failed", slog.String("code", string(e.Kind)), slog.Any("error", err))
	}
	return e
}

// Fail writes an error in the form of the request's face.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	e := Visible(r.Context(), err)
	h := w.Header()
	switch e.Kind {
	case errs.Unauthorized:
		h.Set("WWW-Authenticate", cmp.Or(e.Challenge, "Bearer"))
	case errs.RateLimited, errs.Unavailable:
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	}
	face := FaceOf(r.Context())
	h.Set("Content-Type", face.FailureType)
	writeJSON(w, r, statuses[e.Kind], face.Failure(r.Context(), statuses[e.Kind], e))
}

// bareFailure is the Failure of the root face.
func bareFailure(ctx context.Context, status int, e *errs.Error) any {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Kind,
		RequestID: Request(ctx).ID, Errors: e.Faults,
	}
}

// humaError is an error that huma found, such as a parameter that does not match its schema, in the
// form of the request's face.
type humaError struct {
	status int
	face   *Face
	body   any
}

func (e *humaError) Error() string                { return http.StatusText(e.status) }
func (e *humaError) GetStatus() int               { return e.status }
func (e *humaError) ContentType(string) string    { return e.face.FailureType }
func (e *humaError) MarshalJSON() ([]byte, error) { return encode.Value(nil, e.body) }

// newHumaError replaces huma's own constructor, whose errors contain the values of the request,
// which may be secrets.
func newHumaError(hc huma.Context, status int, msg string, details ...error) huma.StatusError {
	if hc == nil { // during registration, for the OpenAPI document
		return &humaError{status: status, face: Bare}
	}
	e := &errs.Error{Kind: errs.Invalid, Message: "the request has invalid values", Faults: faultsOf(details)}
	switch status {
	case http.StatusUnprocessableEntity:
	case http.StatusBadRequest:
		e = errs.New(errs.Malformed, "%s", malformedText(msg))
	default:
		e = Visible(hc.Context(), errors.Join(append(details, errors.New(msg))...))
	}
	face := FaceOf(hc.Context())
	status = statuses[e.Kind]
	return &humaError{status: status, face: face, body: face.Failure(hc.Context(), status, e)}
}

func malformedText(msg string) string {
	if strings.Contains(msg, "required") {
		return "this request needs a JSON body"
	}
	return "the body cannot be decoded: it does not match the schema of this route"
}

// faultsOf converts huma's details, without the values in them.
func faultsOf(details []error) []errs.Fault {
	faults := make([]errs.Fault, 0, len(details))
	for _, d := range details {
		f := errs.Fault{Message: d.Error()}
		var detailer huma.ErrorDetailer
		if errors.As(d, &detailer) {
			detail := detailer.ErrorDetail()
			f = errs.Fault{Location: detail.Location, Message: detail.Message}
		}
		if strings.HasPrefix(f.Message, "json: ") { // names a Go type and the value
			f.Message = "expected a value of another type, such as 5 and not 5.0 for an integer"
		}
		faults = append(faults, f)
	}
	return faults
}
