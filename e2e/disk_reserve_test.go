package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"steward/internal/disk"
	"steward/internal/waittest"
)

const (
	smallDisk    = 128 << 20
	smallReserve = 48 << 20
)

// onSmallDisk starts an installation whose data directory is a small file system with a reserve.
func onSmallDisk(t *testing.T, database string) *steward {
	t.Helper()
	s := prepare(t, database, "--disk-reserve", "50331648") // smallReserve
	mountSmall(t, s.Dir, smallDisk, os.Getuid(), os.Getgid())
	// The log of the process must stay writable.
	s.must(os.Symlink(filepath.Join(t.TempDir(), "log"), filepath.Join(s.Dir, "stderr.log")))
	s.start()
	return s
}

// tenant has something of each kind.
type tenant struct {
	*steward
	hook     hook
	bucket   bucket
	database *sqlDatabase
	store    kvStore
	apiKey   string
	runtime  *socket
}

func newTenant(s *steward, name string) *tenant {
	s.t.Helper()
	a := &tenant{
		steward: s, hook: s.hook(name), bucket: s.bucket(name), database: s.database(name), store: s.kvStore(name),
		apiKey: s.call("POST", "/cli/apikey", object{"name": name}).want(201).text("id"), runtime: s.socket(),
	}
	s.ingest(a.hook, "x")
	a.bucket.put("a", "x")
	a.database.exec("CREATE TABLE t (v)")
	s.must(a.store.client().Set(s.t.Context(), "greeting", "hello", 0).Err())
	s.call("PUT", "/thread/t", object{"project_id": "p", "user_data": "{}"}).want(200)
	return a
}

// checkReserve fails if more of the reserve is used than what is in flight when it is reached.
func (s *steward) checkReserve() {
	s.t.Helper()
	free, err := disk.Free(s.Dir)
	s.must(err)
	if free < smallReserve/2 {
		s.t.Errorf("only %d bytes are free", free)
	}
}

