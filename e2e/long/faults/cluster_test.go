package faults

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"steward/e2e/process"
	"steward/internal/apikey"
	"steward/internal/db/dbtest"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// cluster is one process, or several behind HAProxy. All of them keep their ports when they are started
// again.
type cluster struct {
	t     *testing.T
	nodes []*process.Steward
	// api and s3 are the URLs that clients use.
	api, s3 string
	// proxy is the path of HAProxy's control socket.
	proxy string
}

// newCluster starts processes on a database; "" is SQLite, which has one process.
func newCluster(t *testing.T, database string, nodes int, change ...func(*process.Steward)) *cluster {
	t.Helper()
	return newClusterBehind(t, impatient, database, nodes, change...)
}

// newClusterBehind starts processes behind HAProxy with some timeouts.
func newClusterBehind(t *testing.T, timeouts, database string, nodes int, change ...func(*process.Steward)) *cluster {
	t.Helper()
	c := &cluster{t: t}
	proxy := porttest.Address(porttest.Free(t))
	proxyS3 := porttest.Address(porttest.Free(t))
	for i := range nodes {
		var s *process.Steward
		if i == 0 {
			s = &process.Steward{T: t, Dir: t.TempDir(), Key: apikey.NewValue(), Database: database}
		} else {
			s = c.nodes[0].Replica()
		}
		s.Args = []string{"--listen", free(t), "--s3-listen", free(t), "--kv-listen", free(t)}
		if nodes > 1 {
			s.Args = append(s.Args, "--base-url", "http://"+proxy, "--s3-url", "http://"+proxyS3, "--blob-url", "")
		}
		for _, f := range change {
			f(s)
		}
		s.Start()
		s.URL = "http://" + s.Args[1] // not that of HAProxy
		c.nodes = append(c.nodes, s)
	}
	c.api, c.s3 = c.nodes[0].URL, "http://"+c.nodes[0].Args[3]
	if nodes > 1 {
		c.balance(proxy, proxyS3, timeouts)
		c.api, c.s3 = "http://"+proxy, "http://"+proxyS3
	}
	return c
}

func free(t *testing.T) string { return porttest.Address(porttest.Free(t)) }

// restart starts a process again after it has ended.
func (c *cluster) restart(s *process.Steward) {
	c.t.Helper()
	s.Start()
	s.URL = "http://" + s.Args[1]
}

// newServer starts a PostgreSQL server for a test that breaks it, with its default settings, also for
// durability.
func newServer(t *testing.T, set ...string) *dbtest.Server {
	t.Helper()
	return dbtest.NewServer(t, append([]string{"fsync=on", "full_page_writes=on"}, set...)...)
}

// newDatabase returns the URL of an empty database, or "" for SQLite.
func newDatabase(t *testing.T, database string) string {
	t.Helper()
	if database == "postgres" {
		return dbtest.EmptyPostgres(t)
	}
	return ""
}

// HAProxy finds out that a process is frozen when it does not respond for some seconds. A test in which no
// request may fail has no process that is frozen, and slow ones get their time.
const (
	impatient = "timeout server 5s\n\ttimeout check 1s"
	patient   = "timeout server 5m\n\ttimeout check 5m"
)

const haproxyConfig = `
global
	maxconn 2000
	stats socket %s
defaults
	mode http
	timeout connect 5m
	timeout client 5m
	%s
	option redispatch
%s`

// checks returns how HAProxy checks the processes: the lines of the example in docs/upgrade.md. patient leaves
// out that requests of a process which stops or hangs are cut off, so that every request gets its time.
func checks(t *testing.T, timeouts string) string {
	t.Helper()
	docs, err := os.ReadFile("../../../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(docs), "\nbackend steward\n")
	example, _, found := strings.Cut(example, "    server ")
	if !found {
		t.Fatal("docs/upgrade.md has no example for HAProxy")
	}
	if timeouts == patient {
		example = strings.Replace(example, " on-marked-down shutdown-sessions", "", 1)
	}
	return example
}

// balance starts HAProxy in front of the processes, as an operator would: it sends requests to those
// that are ready.
func (c *cluster) balance(api, s3, timeouts string) {
	c.t.Helper()
	dir := c.t.TempDir()
	c.proxy = filepath.Join(dir, "socket")
	var config strings.Builder
	fmt.Fprintf(&config, haproxyConfig, c.proxy, timeouts, checks(c.t, timeouts))
	for i, name := range []string{"api", "s3"} {
		fmt.Fprintf(&config, "listen %s\n\tbind %s\n", name, []string{api, s3}[i])
		for k, s := range c.nodes {
			_, port, _ := strings.Cut(s.Args[1], ":") // also for S3, it is that of the API which tells
			fmt.Fprintf(&config, "\tserver node%d %s port %s\n", k, s.Args[1+2*i], port)
		}
	}
	file := filepath.Join(dir, "haproxy.cfg")
	c.must(os.WriteFile(file, []byte(config.String()), 0o600))
	cmd := exec.Command("/usr/sbin/haproxy", "-db", "-f", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	c.must(cmd.Start())
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("HAProxy: %s", &output)
		}
	})
	for i := range c.nodes {
		c.waitProxied(i, "UP")
	}
}

// waitProxied waits until HAProxy's checks have found that a process is in one of some states: UP, DOWN or NOLB, which is
// draining.
func (c *cluster) waitProxied(node int, wanted ...string) {
	c.t.Helper()
	waittest.Until(c.t, fmt.Sprintf("HAProxy to see that process %d is %s", node, wanted), func() (states string, done bool) {
		conn, err := net.Dial("unix", c.proxy)
		if err != nil {
			return err.Error(), false // it has not started yet
		}
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "show stat\n")
		c.must(err)
		rows := csv.NewReader(conn)
		rows.FieldsPerRecord = -1
		table, err := rows.ReadAll()
		c.must(err)
		n := 0
		for _, row := range table {
			if len(row) > 17 && row[1] == fmt.Sprint("node", node) {
				states += row[17] + " "
				if slices.Contains(wanted, row[17]) {
					n++
				}
			}
		}
		return states, n == 2 // the API and S3
	})
}

// drain stops a process, which goes on serving until HAProxy has noticed.
func (c *cluster) drain(node int) {
	c.t.Helper()
	s := c.nodes[node]
	c.must(s.Cmd.Process.Signal(syscall.SIGTERM))
	c.waitProxied(node, "NOLB", "DOWN") // an earlier version answers 503
	s.Drain()                           // the second signal ends the drain delay
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
