package faults

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
}

// newCluster starts processes on a database; "" is SQLite, which has one process.
func newCluster(t *testing.T, database string, nodes int, change ...func(*process.Steward)) *cluster {
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
		c.balance(proxy, proxyS3)
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

// newServer starts a PostgreSQL server with its default settings, also for durability.
func newServer(t *testing.T, set ...string) *dbtest.Server {
	t.Helper()
	return dbtest.NewServer(t, append([]string{"fsync=on", "full_page_writes=on"}, set...)...)
}

const haproxyConfig = `
global
	maxconn 2000
defaults
	mode http
	timeout connect 2s
	timeout client 60s
	timeout server 5s
	timeout check 1s
	option redispatch
	option httpchk GET /readyz
	default-server check inter 300ms fall 2 rise 1
`

// balance starts HAProxy in front of the processes, as an operator would: it sends requests to those
// that are ready.
func (c *cluster) balance(api, s3 string) {
	c.t.Helper()
	dir := c.t.TempDir()
	var config strings.Builder
	config.WriteString(haproxyConfig)
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
	waittest.True(c.t, "HAProxy to answer", func() bool {
		res, err := http.Get("http://" + api + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
