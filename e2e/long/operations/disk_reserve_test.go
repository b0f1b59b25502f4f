package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/internal/disk"
	"steward/internal/waittest"
)

const (
	smallDisk    = 128 << 20
	smallReserve = 48 << 20
)

// onSmallDisk starts an installation whose data directory is a small file system with a reserve.
func onSmallDisk(t *testing.T, database string) *installation.Steward {
	t.Helper()
	s := installation.Prepare(t, database, "--disk-reserve", "50331648") // smallReserve
	mountSmall(t, s.Dir, smallDisk, os.Getuid(), os.Getgid())
	// The log of the process must stay writable.
	s.Must(os.Symlink(filepath.Join(t.TempDir(), "log"), filepath.Join(s.Dir, "stderr.log")))
	s.Start()
	return s
}

// tenant has something of each kind.
type tenant struct {
	*installation.Steward
	hook     installation.Hook
	bucket   installation.Bucket
	database *installation.SQLDatabase
	store    installation.KVStore
	apiKey   string
	runtime  *installation.Socket
}

func newTenant(s *installation.Steward, name string) *tenant {
	s.T.Helper()
	a := &tenant{
		Steward: s, hook: s.NewHook(name), bucket: s.NewBucket(name), database: s.NewDatabase(name), store: s.NewKVStore(name),
		apiKey: s.Call("POST", "/cli/apikey", object{"name": name}).Want(201).Text("id"), runtime: s.OpenSocket(),
	}
	s.Ingest(a.hook, "x")
	a.bucket.Put("a", "x")
	a.database.Exec("CREATE TABLE t (v)")
	s.Must(a.store.Client().Set(s.T.Context(), "greeting", "hello", 0).Err())
	s.Call("PUT", "/thread/t", object{"project_id": "p", "user_data": "{}"}).Want(200)
	return a
}

// checkReserve fails if more of the reserve is used than what is in flight when it is reached.
func checkReserve(s *installation.Steward) {
	s.T.Helper()
	free, err := disk.Free(s.Dir)
	s.Must(err)
	if free < smallReserve/2 {
		s.T.Errorf("only %d bytes are free", free)
	}
}

// checkRefuses checks that nothing can be added.
func (a *tenant) checkRefuses() {
	a.T.Helper()
	r, err := a.Send("POST", a.hook.Path, strings.NewReader("x"))
	a.Must(err)
	refused := []*installation.Response{
		r, a.Call("PUT", "/thread/t", object{"user_data": "{}"}), a.Call("POST", "/webhook/create", object{"name": "n"}),
		a.Call("POST", "/session", installation.SessionRequest(a.Steward, "s", "t", "p")), a.Call("POST", "/cli/apikey", object{"name": "n"}),
		a.Call("POST", "/resource/"+a.OrgID+"/local", installation.BucketRequest("another")), a.Call("POST", "/sdk/webhook/create", object{"name": "n"}),
	}
	for i, r := range refused {
		if r.Status != 503 || r.Header.Get("Retry-After") == "" || !strings.Contains(string(r.Body), "disk of the server is almost full") {
			a.T.Errorf("request %d: %d %s", i, r.Status, r.Body)
		}
	}
	reply, err := a.runtime.Try("save", object{"thread_id": "t", "user_data": "{}"})
	if err != nil || reply.Success || !strings.Contains(reply.Error, "almost full") {
		a.T.Errorf("the socket: %+v, %v", reply, err)
	}
	a.checkRefusesBytes()
}

// checkRefusesBytes checks that no bytes can be added to the data directory.
func (a *tenant) checkRefusesBytes() {
	a.T.Helper()
	a.bucket.WantCode("an object", a.bucket.TryPut("b", "x", minio.PutObjectOptions{}), "SlowDown")
	got := a.database.Pipeline(nil, installation.ExecuteSQL("INSERT INTO t VALUES (1)")).Want(200)
	if got.At("results.0.error.code") != "SQLITE_FULL" {
		a.T.Errorf("the database: %s", got.Body)
	}
	if err := a.store.Client().Set(a.T.Context(), "k", "v", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM ") {
		a.T.Errorf("the key-value store: %v", err)
	}
}

// checkDeletes checks that everything can be read, changed a little, and deleted.
func (a *tenant) checkDeletes() {
	a.T.Helper()
	a.Call("GET", "/webhook/receipt-list/"+a.hook.ID, nil).Want(200)
	a.Call("PUT", "/webhook/update/"+a.hook.ID, object{"retention_seconds": 60}).Want(200)
	if a.bucket.Get("a") != "x" {
		a.T.Error("the object has other bytes")
	}
	a.Must(a.bucket.Core().RemoveObject(a.T.Context(), a.bucket.Name, "a", minio.RemoveObjectOptions{}))
	a.runtime.Do("delete", object{"thread_id": "t"})
	a.Must(a.store.Client().Del(a.T.Context(), "greeting").Err())
	a.Call("DELETE", "/resource/"+a.OrgID+"/local", object{"resources": []object{
		{"type": "s3", "name": a.bucket.Name}, {"type": "db", "name": a.database.Name}, {"type": "kv", "name": a.store.Name},
	}}).Want(204)
	a.Call("DELETE", "/cli/apikey/"+a.apiKey, nil).Want(204)
	a.Call("DELETE", "/cli/project/p", nil).Want(204)
	a.Call("DELETE", "/webhook/delete/"+a.hook.ID, nil).Want(204)
}

