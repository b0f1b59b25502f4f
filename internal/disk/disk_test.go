package disk_test

import (
	"errors"
	"testing"
	"time"

	"steward/internal/disk"
	"steward/internal/errs"
)

func TestSpaceIsLowBelowItsReserve(t *testing.T) {
	dir := t.TempDir()
	free, err := disk.Free(dir)
	if err != nil || free <= 0 {
		t.Fatalf("%d bytes are free: %v", free, err)
	}
	const all = 1 << 60
	for name, test := range map[string]struct {
		space *disk.Space
		low   bool
	}{
		"no reserve":         {&disk.Space{Dir: dir}, false},
		"more than is there": {&disk.Space{Dir: dir, Reserve: all}, true},
		"reusable":           {&disk.Space{Dir: dir, Reserve: all, Reusable: func() (int64, error) { return all, nil }}, false},
		"little reusable":    {&disk.Space{Dir: dir, Reserve: all, Reusable: func() (int64, error) { return 1, nil }}, true},
		"unknown":            {&disk.Space{Dir: dir, Reserve: all, Reusable: func() (int64, error) { return 0, errors.New("failed") }}, false},
		"no directory":       {&disk.Space{Dir: dir + "/none", Reserve: all}, false},
	} {
		if got := test.space.Low(time.Now()); got != test.low {
			t.Errorf("%s: Low returns %v", name, got)
		}
		if err := test.space.Room(); (errs.KindOf(err) == errs.Unavailable) != test.low {
			t.Errorf("%s: Room returns %v", name, err)
		}
	}
	var none *disk.Space
	if err := none.Room(); err != nil {
		t.Errorf("without a disk: %v", err)
	}
}
