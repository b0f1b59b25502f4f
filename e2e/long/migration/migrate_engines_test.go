package migration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/e2e/installation"
	"steward/internal/db/dbtest"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// engineMove is an installation whose embedded databases and stores move to other servers.
type engineMove struct {
	*installation.Steward
	target, databases string
	redis             *redistest.Server
}

func newEngineMove(t *testing.T, redisArgs ...string) *engineMove {
	t.Helper()
	return &engineMove{
		Steward: movingInstallation(t), target: dbtest.EmptyPostgres(t), databases: dbtest.NewServer(t).URL,
		redis: redistest.Start(t, redisArgs...),
	}
}

// args are those of the command.
func (m *engineMove) args() []string {
	return []string{"migrate", "--to", m.target, "--region-engine", "db=" + m.databases + ",kv=" + m.redis.URL}
}

// run moves everything, and returns what the command prints.
func (m *engineMove) run() string {
	m.T.Helper()
	out, err := m.Command(m.args()...).CombinedOutput()
	if err != nil {
		m.T.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// startThere starts the server with the rows and engines that it was moved to.
func (m *engineMove) startThere() {
	m.T.Helper()
	file := filepath.Join(m.T.TempDir(), "steward.yaml")
	text := fmt.Sprintf("regions:\n- {region: local, db: %q, kv: %q}\n", m.databases, m.redis.URL)
	m.Must(os.WriteFile(file, []byte(text), 0o600))
	m.Database = m.target
	m.Args = append(m.Args, "--config", file)
	m.Start()
}

// entryOf returns a database or store of the organization of an installation.
func entryOf(s *installation.Steward, kind, name string) installation.CreatedResource {
	s.T.Helper()
	var list struct {
		DB, KV []installation.CreatedResource
	}
	s.Call("GET", "/resource/"+s.OrgID+"/local", nil).Want(200).Decode(&list)
	for _, entry := range map[string][]installation.CreatedResource{"db": list.DB, "kv": list.KV}[kind] {
		if entry.Name == name {
			return entry
		}
	}
	s.T.Fatalf("%s %s is not listed", kind, name)
	return installation.CreatedResource{}
}

// clientOf returns a client of a store, and the prefix of its keys.
func clientOf(s *installation.Steward, name string) (*redis.Client, string) {
	s.T.Helper()
	entry := entryOf(s, "kv", name)
	return installation.KVStore{Steward: s, Name: name, Address: entry.URL}.Client(), entry.Env["REDIS_KEY_PREFIX"]
}

// fillStore writes values of all types, and many keys.
func fillStore(s *installation.Steward, name string, keys int) {
	s.T.Helper()
	ctx := context.Background()
	c := s.NewKVStore(name).Client()
	pipe := c.Pipeline()
	flush := func() {
		_, err := pipe.Exec(ctx)
		s.Must(err)
	}
	for i := range keys {
		pipe.Set(ctx, fmt.Sprint("key", i), i, 0)
		if i%1000 == 999 {
			flush()
		}
	}
	for i := range 20_000 {
		pipe.RPush(ctx, "list", i)
		if i%1000 == 999 {
			flush()
		}
	}
	pipe.Set(ctx, "of", s.OrgID, 0)
	pipe.Set(ctx, "expiring", "soon", time.Hour)
	pipe.SAdd(ctx, "set", "a", "b")
	pipe.HSet(ctx, "hash", "a", 1, "b", 2)
	pipe.ZAdd(ctx, "zset", redis.Z{Score: 1.5, Member: "a"})
	pipe.XAdd(ctx, &redis.XAddArgs{Stream: "stream", ID: "1-1", Values: []string{"a", "b"}})
	pipe.XAdd(ctx, &redis.XAddArgs{Stream: "stream", ID: "2-1", Values: []string{"a", "c"}})
	pipe.XGroupCreate(ctx, "stream", "workers", "0")
	pipe.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "one", Count: 1, Streams: []string{"stream", ">"}})
	flush()
}

