package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/e2e/process"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// TestKill kills the process three times, on both databases, the last time with a backlog of deliveries.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, newDatabase(t, database), 1)
			w := c.work()
			for range 2 {
				w.more(w.areas)
				c.nodes[0].Kill()
				c.restart(c.nodes[0])
			}
			release := w.tenants[0].gate.hold(t)
			w.more(w.areas)
			c.nodes[0].Kill()
			release()
			c.restart(c.nodes[0])
			w.more(w.areas)
			w.finish("process killed three times, " + database)
			c.checkSweep(c.nodes[0])
			for _, a := range w.areas {
				a.check(t)
			}
		})
	}
}

// TestReplicaKilled kills the one of three processes that sends the deliveries of a webhook, while some of
// them wait for a retry.
func TestReplicaKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dbtest.Postgres(t), 3, sharedBlobs(t))
	w := c.work()
	u := w.tenants[0]
	u.gate.fail(true)
	waittest.True(t, "a delivery that waits for a retry", func() bool {
		failed, err := u.list(context.Background(), "/webhook/delivery-list/"+u.hook.ID+"?status=failed")
		c.must(err)
		return len(failed) > 0
	})
	w.more(w.areas)
	killed := u.sender()
	killed.Kill()
	u.gate.fail(false)
	w.more(w.everywhere())
	w.stop()
	w.delivered()
	c.restart(killed)
	w.start()
	w.more(w.areas)
	w.finish("one of three replicas killed")
}

// TestReplicaFrozen stops the one of three processes that sends the deliveries of a webhook. Others take
// over when its lease expires, which is after queue.LeaseFor, and serve a new destination at once.
func TestReplicaFrozen(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dbtest.Postgres(t), 3, sharedBlobs(t))
	later := newTenant(c, c.nodes[0].Organization("Later"))
	w := c.work()
	w.more(w.areas)
	frozen := w.tenants[0].sender().Cmd.Process
	c.must(frozen.Signal(syscall.SIGSTOP))
	w.more(w.everywhere())
	later.wantDeliveries()
	w.delivered()
	c.must(frozen.Signal(syscall.SIGCONT))
	w.more(w.areas)
	w.finish("one of three replicas frozen until its deliveries were taken over")
}

// TestDiskFull fills the file system of the data directory and then removes what filled it.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	const size = 1 << 30
	c := newCluster(t, "", 1, func(s *process.Steward) {
		if err := syscall.Mount("tmpfs", s.Dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
			t.Fatalf("mount tmpfs: %v (this test needs root with CAP_SYS_ADMIN)", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(s.Dir, syscall.MNT_DETACH) })
	})
	w := c.work()
	w.more(w.areas)
	path := filepath.Join(c.nodes[0].Dir, "ballast")
	fill(t, path)
	w.refuse(w.areas[:1])
	c.must(os.Remove(path))
	w.more(w.areas)
	w.finish("disk full, then not")
	w.wantNoInternal()
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

// TestFewDescriptors has 256 file descriptors, and connections that use them up for a while. Resources that cannot be
// created then are refused, and nothing fails with status 500.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, newDatabase(t, database), 1, func(s *process.Steward) { s.MaxFiles = 256 })
			w := c.work()
			w.more(w.areas)
			release := c.useDescriptors()
			for _, kind := range []string{"kv", "db"} {
				w.tenants[0].refuseResource(kind)
			}
			release()
			w.more(w.areas)
			w.finish("256 file descriptors, " + database)
			w.wantNoInternal()
		})
	}
}

// useDescriptors has connections use all descriptors of the first process, also when that closes some, until the returned
// function is called.
func (c *cluster) useDescriptors() (release func()) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for range 300 {
		all.Go(func() {
			for ctx.Err() == nil {
				conn, err := net.Dial("tcp", strings.TrimPrefix(c.nodes[0].URL, "http://"))
				if err != nil {
					continue
				}
				end := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.Copy(io.Discard, conn)
				end()
				_ = conn.Close()
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// refuseResource creates resources of a kind until one is refused, which has to be with status 503.
func (u *tenant) refuseResource(kind string) {
	u.t.Helper()
	n := 0
	waittest.True(u.t, "a "+kind+" to be refused", func() bool {
		n++
		body := object{"resources": []object{{"type": kind, "name": fmt.Sprintf("%s-refused-%d", kind, n)}}}
		err := u.call(context.Background(), "POST", u.cluster.api+"/resource/"+u.orgID+"/local", body, nil)
		var got *statusError
		if !errors.As(err, &got) {
			return false // created, or there was no connection
		}
		wantUnavailable(u.t, []error{err})
		return true
	})
}

// TestPostgresConnectionsUsedUp has other clients of PostgreSQL take all its connections, the process's own as well.
func TestPostgresConnectionsUsedUp(t *testing.T) {
	t.Parallel()
	server := newServer(t, "max_connections=60")
	c := newCluster(t, server.URL, 1)
	w := c.work()
	w.more(w.areas)
	release := useConnections(t, server.URL)
	w.refuse(w.everywhere())
	release()
	w.more(w.areas)
	w.finish("connections of PostgreSQL used up")
	w.wantNoInternal()
}

// useConnections takes all connections to a server that it can get, and ends those of the process again and again, until
// the returned function is called.
func useConnections(t *testing.T, url string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	admin, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for ctx.Err() == nil {
				conn, err := pgx.Connect(ctx, url)
				if err != nil {
					continue
				}
				<-ctx.Done()
				_ = conn.Close(context.Background())
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := admin.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'steward'"); err != nil && ctx.Err() == nil {
				t.Error(err)
				break
			}
		}
		_ = admin.Close(context.Background())
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// TestPostgresKilled kills all processes of PostgreSQL and starts it again.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	c := newCluster(t, server.URL, 1)
	w := c.work()
	w.more(w.areas)
	server.Kill()
	server.Start()
	w.more(w.areas)
	w.finish("PostgreSQL killed")
}

// TestPostgresFrozen stops PostgreSQL until every request that needs it was refused. None waits for it longer
// than a statement may take.
func TestPostgresFrozen(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	c := newCluster(t, server.URL, 1)
	w := c.work()
	w.more(w.areas)
	thaw := server.Freeze()
	w.refuse(w.everywhere())
	for _, path := range []string{"/webhook/list", "/thread?limit=1"} {
		err := w.tenants[0].call(context.Background(), "GET", c.api+path, nil, nil)
		var got *statusError
		if !errors.As(err, &got) || got.status != http.StatusServiceUnavailable || got.retryAfter == "" {
			t.Errorf("GET %s: %v", path, err)
		}
	}
	thaw()
	for _, a := range w.everywhere() {
		wantUnavailable(t, a.refusals())
	}
	w.more(w.areas)
	w.finish("PostgreSQL frozen until all requests had ended")
}

// TestStandbyPromoted ends the primary server and promotes its synchronous standby.
func TestStandbyPromoted(t *testing.T) {
	t.Parallel()
	primary := newServer(t, "synchronous_standby_names=*", "wal_level=replica")
	standby := primary.Standby("fsync=on", "full_page_writes=on")
	c := newCluster(t, bothHosts(t, primary, standby), 1)
	w := c.work()
	w.more(w.areas)
	primary.Kill()
	standby.Promote()
	w.more(w.areas)
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
