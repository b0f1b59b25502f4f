package errs_test

import (
	"errors"
	"fmt"
	"testing"

	"steward/internal/errs"
)

func TestKindOf(t *testing.T) {
	conflict := errs.New(errs.Conflict, "taken")
	for _, test := range []struct {
		err  error
		want errs.Kind
	}{
		{nil, ""},
		{conflict, errs.Conflict},
		{fmt.Errorf("insert user: %w", conflict), errs.Conflict},
		{errs.Unavailablef(conflict, "try again"), errs.Unavailable},
		{errors.New("disk full"), errs.Internal},
		{errs.Missing("webhook", "wh_1"), errs.NotFound},
	} {
		if got := errs.KindOf(test.err); got != test.want {
			t.Errorf("KindOf(%v) = %q, want %q", test.err, got, test.want)
		}
	}
}

func TestFaultsAreReportedTogether(t *testing.T) {
	var faults errs.Faults
	if err := faults.Err(); err != nil {
		t.Fatalf("no faults, but %v", err)
	}
	faults.Check(true, "body.a", "fine")
	faults.Check(false, "body.b", "expected at most %d bytes", 5)
	faults.Add("body.c", "expected a name")
	err := faults.Err()
	if errs.KindOf(err) != errs.Invalid {
		t.Fatalf("%v is not Invalid", err)
	}
	want := "the request has invalid values; body.b: expected at most 5 bytes; body.c: expected a name"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestCauseIsPartOfTheChain(t *testing.T) {
	cause := errors.New("disk full")
	err := errs.Unavailablef(cause, "the database is unavailable")
	if !errors.Is(err, cause) || err.Error() != "the database is unavailable (disk full)" {
		t.Errorf("got %q", err)
	}
}
