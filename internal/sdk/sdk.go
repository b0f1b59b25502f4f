// Package sdk owns the enveloped face of the API, for existing platform SDKs and CLIs: the same table and handlers under /sdk, each answer
// inside {"success": true, "data": …}, each error as {"success": false, "code", "message", "details"}.
//
// A handler's value becomes `data` as it is. Where these clients expect another form, the value says so itself by a method SDK() any.
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

// Prefix is where the face is mounted.
const Prefix = "/sdk"

// Face wraps values and errors. These clients cannot read an empty answer, so 204 becomes 200.
var Face = &web.Face{
	Prefix: Prefix,
	Success: func(status int, value any) (int, any) {
		if status == http.StatusNoContent {
			status = http.StatusOK
		}
		return status, wrap(value)
	},
	Failure: func(ctx context.Context, _ int, e *errs.Error) any {
		f := failure{Code: e.Kind, Message: e.Message}
		if len(e.Faults) > 0 {
			f.Details = &details{Errors: e.Faults, RequestID: web.Request(ctx).ID}
		}
		return f
	},
	FailureType: "application/json",
}

// success is {"success": true, "data": …}.
type success struct{ data any }

func (s success) AppendJSON(to []byte) ([]byte, error) {
	to, err := encode.Value(append(to, `{"success":true,"data":`...), s.data)
	return append(to, '}'), err
}

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
	RequestID string       `json:"request_id"`
}

// formed values have another form on this face.
type formed interface{ SDK() any }

func wrap(value any) any {
	if _, none := value.(web.None); none {
		return done{Success: true}
	}
	if f, ok := value.(formed); ok {
		value = f.SDK()
	}
	return success{value}
}

// dated are the runtime routes after which existing SDKs write the date of the API that they were made for. It names the only version
// there is.
var dated = regexp.MustCompile(`^(/session|/evalrun)/\d{4}-\d{2}-\d{2}$`)

// Mount serves an API under Prefix, in this face. Below Prefix there is no second one.
func Mount(api http.Handler) http.Handler {
	return http.StripPrefix(Prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(web.WithFace(r.Context(), Face))
		if strings.HasPrefix(r.URL.Path, Prefix+"/") {
			web.Fail(w, r, errs.New(errs.NotFound, "there is no such path"))
			return
		}
		if m := dated.FindStringSubmatch(r.URL.Path); m != nil && (r.Method == http.MethodPost || r.Method == http.MethodPut) {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = m[1], ""
		}
		api.ServeHTTP(w, r)
	}))
}
