package faults

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db/dbtest"
)

// TestKill kills the process three times, on both databases.
func TestKill(t *testing.T) {
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			url := ""
			if database == "postgres" {
				url = newServer(t).URL
			}
			c := newCluster(t, url, 1)
			w := c.work()
			for range 3 {
				time.Sleep(length(t))
				c.nodes[0].Kill()
				c.restart(c.nodes[0])
			}
			time.Sleep(length(t))
			w.finish("process killed three times, " + database)
		})
	}
}

// TestPostgresKilled kills all processes of PostgreSQL and starts it again.
func TestPostgresKilled(t *testing.T) {
	server := newServer(t)
	c := newCluster(t, server.URL, 1)
	w := c.work()
	time.Sleep(length(t))
	server.Kill()
	server.Start()
	time.Sleep(length(t))
	w.finish("PostgreSQL killed")
}

// TestPostgresFrozen stops PostgreSQL for longer than a statement may take. Requests must not wait for
// it.
func TestPostgresFrozen(t *testing.T) {
	server := newServer(t)
	c := newCluster(t, server.URL, 1)
	w := c.work()
	time.Sleep(length(t))
	thaw := server.Freeze()
	time.Sleep(length(t) + 12*time.Second)
	thaw()
	time.Sleep(length(t))
	w.finish("PostgreSQL frozen for " + (length(t) + 12*time.Second).String())
}

// TestReplicaFrozen stops one of three processes behind HAProxy.
func TestReplicaFrozen(t *testing.T) {
	c := newCluster(t, newServer(t).URL, 3, sharedBlobs(t))
	w := c.work()
	time.Sleep(length(t))
	frozen := c.nodes[2].Cmd.Process
	c.must(frozen.Signal(syscall.SIGSTOP))
	time.Sleep(2 * length(t))
	c.must(frozen.Signal(syscall.SIGCONT))
	time.Sleep(length(t))
	w.finish("one of three replicas frozen for " + (2 * length(t)).String())
}

// TestStandbyPromoted ends the primary server and promotes its synchronous standby.
func TestStandbyPromoted(t *testing.T) {
	primary := newServer(t, "synchronous_standby_names=*", "wal_level=replica")
	standby := primary.Standby("fsync=on", "full_page_writes=on")
	c := newCluster(t, bothHosts(t, primary, standby), 1)
	w := c.work()
	time.Sleep(length(t))
	primary.Kill()
	standby.Promote()
	time.Sleep(length(t))
	w.finish("synchronous standby promoted")
}

// bothHosts returns a URL for whichever of two servers can be written.
func bothHosts(t *testing.T, one, two *dbtest.Server) string {
	t.Helper()
	u, err := url.Parse(one.URL)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(two.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host += "," + other.Host
	u.RawQuery = "target_session_attrs=read-write"
	return u.String()
}

// TestDiskFull fills the file system of the data directory and then removes what filled it.
func TestDiskFull(t *testing.T) {
	const size = 1 << 30
	c := newCluster(t, "", 1, func(s *process.Steward) {
		if err := syscall.Mount("tmpfs", s.Dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
			t.Fatalf("mount tmpfs: %v (this test needs root with CAP_SYS_ADMIN)", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(s.Dir, syscall.MNT_DETACH) })
	})
	w := c.work()
	time.Sleep(length(t))
	path := filepath.Join(c.nodes[0].Dir, "ballast")
	fill(t, path)
	time.Sleep(length(t))
	c.must(os.Remove(path))
	time.Sleep(length(t))
	w.finish("disk full, then not")
}

// fill writes a file until the file system has no space left.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(chunk)
	}
}

// TestFewDescriptors has 256 file descriptors, and connections that use them up.
func TestFewDescriptors(t *testing.T) {
	c := newCluster(t, "", 1, func(s *process.Steward) { s.MaxFiles = 256 })
	w := c.work()
	time.Sleep(length(t))
	var idle []net.Conn
	for range 250 {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(c.api, "http://"), time.Second)
		if err != nil {
			break
		}
		idle = append(idle, conn)
	}
	time.Sleep(length(t))
	for _, conn := range idle {
		_ = conn.Close()
	}
	time.Sleep(length(t))
	w.finish("256 file descriptors")
}

// sharedBlobs has the processes keep the bytes of objects on another installation, as replicas do that
// share no disk.
func sharedBlobs(t *testing.T) func(*process.Steward) {
	t.Helper()
	storage := newCluster(t, "", 1)
	env := newTenant(storage, storage.nodes[0].Key).create("s3", "blobs")
	return func(s *process.Steward) {
		i := len(s.Args) - 1 // the value of --blob-url
		s.Args[i] = "s3://blobs/replicas?endpoint=" + storage.s3
		s.Env = []string{
			"STEWARD_BLOB_ACCESS_KEY=" + env["S3_ACCESS_KEY_ID"], "STEWARD_BLOB_SECRET_KEY=" + env["S3_SECRET_ACCESS_KEY"],
		}
	}
}
