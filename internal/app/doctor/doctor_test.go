package doctor

import (
	"net"
	"path/filepath"
	"testing"

	"steward/internal/app/config"
)

// TestEveryListenerIsChecked has another program listen at the address of each listener.
func TestEveryListenerIsChecked(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	address := other.Addr().String()
	found := Examine(t.Context(), config.Config{
		Data: filepath.Join(t.TempDir(), "none"), Listen: address, S3Listen: address, KVListen: address, MetricsListen: address,
		RedirectListen: address, InternalListen: address,
	}, "v1")
	failed := map[string]bool{}
	for _, f := range found {
		failed[f.Check] = f.Status == Failed
	}
	for _, name := range []string{
		"API listener", "S3 listener", "KV listener", "metrics listener", "redirect listener", "internal listener",
	} {
		if !failed[name] {
			t.Errorf("the check of the %s did not fail: %+v", name, found)
		}
	}
}
