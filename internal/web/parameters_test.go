package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
)

type paging struct {
	Limit int `query:"limit" default:"10" maximum:"1000"`
}

type parameters struct {
	paging
	ID    string            `path:"id" maxLength:"3"`
	Tag   string            `header:"If-Match"`
	All   bool              `query:"all"`
	Score page.Opt[float64] `query:"score"`
	Sort  string            `query:"sort" required:"true" enum:"asc,desc"`
}

func serveParameters(t *testing.T, url string) (in parameters, faults []errs.Fault) {
	t.Helper()
	handle := func(_ context.Context, got *parameters) (None, error) {
		in = *got
		return None{}, nil
	}
	api := NewAPI([]Route{On("GET /pet/{id}", "getPet", auth.Self, 204, "Get a pet", handle)},
		func(_ Route, _ http.ResponseWriter, r *http.Request) *http.Request { return r }, nil)
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.Header.Set("If-Match", `"3"`)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if w.Code == http.StatusNoContent {
		return in, nil
	}
	var problem Problem
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return in, problem.Errors
}

func TestParametersAreSet(t *testing.T) {
	in, faults := serveParameters(t, "/pet/rex?all=true&score=0&sort=asc")
	want := parameters{paging: paging{10}, ID: "rex", Tag: `"3"`, All: true, Score: page.Some(0.0), Sort: "asc"}
	if in != want || faults != nil {
		t.Errorf("the input is %+v with the faults %v, want %+v", in, faults, want)
	}
}

func TestInvalidParametersAreAllReported(t *testing.T) {
	_, faults := serveParameters(t, "/pet/wolf?limit=1001&all=maybe&score=high")
	want := []errs.Fault{
		{Location: "query.limit", Message: "expected at most 1000"},
		{Location: "path.id", Message: "expected at most 3 characters"},
		{Location: "query.all", Message: "expected true or false"},
		{Location: "query.score", Message: "expected a number"},
		{Location: "query.sort", Message: "expected a value; it is required"},
	}
	if !reflect.DeepEqual(faults, want) {
		t.Errorf("the faults are %v, want %v", faults, want)
	}
}
