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
	"github.com/danielgtaylor/huma/v2/validation"

	"steward/internal/errs"
)

// statuses is the only place that maps an error's kind to an HTTP status.
var statuses = map[errs.Kind]int{
	errs.Malformed:            http.StatusBadRequest,
	errs.Unauthorized:         http.StatusUnauthorized,
	errs.Forbidden:            http.StatusForbidden,
	errs.Reauthentication:     http.StatusForbidden,
	errs.NotFound:             http.StatusNotFound,
	errs.MethodNotAllowed:     http.StatusMethodNotAllowed,
	errs.Conflict:             http.StatusConflict,
	errs.PreconditionFailed:   http.StatusPreconditionFailed,
	errs.TooLarge:             http.StatusRequestEntityTooLarge,
	errs.HeadersTooLarge:      http.StatusRequestHeaderFieldsTooLarge,
	errs.UnsupportedMediaType: http.StatusUnsupportedMediaType,
	errs.ExpectationFailed:    http.StatusExpectationFailed,
	errs.Invalid:              http.StatusUnprocessableEntity,
	errs.RateLimited:          http.StatusTooManyRequests,
	errs.Internal:             http.StatusInternalServerError,
	errs.Unavailable:          http.StatusServiceUnavailable,
}

// Problem is the body for errors on the root face (RFC 9457).
type Problem struct {
	Type      string       `json:"type" doc:"Always about:blank; see code" example:"about:blank"`
	Title     string       `json:"title" doc:"Text of the HTTP status" example:"Unprocessable Entity"`
	Status    int          `json:"status" doc:"HTTP status" example:"422"`
	Detail    string       `json:"detail" doc:"Description of the error" example:"the request has invalid values"`
	Code      errs.Kind    `json:"code" doc:"Stable, machine-readable kind of the error" example:"invalid"`
	RequestID string       `json:"request_id" doc:"Value of the X-Request-Id header" example:"req_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Errors    []errs.Fault `json:"errors,omitempty" doc:"The invalid values of the request, at most 100"`
	Omitted   int          `json:"errors_omitted,omitempty" doc:"How many more invalid values there are"`
}

// Visible returns the error that a client sees for err. If err is not an *errs.Error, Visible logs it and
// returns an Internal without details.
func Visible(ctx context.Context, err error) *errs.Error {
	e := errs.Of(err)
	if e.Kind == errs.Internal && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		e = errs.Unavailablef(err, "the request was canceled or timed out")
	}
	if e.Kind == errs.Internal || e.Cause != nil {
		Log(ctx).Error("request failed", slog.String("code", string(e.Kind)), slog.Any("error", err))
	}
	return e
}

// Fail writes an error in the request's face.
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

// bareFailure is the root face's Failure.
func bareFailure(ctx context.Context, status int, e *errs.Error) any {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Kind,
		RequestID: Request(ctx).ID, Errors: e.Faults, Omitted: e.Omitted,
	}
}

// useOwnMessages replaces huma's messages with our own wording. None of them may contain the request's
// values: %.0s drops the argument.
func useOwnMessages() {
	validation.MsgExpectedString = "expected a string"
	validation.MsgExpectedBoolean = "expected true or false"
	validation.MsgExpectedNumber = "expected a number"
	validation.MsgExpectedInteger = "expected an integer"
	validation.MsgExpectedArray = "expected an array"
	validation.MsgExpectedObject = "expected an object"
	validation.MsgExpectedOneOf = "expected one of %s"
	validation.MsgExpectedConst = "expected %v"
	validation.MsgExpectedMinimumNumber = "expected at least %v"
	validation.MsgExpectedMaximumNumber = "expected at most %v"
	validation.MsgExpectedMinLength = "expected at least %d characters"
	validation.MsgExpectedMaxLength = "expected at most %d characters"
	validation.MsgExpectedBePattern = "expected %s"
	validation.MsgExpectedMatchPattern = "expected a string that matches %s"
	validation.MsgExpectedMinItems = "expected at least %d items"
	validation.MsgExpectedMaxItems = "expected at most %d items"
	validation.MsgExpectedArrayItemsUnique = "expected items that differ"
	validation.MsgExpectedMinProperties = "expected at least %d entries"
	validation.MsgExpectedMaxProperties = "expected at most %d entries"
	validation.MsgExpectedRFC3339DateTime = "expected an RFC 3339 time such as 2026-11-15T08:30:00Z"
	validation.MsgExpectedRFC3339Date = "expected a date such as 2026-11-15"
	validation.MsgExpectedRFC5322Email = "expected an e-mail address%.0s"
	validation.MsgExpectedRFC3986URI = "expected a URI%.0s"
	validation.MsgExpectedRequiredProperty = missing + "%s"
}

const (
	// missing begins the message for a missing required property. The property's name follows.
	missing  = "missing property "
	required = "expected a value; it is required"
)

// addHumaFaults adds huma's details without their values. If a property is missing, it reports the
// property's location, not the object's.
func addHumaFaults(faults *errs.Faults, details []error) {
	for _, d := range details {
		var detail *huma.ErrorDetail
		if !errors.As(d, &detail) {
			continue
		}
		location, message := detail.Location, detail.Message
		if message == validation.MsgExpectedRFC3339DateTime {
			continue // huma also refuses t and z in lower case; the fields' types and rules find invalid times
		}
		if name, ok := strings.CutPrefix(message, missing); ok {
			location, message = location+"."+name, required
		}
		faults.Add(location, "%s", message)
	}
}