// checkDiskIsTold checks what readiness and status say.
func checkDiskIsTold(s *installation.Steward, ok bool) {
	s.T.Helper()
	ready := s.Call("GET", "/readyz", nil).Want(200)
	if (ready.Get("disk") == nil) != ok || !ok && ready.Text("disk") != "almost full" {
		s.T.Errorf("/readyz: %s", ready.Body)
	}
	if got := s.Call("GET", "/status", nil).Want(200); got.Get("disk.ok") != ok {
		s.T.Errorf("/status: %s", got.Body)
	}
}

// TestFullDiskLeavesRoomToDelete lets one organization fill the disk with threads and events. Then
// nothing can be added, by it and by others, and everything can be deleted, which makes room again: rows
// use what others have left in the file, which does not shrink.
func TestFullDiskLeavesRoomToDelete(t *testing.T) {
	t.Parallel()
	s := onSmallDisk(t, "sqlite")
	victim, heavy := newTenant(s, "victim"), newTenant(s.SecondOrganization(), "heavy")
	checkDiskIsTold(s, true)
	large := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for i := range 16 {
		heavy.Call("PUT", fmt.Sprintf("/thread/large%d", i), object{"project_id": "p", "user_data": large}).Want(200)
	}
	acked := installation.NewAcknowledged()
	for sendRandom(heavy.Steward, heavy.hook, acked, 512<<10) == 200 && acked.Size() < 1000 {
	}
	checkReserve(s)
	checkDiskIsTold(s, false)
	for _, a := range []*tenant{heavy, victim} {
		a.checkRefuses()
	}
	checkReserve(s)

	free, err := disk.Free(s.Dir)
	s.Must(err)
	other := ballast(s, s.Dir, int(free)-smallReserve/4) // something else takes most of the reserve
	for _, a := range []*tenant{heavy, victim} {
		a.checkDeletes()
	}
	s.Must(os.Remove(other))
	waittest.True(t, "events to be accepted again", func() bool {
		r := s.Call("POST", "/webhook/create", object{"name": "again"})
		return r.Status == 201
	})
}

// TestFullDiskOfObjectsLeavesRoomToDelete does the same with PostgreSQL, whose rows are elsewhere: one
// organization fills the disk with objects.
func TestFullDiskOfObjectsLeavesRoomToDelete(t *testing.T) {
	t.Parallel()
	s := onSmallDisk(t, "postgres")
	victim, heavy := newTenant(s, "victim"), newTenant(s.SecondOrganization(), "heavy")
	fillWithObjects(heavy)
	checkReserve(s)
	checkDiskIsTold(s, false)
	for _, a := range []*tenant{heavy, victim} {
		a.checkRefusesBytes()
		a.Ingest(a.hook, "x") // rows are elsewhere
	}
	for _, a := range []*tenant{heavy, victim} {
		a.checkDeletes()
	}
}

// fillWithObjects stores objects until one is refused and less than the reserve is free. Of one that is refused in
// the middle nothing is left, so that a smaller one may fit.
func fillWithObjects(a *tenant) {
	a.T.Helper()
	size := 4 << 20
	for n := 0; ; n++ {
		if a.bucket.TryPut(fmt.Sprint(n), strings.Repeat("x", size), minio.PutObjectOptions{}) == nil {
			continue
		}
		free, err := disk.Free(a.Dir)
		a.Must(err)
		if free < smallReserve {
			return
		}
		size = max(size/2, 1)
	}
}

// TestLargeObjectIsRefusedAtTheReserve sends an object that is larger than what is free.
func TestLargeObjectIsRefusedAtTheReserve(t *testing.T) {
	t.Parallel()
	s := onSmallDisk(t, "sqlite")
	b := s.NewBucket("large")
	huge := strings.Repeat("x", smallDisk)
	if err := b.TryPut("huge", huge, minio.PutObjectOptions{DisableMultipart: true}); err == nil {
		t.Error("it was stored")
	}
	waittest.True(t, "its bytes to be removed", func() bool { return b.TryPut("small", "x", minio.PutObjectOptions{}) == nil })
	if keys := b.Keys(""); len(keys) != 1 {
		t.Errorf("the bucket has %v", keys)
	}
	s.Call("POST", "/webhook/create", object{"name": "n"}).Want(201)
}
