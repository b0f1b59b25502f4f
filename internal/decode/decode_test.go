package decode_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/decode"
	"steward/internal/errs"
	"steward/internal/page"
)

type embedded struct {
	Color string `json:"color"`
}

type part struct {
	Size *int64         `json:"size"`
	Free map[string]any `json:"free"`
}

type whole struct {
	embedded
	Name   string           `json:"name"`
	Plain  bool             `nullable:"false"`
	Hidden string           `json:"-"`
	Parts  []part           `json:"parts"`
	One    page.Opt[part]   `json:"one"`
	Raw    json.RawMessage  `json:"raw"`
	Count  page.Opt[int64]  `json:"count"`
	Tags   []string         `json:"tags"`
	Text   page.Opt[string] `json:"text"`
}

func TestNamesMatchExactly(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","color":"red","Plain":true}`:                     `{"name":"a","color":"red","Plain":true}`,
		`{"NAME":"a","Color":"red","plain":true,"Hidden":"x"}`:        `{}`,
		`{"name":"a","NAME":"b","Name":"c"}`:                          `{"name":"a"}`,
		`{"NAME":"b","name":"a"}`:                                     `{"name":"a"}`,
		`{"name":"a","name":"b"}`:                                     `{"name":"b"}`,
		`{"parts":[{"SIZE":1},{"size":2,"Size":3}]}`:                  `{"parts":[{},{"size":2}]}`,
		`{"one":{"SIZE":1,"free":{"SIZE":1,"size":2}}}`:               `{"one":{"free":{"SIZE":1,"size":2}}}`,
		`{"raw":{"NAME":1,  "name":2.50,"name":3}, "free":"unknown"}`: `{"raw":{"NAME":1,  "name":2.50,"name":3}}`,
		`{"name":null,"parts":null,"one":null}`:                       `{"one":null}`,
		`{"count":3600.0,"parts":[{"size":2e3}]}`:                     `{"count":3600,"parts":[{"size":2000}]}`,
		`null`: `{}`,
	} {
		var got, expected whole
		if err := decode.JSON([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, got, cmp.AllowUnexported(whole{})); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestEveryValueThatDoesNotFitIsReported(t *testing.T) {
	var got whole
	err := decode.JSON([]byte(`{"text":1,"Plain":null,"parts":[{"size":"x"},{"size":1},7],"one":{"size":true},
		"count":1.5,"tags":[1,"b"],"color":[],"name":"kept"}`), &got)
	var e *errs.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	var locations []string
	for _, f := range e.Faults {
		locations = append(locations, f.Location)
		if !strings.HasPrefix(f.Message, "expected ") {
			t.Errorf("%s: %s", f.Location, f.Message)
		}
	}
	want := ".color .Plain .parts[0].size .parts[2] .one.size .count .tags[0] .text"
	if strings.Join(locations, " ") != want {
		t.Errorf("faults at %s, want %s", strings.Join(locations, " "), want)
	}
	if got.Name != "kept" || len(got.Parts) != 3 || *got.Parts[1].Size != 1 || got.Tags[1] != "b" {
		t.Errorf("the values that fit are not decoded: %+v", got)
	}
}

func TestWhatHasAFaultIsLeftOut(t *testing.T) {
	var got whole
	var faults errs.Faults
	faults.Add("body.parts", "expected at most 1 items")
	faults.Add("body.one.size", "expected an integer")
	decode.Into(&faults, "body", []byte(`{"parts":[{"size":"x"},{}],"one":{"size":"x"},"name":1}`), &got)
	var e *errs.Error
	if !errors.As(faults.Err(), &e) || len(e.Faults) != 3 || e.Faults[2].Location != "body.name" || got.Parts != nil {
		t.Errorf("%v, %+v", faults.Err(), got)
	}
}