// checkStore checks what fillStore has written.
func checkStore(s *installation.Steward, name string, keys int) {
	s.T.Helper()
	ctx := context.Background()
	c, prefix := clientOf(s, name)
	for i := 0; i < keys; i += 1000 {
		var names, want []string
		for j := i; j < min(i+1000, keys); j++ {
			names = append(names, fmt.Sprint(prefix, "key", j))
			want = append(want, fmt.Sprint(j))
		}
		got, err := c.MGet(ctx, names...).Result()
		s.Must(err)
		if text := fmt.Sprint(want); fmt.Sprint(got) != text {
			s.T.Fatalf("keys from %d: %v", i, got)
		}
	}
	list, err := c.LRange(ctx, prefix+"list", 0, -1).Result()
	s.Must(err)
	if len(list) != 20_000 || list[19_999] != "19999" {
		s.T.Errorf("%d elements", len(list))
	}
	if ttl := c.TTL(ctx, prefix+"expiring").Val(); ttl <= 0 || ttl > time.Hour {
		s.T.Errorf("expires in %s", ttl)
	}
	pending, err := c.XPending(ctx, prefix+"stream", "workers").Result()
	s.Must(err)
	got := fmt.Sprintln(c.Get(ctx, prefix+"of").Val(), c.SCard(ctx, prefix+"set").Val(), c.HGetAll(ctx, prefix+"hash").Val(),
		c.ZScore(ctx, prefix+"zset", "a").Val(), c.XRange(ctx, prefix+"stream", "-", "+").Val(), pending.Consumers)
	stream := []redis.XMessage{{ID: "1-1", Values: map[string]any{"a": "b"}}, {ID: "2-1", Values: map[string]any{"a": "c"}}}
	if want := fmt.Sprintln(s.OrgID, 2, map[string]string{"a": "1", "b": "2"}, 1.5, stream, map[string]int64{"one": 1}); got != want {
		s.T.Errorf("got %s, want %s", got, want)
	}
}

func TestEmbeddedResourcesMoveToOtherEngines(t *testing.T) {
	t.Parallel()
	m := newEngineMove(t)
	other := m.SecondOrganization()
	fillStore(m.Steward, "cache", 100_000)
	fillStore(other, "cache", 10)
	m.Must(m.NewKVStore("scripted").Client().FunctionLoad(t.Context(), "#!lua name=l\nredis.register_function('f', function() return 1 end)").Err())
	m.NewDatabase("empty")
	m.NewDatabase("orders").Exec("CREATE TABLE invoices (id INTEGER PRIMARY KEY, total)")
	before := entryOf(m.Steward, "kv", "cache")

	m.refuses("kv="+installation.WithPassword(t, m.redis.URL, "wrong-secret"), "WRONGPASS")
	m.refuses("db="+installation.WithPassword(t, m.databases, "wrong-secret"), "password authentication failed")
	m.refuses("kv=postgres://wrong-secret@db", "must be db=")
	m.Call("PUT", "/thread/t1", object{"project_id": "p1"}).Want(200)

	out := m.run()
	for _, want := range []string{
		"key-value store cache (" + m.OrgID + ", local): moved to redis with 100,007 keys",
		"key-value store cache (" + other.OrgID + ", local): moved to redis with 17 keys",
		"key-value store scripted (" + m.OrgID + ", local): stays embedded: it has functions",
		"database empty (" + m.OrgID + ", local): moved to postgres",
		"database orders (" + m.OrgID + ", local): stays embedded: it has tables",
		"Moved 3 of 5 databases and key-value stores", "- region: local", "xxxxx",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(out, redistest.Password) {
		t.Errorf("it tells the password of Redis")
	}
	m.Call("GET", "/thread/t1", nil).Want(503)
	m.Stop()
	m.startThere()
	checkStore(m.Steward, "cache", 100_000)
	checkStore(other, "cache", 10)
	after := entryOf(m.Steward, "kv", "cache")
	if after.Engine != "redis" || after.Password == before.Password || after.Username == before.Username {
		t.Errorf("moved from %+v to %+v", before, after)
	}
	m.dead(before, after)
	m.checkStayed()
	made := m.Call("POST", "/resource/"+m.OrgID+"/local", object{"resources": []object{{"type": "db", "name": "new"}, {"type": "kv", "name": "new"}}}).Want(201)
	if made.At("created.0.engine") != "postgres" || made.At("created.1.engine") != "redis" {
		t.Errorf("created %s", made.Body)
	}
	empty := entryOf(m.Steward, "db", "empty")
	if empty.Engine != "postgres" {
		t.Errorf("the empty database is %+v", empty)
	}
	e := &installation.External{Steward: m.Steward}
	m.Must(e.DialPostgres(empty.URL).Ping(t.Context()))
	audited := m.Call("GET", "/audit?action=kv.move", nil).Want(200)
	if !strings.Contains(string(audited.Body), after.Username) {
		t.Errorf("audited: %s", audited.Body)
	}
}

// refuses checks that the command fails at once, without telling passwords.
func (m *engineMove) refuses(engines, want string) {
	m.T.Helper()
	out, err := m.Command("migrate", "--to", m.target, "--region-engine", engines).CombinedOutput()
	if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "wrong-secret") || strings.Contains(string(out), "copying") {
		m.T.Errorf("%v: %s", err, out)
	}
}

