package masterkey

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app/config"
	"steward/internal/seal"
)

// script writes an executable file.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandPrintsTheMasterKey(t *testing.T) {
	command := script(t, `echo "$1"`)
	ring, err := Ring(t.Context(), config.Config{MasterKeyCommand: "  " + command + "  " + strings.Repeat("07", 32)})
	if err != nil {
		t.Fatal(err)
	}
	want, err := seal.NewRing(bytes.Repeat([]byte{7}, 32))
	if err != nil || ring.KeyID() != want.KeyID() {
		t.Errorf("the key is %s, %v", ring.KeyID(), err)
	}
}

func TestInterruptedCommandIsNoTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ring(ctx, config.Config{MasterKeyCommand: script(t, "exec sleep 60")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFailuresOfTheCommandShowNothingOfItsOutput(t *testing.T) {
	for text, want := range map[string]string{
		"echo QQQ":                           "what the command prints must be 32 bytes",
		"echo QQQ; echo QQQ >&2; exit 3":     "exit status 3",
		"while :; do echo QQQQQQQQQQ; done":  "more than 4096 bytes",
		"exec /does/not/exist/QQQ/steward -": "exit status",
	} {
		_, err := Ring(t.Context(), config.Config{MasterKeyCommand: script(t, text)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "QQQ") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
