package embedkv

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"steward/internal/id"
	store "steward/internal/redis"
	"steward/internal/resource"
	"steward/internal/sqlite"
)

// redkaStore returns a store of redka, which was written by an earlier version (testdata/redka/README.md).
func (f *fixture) redkaStore() *resource.Provisioned {
	f.t.Helper()
	p := &resource.Provisioned{ID: id.New(id.KVStore), Type: resource.KV, OrgID: "org_a", Node: f.Node, Password: id.Secret(43)}
	must(f.t, os.Mkdir(f.dir(p.ID), 0o700))
	copyFile(f.t, "testdata/redka/store.db", filepath.Join(f.dir(p.ID), redkaFile))
	f.put(p)
	return p
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, b, 0o600))
}

// checkConverted compares a store with testdata/redka/commands.txt.
func checkConverted(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := t.Context()
	for key, want := range map[string]string{
		"text": "hello", "empty": "", "bytes": "\x00\xff\r\n", "number": "42", "": "the empty key", "\xff\xfe": "a key that is no UTF-8",
		"later": "value", "soon": "value", "stays": "value",
	} {
		got, err := c.Get(ctx, key).Result()
		must(t, err)
		equal(t, key, got, want)
	}
	equal(t, "list", strings.Join(c.LRange(ctx, "list", 0, -1).Val(), ","), "first,b,between,a,,\x00\xff")
	hash := c.HGetAll(ctx, "hash").Val()
	equal(t, "hash", len(hash) == 4 && hash["b"] == "1" && hash["a"] == "2" && hash[""] == "empty" && hash["c"] == "\x00\xff", true)
	set := c.SMembers(ctx, "set").Val()
	slices.Sort(set)
	equal(t, "set", strings.Join(set, ","), ",\x00\xff,a,b")
	numbers := c.SMembers(ctx, "numbers").Val()
	slices.Sort(numbers)
	equal(t, "set of numbers", strings.Join(numbers, ","), "1,2,3")
	scores := c.ZRangeWithScores(ctx, "zset", 0, -1).Val()
	want := []redis.Z{{Score: -2, Member: "b"}, {Score: 0.1, Member: "\x00\xff"}, {Score: 1.5, Member: "a"}, {Score: 1e300, Member: "c"}}
	equal(t, "sorted set", slices.Equal(scores, want), true)
	for key, want := range map[string]int64{
		"later": 4102444800000, "soon": 4102444800001, "hash": 4102444800002, "list": 4102444800003, "zset": 4102444800004,
		"stays": -1, "set": -1, "emptied": -2,
	} {
		got, err := c.Do(ctx, "PEXPIRETIME", key).Int64()
		must(t, err)
		equal(t, "expiry of "+key, got, want)
	}
	equal(t, "keys", c.DBSize(ctx).Val(), 14)
}

func TestConvert(t *testing.T) {
	f := start(t, nil)
	p := f.redkaStore()
	must(t, f.Create(t.Context(), p)) // a repeated Create keeps what there is
	c := f.client(p)
	checkConverted(t, c)
	must(t, c.Set(t.Context(), "text", "changed", 0).Err())
	_, err := os.Stat(filepath.Join(f.dir(p.ID), convertedFile))
	must(t, err)
	must(t, f.Engine.Close(context.Background()))
	again := start(t, func(e *Engine) { e.Dir = f.Dir })
	again.put(p)
	equal(t, "a key that was changed since", again.client(p).Get(t.Context(), "text").Val(), "changed")
}

// TestConvertAfterCrash has what a conversion leaves behind that was ended at some point.
func TestConvertAfterCrash(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, dir string){
		"while it was written": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "store.log.new"), []byte("SKVLOG1\n\x10\x00"), 0o600))
		},
		"before the file was renamed": func(t *testing.T, dir string) {
			must(t, importFile(store.Dir(dir), filepath.Join(dir, redkaFile)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			p := f.redkaStore()
			leave(t, f.dir(p.ID))
			checkConverted(t, f.client(p))
		})
	}
}

// TestConvertReadsTheLogOfSQLite has a file whose last changes are in its write-ahead log, as after a crash.
func TestConvertReadsTheLogOfSQLite(t *testing.T) {
	f := start(t, nil)
	p := f.redkaStore()
	source := filepath.Join(t.TempDir(), redkaFile)
	copyFile(t, "testdata/redka/store.db", source)
	db, err := sqlite.Open(source, []string{"journal_mode(wal)"})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	must(t, db.Exec("UPDATE rstring SET value = CAST('new' AS BLOB) WHERE kid = (SELECT id FROM rkey WHERE key = 'text')"))
	must(t, db.Exec("UPDATE rkey SET etime = 1 WHERE key = 'number'"))
	for _, end := range []string{"", "-wal"} {
		copyFile(t, source+end, filepath.Join(f.dir(p.ID), redkaFile+end))
	}
	c := f.client(p)
	equal(t, "changed", c.Get(t.Context(), "text").Val(), "new")
	equal(t, "expired", c.Exists(t.Context(), "number").Val(), 0)
}

// TestConvertedStoreAboveItsLimit serves reads and deletions.
func TestConvertedStoreAboveItsLimit(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Memory: 1000} })
	c := f.client(f.redkaStore())
	checkConverted(t, c)
	wantError(t, "SET", c.Set(t.Context(), "new", "x", 0).Err(), "OOM ")
	equal(t, "DEL", c.Del(t.Context(), "list", "hash").Val(), 2)
	must(t, c.FlushDB(t.Context()).Err())
	must(t, c.Set(t.Context(), "new", "x", 0).Err())
}