// dead checks that the old credentials of a store that was moved are accepted nowhere.
func (m *engineMove) dead(before, after installation.CreatedResource) {
	m.T.Helper()
	addresses := []string{m.redis.Addr, m.Addresses().Listen["kv"]}
	for _, address := range addresses {
		c := redis.NewClient(&redis.Options{Addr: address, Username: before.Username, Password: before.Password, MaxRetries: -1})
		if err := c.Ping(context.Background()).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			m.T.Errorf("the old credentials at %s: %v", address, err)
		}
		m.Must(c.Close())
	}
	c := redis.NewClient(&redis.Options{Addr: addresses[1], Username: after.Username, Password: after.Password, MaxRetries: -1})
	if err := c.Ping(context.Background()).Err(); err == nil {
		m.T.Error("the embedded engine accepts the new credentials")
	}
	m.Must(c.Close())
}

// checkStayed uses what has stayed embedded.
func (m *engineMove) checkStayed() {
	m.T.Helper()
	path := "/resource/" + m.OrgID + "/local"
	c, _ := clientOf(m.Steward, "scripted")
	if got, err := c.FCall(m.T.Context(), "f", nil).Int(); got != 1 || err != nil {
		m.T.Errorf("the function returns %d: %v", got, err)
	}
	entry := entryOf(m.Steward, "db", "orders")
	if entry.Engine != "libsql" {
		m.T.Errorf("the database is %+v", entry)
	}
	d := &installation.SQLDatabase{Steward: m.Steward, Name: "orders", Address: entry.URL, Token: entry.Password}
	d.Exec("INSERT INTO invoices (total) VALUES (12.5)")
	if got := string(m.Call("GET", path+"/orders/tables", nil).Want(200).Body); !strings.Contains(got, "invoices") {
		m.T.Errorf("tables: %s", got)
	}
	rotated := m.Call("POST", path+"/orders/rotate", nil).Want(200)
	if got := d.Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Status; got != 401 {
		m.T.Errorf("the old credentials: %d", got)
	}
	d.Token = rotated.Text("password")
	d.Exec("SELECT total FROM invoices")
	named := []object{{"type": "db", "name": "orders"}, {"type": "kv", "name": "scripted"}}
	m.Call("DELETE", path, object{"resources": named}).Want(204)
	if err := c.Ping(m.T.Context()).Err(); err == nil {
		m.T.Error("a connection to the deleted store still works")
	}
	left, err := filepath.Glob(filepath.Join(m.Dir, "databases", entry.Username, "*"))
	m.Must(err)
	if len(left) > 0 {
		m.T.Errorf("the deleted database has left %v", left)
	}
}

