package dbtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/porttest"
	"steward/internal/waittest"
)

// PgBouncer starts PgBouncer in front of a database with a pool mode, and returns the URL that leads
// through it. It opens fewer connections to the server than clients do, and takes them in turn, so
// that session state ends up with another client.
func PgBouncer(t testing.TB, database, mode string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin = "/usr/sbin/pgbouncer" // Debian's, not in users' PATH
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("PgBouncer for tests: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "steward-pgbouncer-")
	must(err)
	t.Cleanup(func() { must(os.RemoveAll(dir)) })
	owner, err := unprivileged(dir)
	must(err)
	u, err := url.Parse(database)
	must(err)
	port := porttest.Free(t)
	file := filepath.Join(dir, "pgbouncer.ini")
	must(os.WriteFile(file, []byte(pgbouncerConfig(u, port, mode)), 0o644))
	log, err := os.Create(filepath.Join(dir, "log"))
	must(err)
	cmd := exec.Command(bin, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = log
	must(cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = log.Close()
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	waittest.Until(t, "PgBouncer to listen", func() (string, bool) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			return string(text), false
		}
		return "", conn.Close() == nil
	})
	through := url.URL{Scheme: "postgres", User: url.User(u.User.Username()), Host: address, Path: u.Path, RawQuery: "sslmode=disable"}
	return through.String()
}

// pgbouncerConfig returns the configuration for a URL's database.
func pgbouncerConfig(u *url.URL, port int, mode string) string {
	server := map[string]string{
		"host": u.Query().Get("host"), "port": "5432", "dbname": strings.TrimPrefix(u.Path, "/"), "user": u.User.Username(),
	}
	if u.Hostname() != "" {
		server["host"] = u.Hostname()
		server["port"] = u.Port()
	}
	if password, ok := u.User.Password(); ok {
		server["password"] = password
	}
	line := server["dbname"] + " ="
	for name, value := range server {
		line += fmt.Sprintf(" %s='%s'", name, value)
	}
	return fmt.Sprintf(`[databases]
%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 8
max_client_conn = 500
server_round_robin = 1
`, line, port, mode)
}
