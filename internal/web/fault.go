package web

import (
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

// statuses is the one place where a kind of error becomes an HTTP status.
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

var titles = map[errs.Kind]string{
	errs.Malformed:            "The request cannot be read",
	errs.Unauthorized:         "The key is missing or not valid",
	errs.Forbidden:            "Not permitted",
	errs.NotFound:             "Not found",
	errs.MethodNotAllowed:     "Method not allowed",
	errs.Conflict:             "In conflict with what is there",
	errs.PreconditionFailed:   "Changed meanwhile",
	errs.TooLarge:             "Too large",
	errs.HeadersTooLarge:      "Too many header fields",
	errs.UnsupportedMediaType: "The body is not JSON",
	errs.Invalid:              "Invalid values",
	errs.RateLimited:          "Too many requests",
	errs.Internal:             "Internal error",
	errs.Unavailable:          "Unavailable for the moment",
}

// Problem is an error on the root face: RFC 9457 with a stable code, the request's id, and every fault of the request at once.
type Problem struct {
	Type      string       `json:"type" doc:"Always about:blank; code tells the kind" example:"about:blank"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"`
	Code      errs.Kind    `json:"code" doc:"Stable, for programs to branch on"`
	RequestID string       `json:"request_id"`
	Errors    []errs.Fault `json:"errors,omitempty" doc:"Every fault of the request, when it has invalid values"`
}

// Visible turns any error into one that the caller may see. What is not ours is logged and becomes an Internal that tells nothing.
func Visible(ctx context.Context, err error) *errs.Error {
	var e *errs.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e = errs.Busy(err, "the request was given up before it was done")
	default:
		e = &errs.Error{Kind: errs.Internal, Message: "internal error", Cause: err}
	}
	if e.Kind == errs.Internal || e.Cause != nil {
		Log(ctx).Error("request failed", slog.String("code", string(e.Kind)), slog.Any("error", err))
	}
	return e
}

// Fail answers with an error, in the form of the face that the request came by.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	e := Visible(r.Context(), err)
	h := w.Header()
	switch e.Kind {
	case errs.Unauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case errs.RateLimited, errs.Unavailable:
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	}
	face := FaceOf(r.Context())
	h.Set("Content-Type", face.FailureType)
	writeJSON(w, r, statuses[e.Kind], face.Failure(r.Context(), statuses[e.Kind], e))
}

// bareFailure is the root face's form of an error.
func bareFailure(ctx context.Context, status int, e *errs.Error) any {
	return &Problem{
		Type: "about:blank", Title: titles[e.Kind], Status: status, Detail: e.Message, Code: e.Kind,
		RequestID: Request(ctx).ID, Errors: e.Faults,
	}
}

// humaFault carries an error that huma found itself (a parameter or body that does not fit its schema) in the form of the request's face.
type humaFault struct {
	status int
	face   *Face
	body   any
}

func (f *humaFault) Error() string                { return http.StatusText(f.status) }
func (f *humaFault) GetStatus() int               { return f.status }
func (f *humaFault) ContentType(string) string    { return f.face.FailureType }
func (f *humaFault) MarshalJSON() ([]byte, error) { return encode.Value(nil, f.body) }

// fromHuma replaces huma's own error type. Its details echo the caller's values, which may be secrets; ours never do.
func fromHuma(hc huma.Context, status int, msg string, details ...error) huma.StatusError {
	if hc == nil { // asked at registration, for the document
		return &humaFault{status: status, face: Bare}
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
	return &humaFault{status: status, face: face, body: face.Failure(hc.Context(), status, e)}
}

func malformedText(msg string) string {
	if strings.Contains(msg, "required") {
		return "this request needs a JSON body"
	}
	return "the body does not have the form that this route takes"
}

func faultsOf(details []error) []errs.Fault {
	faults := make([]errs.Fault, 0, len(details))
	for _, d := range details {
		f := errs.Fault{Message: d.Error()}
		if hd, ok := d.(huma.ErrorDetailer); ok {
			detail := hd.ErrorDetail()
			f = errs.Fault{Location: detail.Location, Message: detail.Message}
		}
		if strings.HasPrefix(f.Message, "json: ") {
			// Theirs names our types and the value.
			f.Message = "a value does not have the type that this route takes, such as 5.0 for a whole number"
		}
		faults = append(faults, f)
	}
	return faults
}
