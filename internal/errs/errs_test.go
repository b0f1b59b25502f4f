package errs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
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
		{fmt.Errorf("create: %w", &fs.PathError{Op: "open", Err: syscall.EMFILE}), errs.Unavailable},
		{os.NewSyscallError("socket", syscall.ENFILE), errs.Unavailable},
		{&fs.PathError{Op: "write", Err: syscall.ENOSPC}, errs.Unavailable},
		{&fs.PathError{Op: "write", Err: syscall.EDQUOT}, errs.Unavailable},
		{os.NewSyscallError("mmap", syscall.ENOMEM), errs.Unavailable},
		{os.NewSyscallError("fork/exec", syscall.EAGAIN), errs.Unavailable},
		{os.NewSyscallError("connect", syscall.EADDRNOTAVAIL), errs.Unavailable},
		{os.NewSyscallError("sendmsg", syscall.ENOBUFS), errs.Unavailable},
		{&fs.PathError{Op: "open", Err: syscall.EACCES}, errs.Internal},
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

func TestFaultsAreBounded(t *testing.T) {
	var faults errs.Faults
	for i := range errs.MaxFaults + 23 {
		faults.Add(fmt.Sprintf("body.list[%d]", i), "expected a name")
	}
	var e *errs.Error
	if !errors.As(faults.Err(), &e) || len(e.Faults) != errs.MaxFaults || e.Omitted != 23 {
		t.Fatalf("%d faults and %d omitted", len(e.Faults), e.Omitted)
	}
	if want := "the request has invalid values; 23 more are not listed"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
}

func TestOneFaultPerValue(t *testing.T) {
	var faults errs.Faults
	faults.Add("body.config", "expected an object").Add("body.list[1]", "expected a name")
	for location, reported := range map[string]bool{
		"body.config": true, "body.config.url": true, "body.list[1].name": true,
		"body.configuration": false, "body.list[10]": false, "body.list": false, "body": false,
	} {
		if faults.Has(location) != reported {
			t.Errorf("Has(%q) = %v", location, !reported)
		}
	}
}

func TestLongIDsAreCut(t *testing.T) {
	for id, want := range map[string]string{
		"wh_1":                      "webhook wh_1 not found",
		strings.Repeat("ü", 128):    "webhook " + strings.Repeat("ü", 128) + " not found",
		strings.Repeat("ü", 1000):   "webhook " + strings.Repeat("ü", 128) + "… not found",
		strings.Repeat("\xff", 200): "webhook " + strings.Repeat("\xff", 128) + "… not found",
	} {
		if got := errs.Missing("webhook", id).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
