package operator

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/seal"
)

// shortDir returns a temporary directory with a path that is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "steward-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// bootstrapped returns an operator of an installation with an owner.
func bootstrapped(t *testing.T, d *db.DB) *Operator {
	t.Helper()
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	o := New(d, ring, "https://steward.example")
	err = d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := o.accounts.Bootstrap(tx, "ada@example.com", "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestControlSocketIsPrivateAndReplacesAStaleOne(t *testing.T) {
	dir := shortDir(t)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketPath(dir), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	if _, err := dial(t.Context(), dir); !errors.Is(err, ErrNoServer) {
		t.Fatalf("the stale socket: %v", err)
	}
	listener, err := listenControl(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	info, err := os.Stat(socketPath(dir))
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	conn, err := dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v", files, err)
	}
}

func TestServerThatEndsIsTold(t *testing.T) {
	dir := shortDir(t)
	listener, err := net.Listen("unix", socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1<<10))
			_ = conn.Close()
		}
	}()
	if _, err := Ask(t.Context(), dir, BackupPath, strings.NewReader("{}")); !errors.Is(err, ErrServerEnded) {
		t.Errorf("got %v", err)
	}
}

func TestTooLongSocketPathIsExplained(t *testing.T) {
	dir := filepath.Join(shortDir(t), strings.Repeat("d", maxSocketPath))
	lock, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := os.WriteFile(datadir.DatabaseFile(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenControl(dir); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("listen: %v", err)
	}
	err = newRootKey(t.Context(), session.Program{}, config.Config{Data: dir}, false)
	if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("root-key: %v", err)
	}
}

// wantFactors requires a number of authenticator apps.
func wantFactors(t *testing.T, d *db.DB, want int) {
	t.Helper()
	var got int
	if err := d.Read(t.Context()).Row(`SELECT count(*) FROM oidc_authenticators`).Scan(&got); err != nil || got != want {
		t.Errorf("there are %d authenticator apps, want %d: %v", got, want, err)
	}
}

func TestOperationsRunInTheServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dir := shortDir(t)
		o := bootstrapped(t, d)
		stop := o.Serve(dir, slog.New(slog.DiscardHandler)).Stop
		defer stop()
		cfg := config.Config{Data: dir}
		_, err := d.Exec(t.Context(), `INSERT INTO oidc_authenticators (user_id, secret, last_step, failures, retry_at, created_at)
			SELECT id, $1, 0, 0, 0, 0 FROM users WHERE email = 'ada@example.com'`, []byte("sealed"))
		if err != nil {
			t.Fatal(err)
		}

		key, err := rootKeyOperation().run(t.Context(), cfg, rootKeyInput{})
		if err != nil || !strings.HasPrefix(key.Value, "sk_") {
			t.Errorf("root key: %v, %v", key, err)
		}
		reset, err := resetOperation().run(t.Context(), cfg, resetInput{Email: "ADA@example.com"})
		if err != nil {
			t.Fatal(err)
		}
		token, ok := strings.CutPrefix(reset.Link, "https://steward.example/reset/")
		login, err := o.accounts.ResetOf(t.Context(), token)
		if !ok || err != nil || login.Email != "ada@example.com" || reset.ExpiresAt == 0 {
			t.Errorf("reset: %v, %v, %v", reset, login, err)
		}
		wantFactors(t, d, 1)
		_, err = resetOperation().run(t.Context(), cfg, resetInput{Email: "ada@example.com", ClearFactors: true})
		if err != nil {
			t.Fatal(err)
		}
		wantFactors(t, d, 0)
		_, err = resetOperation().run(t.Context(), cfg, resetInput{Email: "bob@example.com"})
		if errs.KindOf(err) != errs.NotFound || err.Error() != "no user has the e-mail address bob@example.com" {
			t.Errorf("unknown address: %v", err)
		}
		_, err = setupOperation().run(t.Context(), cfg, struct{}{})
		if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "is set up") {
			t.Errorf("setup of an installation with an owner: %v", err)
		}
		org, err := organizationOperation().run(t.Context(), cfg, organizationInput{"Acme"})
		if err != nil || !strings.HasPrefix(org.ID, "org_") || !strings.HasPrefix(org.RootKey, "sk_") {
			t.Errorf("organization: %v, %v", org, err)
		}
		for _, name := range []string{" ", "a\x00b", strings.Repeat("é", 257)} {
			_, err := organizationOperation().run(t.Context(), cfg, organizationInput{name})
			if err == nil || !strings.Contains(err.Error(), "the name of an organization must be") {
				t.Errorf("organization %q: %v", name, err)
			}
		}
		var out account.Reset
		for name, ask := range map[string]struct {
			path string
			in   any
			want string
		}{
			"other path": {"/format-disk", struct{}{}, "404"},
			"not JSON":   {resetOperation().path, "text", "decode the request"},
			"too large":  {resetOperation().path, resetInput{Email: strings.Repeat("a", maxControlBody)}, "too large"},
		} {
			err := askServer(t.Context(), dir, ask.path, ask.in, &out)
			if err == nil || !strings.Contains(err.Error(), ask.want) {
				t.Errorf("%s: %v", name, err)
			}
		}

		stop()
		if err := askServer(t.Context(), dir, rootKeyOperation().path, rootKeyInput{}, &key); !errors.Is(err, ErrNoServer) {
			t.Errorf("after the stop: %v", err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
			t.Errorf("the directory has %v, %v", files, err)
		}
	})
}

func TestCommandsCreateNoInstallation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "typo")
	for name, command := range map[string]func(context.Context, config.Config) error{
		"root-key": func(ctx context.Context, cfg config.Config) error {
			return newRootKey(ctx, session.Program{}, cfg, false)
		},
		"organization": func(ctx context.Context, cfg config.Config) error {
			return createOrganization(ctx, session.Program{}, cfg, "a")
		},
		"setup-link": func(ctx context.Context, cfg config.Config) error {
			return printSetupLink(ctx, session.Program{}, cfg)
		},
		"secrets rotate": func(ctx context.Context, cfg config.Config) error {
			return rotateSecrets(ctx, session.Program{}, cfg, false)
		},
		"secrets status": func(ctx context.Context, cfg config.Config) error {
			return secretsStatus(ctx, session.Program{}, cfg, "")
		},
		"reset-password": func(ctx context.Context, cfg config.Config) error {
			return resetPassword(ctx, session.Program{}, cfg, resetInput{Email: "a@b.example"})
		},
	} {
		err := command(t.Context(), config.Config{Data: dir})
		if errs.KindOf(err) != errs.NotFound || !strings.Contains(err.Error(), "no installation in "+dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was created: %v", err)
	}
}

// TestInterruptedRotationHasItsExitCode interrupts the command while the server does a step.
func TestInterruptedRotationHasItsExitCode(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	o := bootstrapped(t, dbtest.Open(t, db.SQLite))
	o.ring = func(ctx context.Context) (*seal.Ring, error) {
		interrupt()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	dir := shortDir(t)
	stop := o.Serve(dir, slog.New(slog.DiscardHandler)).Stop
	defer stop()
	err := rotateSecrets(ctx, session.Program{Out: io.Discard, Err: io.Discard}, config.Config{Data: dir}, false)
	if exit.Code(err) != exit.Interrupted || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("got %v", err)
	}
}