// checkRefuses checks that nothing can be added.
func (a *tenant) checkRefuses() {
	a.t.Helper()
	r, err := a.send("POST", a.hook.path, strings.NewReader("x"))
	a.must(err)
	refused := []*response{
		r, a.call("PUT", "/thread/t", object{"user_data": "{}"}), a.call("POST", "/webhook/create", object{"name": "n"}),
		a.call("POST", "/session", newSession(a.steward, "s", "t", "p")), a.call("POST", "/cli/apikey", object{"name": "n"}),
		a.call("POST", "/resource/"+a.orgID+"/local", resources("another")), a.call("POST", "/sdk/webhook/create", object{"name": "n"}),
	}
	for i, r := range refused {
		if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(string(r.body), "disk of the server is almost full") {
			a.t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	reply, err := a.runtime.try("save", object{"thread_id": "t", "user_data": "{}"})
	if err != nil || reply.Success || !strings.Contains(reply.Error, "almost full") {
		a.t.Errorf("the socket: %+v, %v", reply, err)
	}
	a.checkRefusesBytes()
}

// checkRefusesBytes checks that no bytes can be added to the data directory.
func (a *tenant) checkRefusesBytes() {
	a.t.Helper()
	a.bucket.wantCode("an object", a.bucket.tryPut("b", "x", minio.PutObjectOptions{}), "SlowDown")
	got := a.database.pipeline(nil, executeSQL("INSERT INTO t VALUES (1)")).want(200)
	if got.at("results.0.error.code") != "SQLITE_FULL" {
		a.t.Errorf("the database: %s", got.body)
	}
	if err := a.store.client().Set(a.t.Context(), "k", "v", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM ") {
		a.t.Errorf("the key-value store: %v", err)
	}
}

// checkDeletes checks that everything can be read, changed a little, and deleted.
func (a *tenant) checkDeletes() {
	a.t.Helper()
	a.call("GET", "/webhook/receipt-list/"+a.hook.ID, nil).want(200)
	a.call("PUT", "/webhook/update/"+a.hook.ID, object{"retention_seconds": 60}).want(200)
	if a.bucket.get("a") != "x" {
		a.t.Error("the object has other bytes")
	}
	a.must(a.bucket.core().RemoveObject(a.t.Context(), a.bucket.name, "a", minio.RemoveObjectOptions{}))
	a.runtime.do("delete", object{"thread_id": "t"})
	a.must(a.store.client().Del(a.t.Context(), "greeting").Err())
	a.call("DELETE", "/resource/"+a.orgID+"/local", object{"resources": []object{
		{"type": "s3", "name": a.bucket.name}, {"type": "db", "name": a.database.name}, {"type": "kv", "name": a.store.name},
	}}).want(204)
	a.call("DELETE", "/cli/apikey/"+a.apiKey, nil).want(204)
	a.call("DELETE", "/cli/project/p", nil).want(204)
	a.call("DELETE", "/webhook/delete/"+a.hook.ID, nil).want(204)
}

// checkDiskIsTold checks what readiness and status say.
func (s *steward) checkDiskIsTold(ok bool) {
	s.t.Helper()
	ready := s.call("GET", "/readyz", nil).want(200)
	if (ready.get("disk") == nil) != ok || !ok && ready.text("disk") != "almost full" {
		s.t.Errorf("/readyz: %s", ready.body)
	}
	if got := s.call("GET", "/status", nil).want(200); got.get("disk.ok") != ok {
		s.t.Errorf("/status: %s", got.body)
	}
}

// TestFullDiskLeavesRoomToDelete lets one organization fill the disk with threads and events. Then
// nothing can be added, by it and by others, and everything can be deleted, which makes room again: rows
// use what others have left in the file, which does not shrink.
func TestFullDiskLeavesRoomToDelete(t *testing.T) {
	t.Parallel()
	s := onSmallDisk(t, "sqlite")
	victim, heavy := newTenant(s, "victim"), newTenant(s.secondOrganization(), "heavy")
	s.checkDiskIsTold(true)
	large := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for i := range 16 {
		heavy.call("PUT", fmt.Sprintf("/thread/large%d", i), object{"project_id": "p", "user_data": large}).want(200)
	}
	acked := newAcknowledged()
	for heavy.sendRandom(heavy.hook, acked, 512<<10) == 200 && acked.size() < 1000 {
	}
	s.checkReserve()
	s.checkDiskIsTold(false)
	for _, a := range []*tenant{heavy, victim} {
		a.checkRefuses()
	}
	s.checkReserve()

	free, err := disk.Free(s.Dir)
	s.must(err)
	other := ballast(s, s.Dir, int(free)-smallReserve/4) // something else takes most of the reserve
	for _, a := range []*tenant{heavy, victim} {
		a.checkDeletes()
	}
	s.must(os.Remove(other))
	waittest.True(t, "events to be accepted again", func() bool {
		r := s.call("POST", "/webhook/create", object{"name": "again"})
		return r.status == 201
	})
}

// TestFullDiskOfObjectsLeavesRoomToDelete does the same with PostgreSQL, whose rows are elsewhere: one
// organization fills the disk with objects.
func TestFullDiskOfObjectsLeavesRoomToDelete(t *testing.T) {
	t.Parallel()
	s := onSmallDisk(t, "postgres")
	victim, heavy := newTenant(s, "victim"), newTenant(s.secondOrganization(), "heavy")
	content := strings.Repeat("x", 4<<20)
	stored := 0
	for heavy.bucket.tryPut(fmt.Sprint(stored), content, minio.PutObjectOptions{}) == nil && stored < 100 {
		stored++
	}
	s.checkReserve()
	s.checkDiskIsTold(false)
	for _, a := range []*tenant{heavy, victim} {
		a.checkRefusesBytes()
		a.ingest(a.hook, "x") // rows are elsewhere
	}
	for _, a := range []*tenant{heavy, victim} {
		a.checkDeletes()
	}
}

// TestLargeObjectIsRefusedAtTheReserve sends an object that is larger than what is free.
func TestLargeObjectIsRefusedAtTheReserve(t *testing.T) {
	t.Parallel()
	s := onSmallDisk(t, "sqlite")
	b := s.bucket("large")
	huge := strings.Repeat("x", smallDisk)
	if err := b.tryPut("huge", huge, minio.PutObjectOptions{DisableMultipart: true}); err == nil {
		t.Error("it was stored")
	}
	waittest.True(t, "its bytes to be removed", func() bool { return b.tryPut("small", "x", minio.PutObjectOptions{}) == nil })
	if keys := b.keys(""); len(keys) != 1 {
		t.Errorf("the bucket has %v", keys)
	}
	s.call("POST", "/webhook/create", object{"name": "n"}).want(201)
}
