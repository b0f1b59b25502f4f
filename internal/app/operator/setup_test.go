package operator

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app/config"
	"steward/internal/app/masterkey"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/seal"
)

// TestSetupLinkWithoutAServer makes the link in the process of the command, which needs the master key.
func TestSetupLinkWithoutAServer(t *testing.T) {
	cfg := config.Config{Data: shortDir(t), BaseURL: "https://steward.example"}
	d, err := db.Open(t.Context(), cfg.Database())
	if err != nil {
		t.Fatal(err)
	}
	if err := seal.WriteKeyFile(cfg.Data, seal.NewKey()); err != nil {
		t.Fatal(err)
	}
	ring, err := masterkey.Existing(t.Context(), d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := New(d, ring, cfg.BaseURL)
	err = d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := o.accounts.Bootstrap(tx, "", "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := o.setupLink(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	if err := printSetupLink(t.Context(), session.Program{Out: &out}, cfg); err != nil || !strings.HasPrefix(out.String(), want.Link+"\n") {
		t.Errorf("got %v: %s, want %s", err, out.String(), want.Link)
	}
	key := filepath.Join(cfg.Data, "master.key")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	err = printSetupLink(t.Context(), session.Program{Out: &out}, cfg)
	if err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("without the master key: %v", err)
	}
	if _, err := os.Stat(key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a master key was created: %v", err)
	}
}
