// Package sdk serves the API under /sdk with the envelopes that existing platform SDKs and CLIs
// expect: values as {"success": true, "data": …}, errors as {"success": false, "code", "message",
// "details"}.
//
// Routes and handlers are the same as at the root. Values that look different in an envelope
// implement SDK() any.
package sdk

import (
	"context"
	"net/http"
	"regexp"
	"strings"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/web"
)

// Prefix is the path under which the face is mounted.
const Prefix = "/sdk"

// Face puts values and errors into envelopes. Status 204 becomes 200, since these clients expect a
// body. An error's message contains its first fault, since these clients do not show details.
var Face = &web.Face{
	Prefix: Prefix,
	Success: func(status int, value any) (int, any) {
		if status == http.StatusNoContent {
			status = http.StatusOK
		}
		return status, wrap(value)
	},
	Failure: func(ctx context.Context, _ int, e *errs.Error) any {
		f := failure{Code: e.Kind, Message: message(e)}
		if len(e.Faults) > 0 {
			f.Details = &details{Errors: e.Faults, Omitted: e.Omitted, RequestID: web.Request(ctx).ID}
		}
		return f
	},
	FailureType: "application/json",
}

// message returns an error's message with its first fault, unless it says already that there are too
// many.
func message(e *errs.Error) string {
	if len(e.Faults) == 0 || e.Omitted > 0 {
		return e.Message
	}
	return e.Message + ": " + e.Faults[0].Location + ": " + e.Faults[0].Message
}

// success is a value's envelope.
type success struct{ data any }

func (s success) AppendJSON(to []byte) ([]byte, error) {
	to, err := encode.Value(append(to, `{"success":true,"data":`...), s.data)
	return append(to, '}'), err
}

// done is the envelope for a value without data.
type done struct {
	Success bool `json:"success"`
}

type failure struct {
	Success bool      `json:"success"`
	Code    errs.Kind `json:"code"`
	Message string    `json:"message"`
	Details *details  `json:"details,omitempty"`
}

type details struct {
	Errors    []errs.Fault `json:"errors"`
	Omitted   int          `json:"errors_omitted,omitempty"`
	RequestID string       `json:"request_id"`
}

// converter is implemented by values that look different in an envelope.
type converter interface{ SDK() any }

func wrap(value any) any {
	if _, none := value.(web.None); none {
		return done{Success: true}
	}
	if c, ok := value.(converter); ok {
		value = c.SDK()
	}
	return success{value}
}

// datedPath matches the routes to which SDKs append an API version. We ignore it: there is only one.
var datedPath = regexp.MustCompile(`^(/session|/evalrun)/\d{4}-\d{2}-\d{2}$`)

// Mount returns a handler that serves an API under Prefix.
func Mount(api http.Handler) http.Handler {
	return http.StripPrefix(Prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(web.WithFace(r.Context(), Face))
		if strings.HasPrefix(r.URL.Path, Prefix+"/") {
			web.Fail(w, r, errs.New(errs.NotFound, "no such path; see GET /openapi.json"))
			return
		}
		m := datedPath.FindStringSubmatch(r.URL.Path)
		if m != nil && (r.Method == http.MethodPost || r.Method == http.MethodPut) {
			r = r.Clone(r.Context())
			r.URL.Path = m[1]
			r.URL.RawPath = ""
		}
		api.ServeHTTP(w, r)
	}))
}
