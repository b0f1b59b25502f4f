package app

import (
	"bytes"
	"encoding/json"
	"testing"

	"steward/internal/app/top"
	"steward/internal/cli/session"
)

// TestTopShowsARunningServer finds the server by its directory, and the organization that uses it.
func TestTopShowsARunningServer(t *testing.T) {
	dir := t.TempDir()
	a := startServer(t, dir, nil)
	call(t, "GET", a.BaseURL+"/cli/auth/user", "")
	var out bytes.Buffer
	p := program{session.Program{Out: &out, Err: &out}}
	if code := run(t.Context(), p.rootCommand(), []string{"steward", "top", "--data", dir, "--interval", "100ms", "--once", "-o", "json"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	var v top.View
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Organizations) != 1 || v.Memory == 0 {
		t.Errorf("got %s", out.String())
	}
}
