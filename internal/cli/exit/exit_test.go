package exit

import (
	"context"
	"errors"
	"testing"
)

func TestCodes(t *testing.T) {
	documented := map[int]bool{}
	for _, c := range Codes() {
		documented[c.Code] = true
	}
	for status, want := range map[int]int{
		400: 7, 401: 4, 403: 4, 404: 3, 405: 1, 409: 5, 412: 5, 413: 7, 415: 7, 422: 7, 429: 6, 500: 1, 502: 6, 503: 6,
	} {
		if got := OfStatus(status); got != want || !documented[got] {
			t.Errorf("status %d: code %d, want %d", status, got, want)
		}
	}
	for err, want := range map[error]int{nil: 0, errors.New("x"): 1, context.Canceled: 130, Usagef("x"): 2} {
		if got := Code(err); got != want || !documented[got] {
			t.Errorf("%v: code %d, want %d", err, got, want)
		}
	}
}
