package redis

import (
	"context"
	"errors"
	"testing"
)

// TestOpeningEndsWithItsContext gives up opening a store, and opens it again.
func TestOpeningEndsWithItsContext(t *testing.T) {
	dir := Dir(t.TempDir())
	if err := Import(dir, func(add func(...string) error) error { return add("set", "k", "v") }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a store was opened for nobody: %v", err)
	}
	if s := open(t, dir, Options{}); s.keys.find("k") == nil {
		t.Error("k is gone")
	}
}
