package replicas

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// startNodes starts three replicas that reach each other. They do not know where their clients find them, so that
// each tells its own address.
func startNodes(t *testing.T) (owner, second, third *installation.Steward) {
	t.Helper()
	owner = installation.Start(t, "postgres", "--internal-listen", "127.0.0.1:0")
	return owner, owner.Replica(), owner.Replica()
}

// databaseAt returns a database as clients of another replica have it.
func databaseAt(d *installation.SQLDatabase, s *installation.Steward) *installation.SQLDatabase {
	at := *d
	at.Steward = s
	(&at).FollowPort()
	return &at
}

// storeAt returns a store as clients of another replica have it.
func storeAt(k installation.KVStore, s *installation.Steward) installation.KVStore {
	k.Steward = s
	return k.Again()
}

func TestEmbeddedDatabaseIsReachedThroughEveryReplica(t *testing.T) {
	t.Parallel()
	owner, second, third := startNodes(t)
	d := owner.NewDatabase("shop")
	databaseAt(d, second).RunScript("libsql.mjs")
	databaseAt(owner.NewDatabase("drizzle"), third).RunScript("drizzle.mjs")

	there := databaseAt(d, third)
	there.Exec("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
	there.Exec("INSERT INTO items (name) VALUES ('" + strings.Repeat("x", 1<<19) + "'), ('two')")
	d.WantCount("items", "2")
	begun := there.Pipeline(nil, installation.ExecuteSQL("BEGIN"), installation.ExecuteSQL("DELETE FROM items")).Want(200)
	databaseAt(d, second).Pipeline(begun.At("baton"), installation.ExecuteSQL("COMMIT"), map[string]any{"type": "close"}).Want(200)
	d.WantCount("items", "0")

	base := "/resource/" + second.OrgID + "/local/shop"
	if got := second.Call("GET", base+"/tables", nil).Want(200); !strings.Contains(string(got.Body), `"items"`) {
		t.Errorf("tables: %s", got.Body)
	}
	query := object{
		"query": "SELECT ?, ?, ?, ?, x'00ff'",
		"args":  []any{9007199254740993, 1.5, "ä", nil},
	}
	got, want := third.Call("POST", base+"/query", query).Want(200), owner.Call("POST", base+"/query", query).Want(200)
	if !bytes.Equal(got.Body, want.Body) || !strings.Contains(string(got.Body), "9007199254740993") {
		t.Errorf("query: %s, on the node itself %s", got.Body, want.Body)
	}
	failed := third.Call("POST", base+"/query", object{"query": "SELECT absent"}).Want(422)
	if !strings.Contains(string(failed.Body), "no such column") {
		t.Errorf("failed query: %s", failed.Body)
	}

	list := third.Call("GET", "/resource/"+third.OrgID+"/local", nil).Want(200)
	node := list.At("db.0.node")
	if node == "" || node != strings.TrimSpace(readFile(t, filepath.Join(owner.Dir, "node"))) {
		t.Errorf("the node of the database is %q", node)
	}
	databaseAt(d, second).Remove()
	if left, err := filepath.Glob(filepath.Join(owner.Dir, "databases", "db_*")); err != nil || len(left) != 1 {
		t.Errorf("files after the deletion: %v (%v)", left, err)
	}
	databaseAt(d, third).Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Want(401)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEmbeddedStoreIsReachedThroughEveryReplica(t *testing.T) {
	t.Parallel()
	owner, second, third := startNodes(t)
	kv := owner.NewKVStore("cache")
	there := storeAt(kv, second)
	installation.UseGoRedis(t, installation.CreatedResource{URL: there.Address})
	checkPipelinedAuth(t, there)

	ctx := t.Context()
	c, direct := storeAt(kv, third).Client(), kv.Client()
	large := strings.Repeat("0123456789abcdef", 15<<16) // 15 MiB
	owner.Must(c.Set(ctx, "large", large, 0).Err())
	if got, err := c.Get(ctx, "large").Result(); err != nil || got != large {
		t.Errorf("a large value has %d bytes (%v)", len(got), err)
	}
	popped := make(chan error, 1)
	go func() { popped <- c.BLPop(ctx, 0, "jobs").Err() }()
	owner.Must(direct.LPush(ctx, "jobs", "one").Err())
	owner.Must(waittest.Receive(t, "a command that blocks", popped))

	base := "/resource/" + third.OrgID + "/local/cache"
	owner.Must(direct.Set(ctx, "\xff\xfe", "binary", 0).Err())
	if got := third.Call("GET", base+"/keys?values=true", nil).Want(200); !strings.Contains(string(got.Body), `"//4="`) {
		t.Errorf("keys: %s", got.Body)
	}
	third.Call("PUT", base+"/value?key=name", object{"type": "string", "item": object{"value": "Ada"}}).Want(200)
	if got, err := direct.Get(ctx, "name").Result(); err != nil || got != "Ada" {
		t.Errorf("the value is %q (%v)", got, err)
	}
	if got := second.Call("GET", base+"/value?key=name", nil).Want(200); !strings.Contains(string(got.Body), "Ada") {
		t.Errorf("value: %s", got.Body)
	}
	second.Call("DELETE", "/resource/"+second.OrgID+"/local", object{"resources": []object{{"type": "kv", "name": "cache"}}}).Want(204)
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("the store can be used after its deletion")
	}
	if left, err := filepath.Glob(filepath.Join(owner.Dir, "stores", "kv_*")); err != nil || len(left) != 0 {
		t.Errorf("files after the deletion: %v (%v)", left, err)
	}
}

// checkPipelinedAuth sends commands behind AUTH without waiting for its reply, as redis-cli does with a pipe, and
// closes its half of the connection before the replies come.
func checkPipelinedAuth(t *testing.T, kv installation.KVStore) {
	t.Helper()
	options, err := redis.ParseURL(kv.Address)
	kv.Must(err)
	host, port, _ := strings.Cut(options.Addr, ":")
	cli := exec.CommandContext(t.Context(), "redis-cli", "-h", host, "-p", port, "--pipe")
	var in strings.Builder
	in.WriteString("AUTH " + options.Username + " " + options.Password + "\r\nMULTI\r\n")
	for i := range 10_000 {
		in.WriteString("RPUSH many " + strconv.Itoa(i) + "\r\n")
	}
	in.WriteString("EXEC\r\n")
	cli.Stdin = strings.NewReader(in.String())
	out, err := cli.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "errors: 0, replies: 10003") {
		t.Errorf("redis-cli: %v\n%s", err, out)
	}
	if n, err := kv.Client().LLen(t.Context(), "many").Result(); err != nil || n != 10_000 {
		t.Errorf("%d elements (%v)", n, err)
	}
}