// TestStoreThatDoesNotFitStaysEmbedded moves stores of a server that is stopped to a Redis that has little memory.
func TestStoreThatDoesNotFitStaysEmbedded(t *testing.T) {
	t.Parallel()
	m := newEngineMove(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	large := m.NewKVStore("large").Client()
	for i := range 5 {
		m.Must(large.Set(t.Context(), fmt.Sprint("key", i), strings.Repeat("x", 1<<20), 0).Err())
	}
	m.Must(m.NewKVStore("small").Client().Set(t.Context(), "a", "1", 0).Err())
	before := entryOf(m.Steward, "kv", "large")
	m.Stop()
	out := m.run()
	for _, want := range []string{"large (" + m.OrgID + ", local): stays embedded: ", "OOM", "small (" + m.OrgID + ", local): moved to redis with 1 key\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	m.startThere()
	if after := entryOf(m.Steward, "kv", "large"); after.Password != before.Password || after.Engine != "embedded" {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
	c, _ := clientOf(m.Steward, "large")
	if n := c.StrLen(t.Context(), "key4").Val(); n != 1<<20 {
		t.Errorf("%d bytes", n)
	}
	small, prefix := clientOf(m.Steward, "small")
	if got := small.Get(t.Context(), prefix+"a").Val(); got != "1" {
		t.Errorf("got %q", got)
	}
	m.checkRedis("small")
}

// checkRedis waits until Redis has the users and keys of some stores only.
func (m *engineMove) checkRedis(names ...string) {
	m.T.Helper()
	want := []string{"default"}
	for _, name := range names {
		want = append(want, entryOf(m.Steward, "kv", name).Username)
	}
	slices.Sort(want)
	admin := (&installation.External{Steward: m.Steward}).DialRedis(m.redis.URL)
	ctx := context.Background()
	waittest.Until(m.T, "nothing else to be left on Redis", func() (string, bool) {
		users, err := admin.Do(ctx, "ACL", "USERS").StringSlice()
		m.Must(err)
		slices.Sort(users)
		keys, err := admin.Keys(ctx, "*").Result()
		m.Must(err)
		keys = slices.DeleteFunc(keys, func(key string) bool {
			return slices.ContainsFunc(want, func(user string) bool { return strings.HasPrefix(key, user+":") })
		})
		return fmt.Sprint(users, want, len(keys)), slices.Equal(users, want) && len(keys) == 0
	})
}

// TestMoveOfStoresThatIsInterrupted kills the server while it copies stores.
func TestMoveOfStoresThatIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newEngineMove(t)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		fillStore(m.Steward, name, 20_000)
	}
	cmd := m.Command(m.args()...)
	out, err := cmd.StdoutPipe()
	m.Must(err)
	cmd.Stderr = cmd.Stdout
	m.Must(cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "moved to redis") {
			break
		}
	}
	admin := (&installation.External{Steward: m.Steward}).DialRedis(m.redis.URL)
	waittest.Until(t, "the second store to be copied", func() (int64, bool) { n := admin.DBSize(t.Context()).Val(); return n, n > 21_000 })
	m.Kill()
	rest := ""
	for lines.Scan() {
		rest += lines.Text() + "\n"
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(rest, "the rows were moved, but") {
		t.Errorf("%v: %s", err, rest)
	}
	m.startThere()
	var moved []string
	for _, name := range names {
		checkStore(m.Steward, name, 20_000)
		if entryOf(m.Steward, "kv", name).Engine == "redis" {
			moved = append(moved, name)
		}
	}
	if len(moved) == 0 || len(moved) == len(names) {
		t.Errorf("moved %v", moved)
	}
	m.checkRedis(moved...)
}
