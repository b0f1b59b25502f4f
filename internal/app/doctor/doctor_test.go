package doctor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app/config"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

func TestMain(m *testing.M) {
	dbtest.OwnServer()
	os.Exit(m.Run())
}

// TestTransactionsThatHoldTailsBackAreNamed opens a transaction of another application in another database of the server.
func TestTransactionsThatHoldTailsBackAreNamed(t *testing.T) {
	d := &doctor{cfg: config.Config{DatabaseURL: config.Secret(dbtest.Postgres(t))}}
	if f := d.tails(t.Context()); f.Status != OK {
		t.Errorf("without one it finds %+v", f)
	}
	other := dbtest.Postgres(t)
	end := dbtest.OpenTransaction(t, other)
	waittest.Until(t, "a warning", func() (string, bool) {
		f := d.tails(t.Context())
		return f.Detail, f.Status == Warning && strings.Contains(f.Detail, "process ") && strings.Contains(f.Advice, "pg_terminate_backend")
	})
	end()
	waittest.True(t, "it to be over", func() bool { return d.tails(t.Context()).Status == OK })
}

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