// TestRotationCutsWhatIsPassedOn rotates credentials through a replica that does not have the files while clients are
// connected through another one. A second tenant is connected the same way.
func TestRotationCutsWhatIsPassedOn(t *testing.T) {
	t.Parallel()
	owner, second, third := startNodes(t)
	tenant := owner.SecondOrganization()
	kv, other := owner.NewKVStore("cache"), tenant.NewKVStore("cache")
	d, theirs := owner.NewDatabase("shop"), tenant.NewDatabase("shop")
	ctx := t.Context()
	blocked := make(chan error, 2)
	for _, s := range []*installation.Steward{owner, second} {
		c := storeAt(kv, s).Client()
		owner.Must(c.Ping(ctx).Err())
		go func() { blocked <- c.BLPop(ctx, 0, "jobs").Err() }()
	}
	ofOther := storeAt(other, &installation.Steward{Steward: second.Steward, T: t, Key: tenant.Key, OrgID: tenant.OrgID}).Client()
	owner.Must(ofOther.Set(ctx, "k", "v", 0).Err())
	waitBlocked(t, kv, 2)
	there := databaseAt(d, second)
	begun := there.Pipeline(nil, installation.ExecuteSQL("BEGIN")).Want(200)

	base := "/resource/" + third.OrgID + "/local/"
	third.Call("POST", base+"cache/rotate?type=kv", nil).Want(200)
	third.Call("POST", base+"shop/rotate?type=db", nil).Want(200)
	for range 2 {
		if err := waittest.Receive(t, "connections to be cut", blocked); err == nil {
			t.Error("a command that blocks has returned a value")
		}
	}
	if err := storeAt(kv, third).Client().Ping(ctx).Err(); err != nil {
		t.Errorf("with new credentials: %v", err)
	}
	if err := kv.Client().Ping(ctx).Err(); err == nil {
		t.Error("the old password is accepted")
	}
	there.Pipeline(begun.At("baton"), installation.ExecuteSQL("COMMIT")).Want(401)
	d.Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Want(401)
	if got, err := ofOther.Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Errorf("the second tenant gets %q (%v)", got, err)
	}
	databaseAt(theirs, second).Exec("SELECT 1")
}

// waitBlocked waits until clients of a store are blocked.
func waitBlocked(t *testing.T, kv installation.KVStore, clients int) {
	t.Helper()
	c := kv.Client()
	waittest.True(t, "clients to be blocked", func() bool {
		info, err := c.Info(t.Context(), "clients").Result()
		kv.Must(err)
		return strings.Contains(info, "blocked_clients:"+strconv.Itoa(clients)+"\r\n")
	})
}

// TestOwnerOfFilesDiesAndReturns kills, freezes and restarts the replica that has the files.
func TestOwnerOfFilesDiesAndReturns(t *testing.T) {
	t.Parallel()
	owner, second, third := startNodes(t)
	node := strings.TrimSpace(readFile(t, filepath.Join(owner.Dir, "node")))
	kv := owner.NewKVStore("cache")
	d := databaseAt(owner.NewDatabase("shop"), second)
	store := storeAt(kv, second)
	own := second.NewDatabase("own") // its files are elsewhere
	ctx := t.Context()
	owner.Must(store.Client().Set(ctx, "k", "v", 0).Err())
	d.Exec("CREATE TABLE items (id INTEGER)")

	unavailable := func() bool {
		got := d.Pipeline(nil, installation.ExecuteSQL("SELECT 1"), map[string]any{"type": "close"})
		if got.Status == http.StatusServiceUnavailable && (!strings.Contains(string(got.Body), node) || got.Header.Get("Retry-After") == "") {
			t.Errorf("503 without a reason: %s %v", got.Body, got.Header)
		}
		return got.Status == http.StatusServiceUnavailable
	}
	available := func() bool { return !unavailable() }
	owner.Kill()
	if !unavailable() {
		t.Error("a database of a dead node answers")
	}
	if err := store.Client().Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), node) {
		t.Errorf("a store of a dead node: %v", err)
	}
	databaseAt(own, third).Exec("SELECT 1")
	third.Call("GET", "/resource/"+third.OrgID+"/local/shop/tables", nil).Want(503)
	waittest.True(t, "the status of the node", func() bool {
		return !nodeOK(third, node)
	})

	owner.Start()
	waittest.True(t, "the node to be back", available)
	if got, err := store.Client().Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Errorf("after the restart: %q (%v)", got, err)
	}
	if !nodeOK(third, node) {
		t.Error("the status does not show the node")
	}

	blocked := make(chan error, 1)
	go func() { blocked <- store.Client().BLPop(context.Background(), 0, "jobs").Err() }()
	waitBlocked(t, storeAt(kv, owner), 1)
	owner.Must(owner.Cmd.Process.Signal(syscall.SIGSTOP))
	_, err := syscall.Wait4(owner.Cmd.Process.Pid, nil, syscall.WUNTRACED, nil) // until all its threads have stopped
	owner.Must(err)
	if !unavailable() { // waits for it until it is not believed to live any more
		t.Error("a database of a frozen node answers")
	}
	if err := waittest.Receive(t, "the connection to a frozen node to be cut", blocked); err == nil {
		t.Error("a frozen store has returned a value")
	}
	if !unavailable() {
		t.Error("a database of a frozen node answers")
	}
	databaseAt(own, third).Exec("SELECT 1")
	owner.Must(owner.Cmd.Process.Signal(syscall.SIGCONT))
	waittest.True(t, "the node to go on", available)
}

// nodeOK reports whether the status of a replica shows that a node is served.
func nodeOK(s *installation.Steward, node string) bool {
	s.T.Helper()
	var got struct {
		Nodes []struct {
			Node              string
			OK                bool
			Databases, Stores int
		}
	}
	s.Call("GET", "/status", nil).Want(200).Decode(&got)
	for _, n := range got.Nodes {
		if n.Node == node {
			if n.Databases != 1 || n.Stores != 1 {
				s.T.Errorf("the status of the node: %+v", n)
			}
			return n.OK
		}
	}
	s.T.Errorf("the status has no node %s: %+v", node, got.Nodes)
	return false
}

// TestInternalListenerTakesRequestsOfReplicasOnly calls what replicas call, with the credentials of a database and
// without a token, on both listeners.
func TestInternalListenerTakesRequestsOfReplicasOnly(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "postgres", "--internal-listen", "127.0.0.1:0")
	d := s.NewDatabase("shop")
	_, path, _ := strings.Cut(d.Address, "/db/")
	id := strings.TrimSuffix(path, "/")
	d.Address = "http://" + s.Addresses().Listen["internal"] + "/db/" + path
	d.Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Want(401)
	for _, base := range []string{"http://" + s.Addresses().Listen["internal"], s.URL} {
		for _, at := range []string{"GET /kv/" + id, "POST /resource/" + id + "/tables", "POST /resource/" + id + "/delete"} {
			method, path, _ := strings.Cut(at, " ")
			r, err := http.NewRequest(method, base+path, strings.NewReader("{}"))
			s.Must(err)
			r.Header.Set("Authorization", "Bearer "+s.Key)
			r.Header.Set("Steward-Node-Token", strconv.FormatInt(time.Now().Add(10*time.Second).UnixMilli(), 10)+".nonce.AAAA")
			res, err := installation.Client.Do(r)
			s.Must(err)
			s.Must(res.Body.Close())
			if res.StatusCode < 400 || res.StatusCode >= 500 || base != s.URL && res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s at %s: %d", at, base, res.StatusCode)
			}
		}
	}
	d.FollowPort()
	d.Exec("SELECT 1")
}
