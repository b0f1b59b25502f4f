package rediskv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
	"steward/internal/resource/rediskv"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// refusedCommands are the commands of a server that a store's user may not call. A command that is
// neither here nor permitted is new and needs a decision; TestEveryCommandHasAVerdict says so.
const refusedCommands = `
acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|help acl|list acl|load acl|log acl|save acl|setuser acl|users
asking bgrewriteaof bgsave client|caching client|getredir client|import-source client|kill client|list client|no-evict
client|pause client|tracking client|trackinginfo client|unblock client|unpause cluster config copy dbsize debug
failover fcall fcall_ro flushall flushdb function keys lastsave latency lolwut
memory|doctor memory|help memory|malloc-stats memory|purge memory|stats migrate module monitor move
pfdebug pfselftest psync pubsub randomkey readonly readwrite replconf replicaof restore restore-asking role save scan
script|debug script|flush script|kill select shutdown slaveof slowlog sort sort_ro swapdb sync wait waitaof
`

func set(names string) map[string]bool {
	s := map[string]bool{}
	for _, name := range strings.Fields(names) {
		s[name] = true
	}
	return s
}

func TestEveryCommandHasAVerdict(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	admin := dial(t, server.URL)
	commands, err := admin.Do(t.Context(), "COMMAND", "LIST").StringSlice()
	must(t, err)
	refused := set(refusedCommands)
	for _, command := range commands {
		if slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(c, command+"|") }) {
			continue // its subcommands have verdicts
		}
		container, _, _ := strings.Cut(command, "|")
		want := !refused[command] && !refused[container]
		if got := allowed(t, admin, p, command); got != want {
			t.Errorf("%s: allowed %v, want %v", command, got, want)
		}
	}
}

// allowed reports whether a user may call a command, whatever its arguments.
func allowed(t *testing.T, admin *redis.Client, p *resource.Provisioned, command string) bool {
	t.Helper()
	args := []any{"ACL", "DRYRUN", p.ID}
	for _, word := range strings.Split(command, "|") {
		args = append(args, word)
	}
	for range 6 { // enough arguments for any command; numkeys 1
		args = append(args, p.ID+":1")
	}
	result, err := admin.Do(t.Context(), args...).Text()
	if err != nil { // another number of arguments
		result, err = admin.Do(t.Context(), exact(t, admin, p, command)...).Text()
	}
	must(t, err)
	return !strings.Contains(result, "has no permissions to run")
}

// exact returns the arguments of a dry run with the number of arguments that a command wants.
func exact(t *testing.T, admin *redis.Client, p *resource.Provisioned, command string) []any {
	t.Helper()
	info, err := admin.Do(t.Context(), "COMMAND", "INFO", command).Slice()
	must(t, err)
	arity := info[0].([]any)[1].(int64)
	args := []any{"ACL", "DRYRUN", p.ID}
	for _, word := range strings.Split(command, "|") {
		args = append(args, word)
	}
	for int64(len(args)-3) < max(arity, -arity) {
		args = append(args, p.ID+":1")
	}
	return args
}

func TestCommandsInDangerousCategoriesAreRefused(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	admin := dial(t, server.URL)
	for _, category := range []string{"admin", "dangerous"} {
		commands, err := admin.Do(t.Context(), "ACL", "CAT", category).StringSlice()
		must(t, err)
		if len(commands) < 20 {
			t.Errorf("%s has %d commands", category, len(commands))
		}
		for _, command := range commands {
			if command != "info" && allowed(t, admin, p, command) {
				t.Errorf("%s of %s is allowed", command, category)
			}
		}
	}
}

// attack is a store that tries to reach another.
type attack struct {
	t      *testing.T
	engine *rediskv.Engine
	admin  *redis.Client
	conn   *redis.Client
	own    string // prefix of the attacker
	victim string // prefix of the victim
}

func newAttack(t *testing.T) *attack {
	server := redistest.Start(t, "--enable-debug-command", "yes", "--enable-module-command", "yes")
	e := open(t, server.URL)
	attacker := create(t, e)
	victim := create(t, e)
	a := &attack{t: t, engine: e, admin: dial(t, server.URL), own: attacker.ID + ":", victim: victim.ID + ":"}
	a.conn = dial(t, e.Connection(attacker).URL)
	must(t, dial(t, e.Connection(victim).URL).Set(t.Context(), a.victim+"secret", "value of the victim", 0).Err())
	must(t, a.admin.Set(t.Context(), "outside", "value of the victim", 0).Err())
	must(t, a.conn.Set(t.Context(), a.own+"mine", "1", 0).Err())
	return a
}

// run runs a command line, in which own: and victim: stand for the prefixes, {own} and {victim} for the
// users.
func (a *attack) run(words ...string) (any, error) {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = strings.NewReplacer("own:", a.own, "victim:", a.victim, "{victim}", strings.TrimSuffix(a.victim, ":"),
			"{own}", strings.TrimSuffix(a.own, ":")).Replace(word)
	}
	return a.conn.Do(a.t.Context(), args...).Result()
}

func TestOtherStoresCannotBeReached(t *testing.T) {
	a := newAttack(t)
	for _, line := range []string{
		"GET {{victim}}:secret", "SET {{victim}}:secret x", "MGET own:mine {{victim}}:secret", "SUBSCRIBE {{victim}}:c", "PUBLISH {{victim}}:c x",
		"GET victim:secret", "GET outside", "SET victim:secret x", "SET outside x", "DEL victim:secret", "UNLINK victim:secret",
		"GETDEL victim:secret", "GETEX victim:secret", "MGET own:mine victim:secret", "MSET own:mine 1 victim:x 1",
		"EXISTS victim:secret", "TYPE victim:secret", "TTL victim:secret", "EXPIRE victim:secret 1", "PERSIST victim:secret",
		"TOUCH victim:secret", "STRLEN victim:secret", "DUMP victim:secret", "OBJECT ENCODING victim:secret", "MEMORY USAGE victim:secret",
		"RENAME victim:secret own:stolen", "RENAME own:mine victim:secret", "RENAMENX own:mine victim:x", "COPY victim:secret own:x",
		"COPY own:mine own:x DB 1", "MOVE own:mine 1", "SORT own:mine GET victim:*", "SORT own:mine BY nosort GET victim:secret",
		"SORT own:mine STORE victim:x", "SORT_RO own:mine", "BITOP AND own:x victim:secret", "BITOP AND victim:x own:mine",
		"LMOVE victim:l own:l LEFT LEFT", "RPOPLPUSH own:l victim:l", "BLPOP victim:l 1", "LMPOP 2 own:l victim:l LEFT",
		"SUNIONSTORE own:s victim:s", "SDIFFSTORE victim:s own:s", "SMOVE own:s victim:s 1", "SINTERCARD 2 own:s victim:s",
		"ZUNIONSTORE own:z 1 victim:z", "ZUNIONSTORE victim:z 1 own:z", "ZRANGESTORE victim:z own:z 0 -1", "ZUNION 2 own:z victim:z",
		"GEOSEARCHSTORE victim:g own:g FROMLONLAT 0 0 BYRADIUS 1 km", "GEORADIUS own:g 0 0 1 km STORE victim:g", "PFMERGE own:p victim:p",
		"PFCOUNT victim:p", "XREAD STREAMS own:x victim:x 0 0", "XREADGROUP GROUP g c STREAMS victim:x >", "XADD victim:x * a 1",
		"LCS own:mine victim:secret", "WATCH victim:secret", "SUBSTR victim:secret 0 -1", "RESTORE own:x 0 x", "RESTORE victim:x 0 x",
		"MIGRATE 127.0.0.1 1 own:mine 0 100", "SCAN 0", "SCAN 0 MATCH own:*", "KEYS *", "KEYS own:*", "RANDOMKEY", "DBSIZE",
		"SELECT 1", "SWAPDB 0 1", "FLUSHDB", "FLUSHALL", "PUBLISH victim:c x", "PUBLISH c x", "SPUBLISH victim:c x",
		"SUBSCRIBE victim:c", "SUBSCRIBE __keyspace@0__:victim:secret", "PSUBSCRIBE *", "PSUBSCRIBE victim:*", "PSUBSCRIBE own:*?*",
		"SSUBSCRIBE victim:c", "PUBSUB CHANNELS", "PUBSUB NUMSUB victim:c", "PUBSUB SHARDCHANNELS",
		"MONITOR", "SYNC", "PSYNC ? -1", "REPLICAOF 127.0.0.1 1", "FAILOVER", "ROLE", "LASTSAVE",
		"CONFIG GET *", "CONFIG SET dir /tmp", "CONFIG REWRITE", "DEBUG OBJECT own:mine", "DEBUG SLEEP 0", "SAVE", "BGSAVE", "BGREWRITEAOF",
		"SHUTDOWN NOSAVE", "SLOWLOG GET", "LATENCY HISTORY x", "MODULE LIST", "MODULE LOAD /tmp/x.so", "MEMORY STATS", "MEMORY DOCTOR",
		"ACL LIST", "ACL USERS", "ACL GETUSER default", "ACL GETUSER {victim}", "ACL SETUSER {victim} nopass", "ACL SETUSER x +@all",
		"ACL DELUSER {victim}", "ACL SAVE", "ACL LOAD", "ACL LOG", "ACL DRYRUN default GET x",
		"CLIENT LIST", "CLIENT KILL USER {victim}", "CLIENT KILL TYPE normal", "CLIENT PAUSE 1", "CLIENT UNPAUSE", "CLIENT UNBLOCK 1",
		"CLIENT TRACKING ON BCAST", "CLIENT TRACKING ON BCAST PREFIX victim:", "CLIENT TRACKING ON REDIRECT 1", "CLIENT NO-EVICT ON",
		"SCRIPT FLUSH", "SCRIPT KILL", "SCRIPT DEBUG YES", "FUNCTION LIST", "FUNCTION FLUSH", "FUNCTION DUMP", "FUNCTION KILL",
		"FUNCTION STATS", "FCALL f 0", "FCALL_RO f 0", "CLUSTER NODES", "CLUSTER KEYSLOT own:mine", "WAIT 0 1", "LOLWUT",
	} {
		result, err := a.run(strings.Split(line, " ")...)
		if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%s: %v, %v", line, result, err)
		}
	}
	a.intact()
}

// intact fails the test if the victim's value has changed.
func (a *attack) intact() {
	a.t.Helper()
	for _, key := range []string{a.victim + "secret", "outside"} {
		if value, err := a.admin.Get(a.t.Context(), key).Result(); err != nil || value != "value of the victim" {
			a.t.Errorf("%s is %q: %v", key, value, err)
		}
	}
	keys, err := a.admin.DBSize(a.t.Context()).Result()
	must(a.t, err)
	if keys != 3 {
		a.t.Errorf("the server has %d keys, want 3", keys)
	}
}

func TestScriptsAreConfinedToo(t *testing.T) {
	a := newAttack(t)
	for _, call := range []string{
		"'GET', 'victim:secret'", "'SET', 'victim:secret', 'x'", "'DEL', 'outside'", "'RENAME', KEYS[1], 'victim:x'", "'KEYS', '*'", "'SCAN', '0'",
		"'FLUSHALL'", "'CONFIG', 'GET', '*'", "'SELECT', '1'", "'PUBLISH', 'victim:c', 'x'", "'SORT', KEYS[1], 'GET', 'victim:*'", "'DBSIZE'",
		"'COPY', KEYS[1], KEYS[1]..'2', 'DB', '1'", "'FUNCTION', 'LIST'", "'GET', '{{victim}}:secret'", "'ACL', 'LIST'", "'CLIENT', 'LIST'", "'RANDOMKEY'",
		"'EVAL', 'return 1', 0", "'MIGRATE', 'h', 1, KEYS[1], 0, 1",
	} {
		for _, how := range []string{"call", "pcall"} {
			script := fmt.Sprintf("return redis.%s(%s)", how, call)
			if result, err := a.run("EVAL", script, "1", "own:mine"); err == nil {
				t.Errorf("%s: %v", script, result)
			}
		}
	}
	if result, err := a.run("EVAL", "return 1", "1", "victim:secret"); err == nil {
		t.Errorf("a script with a key of the victim: %v", result)
	}
	for _, script := range []string{
		"return os.execute('id')", "return io.open('/etc/passwd'):read()", "return loadfile('/etc/passwd')", "return dofile('/etc/passwd')",
		"return require('os')", "return package.loadlib('x', 'y')", "redis.call = nil", "string.len = nil", "shared = 1", "return debug.getinfo(1)",
	} {
		if result, err := a.run("EVAL", script, "0"); err == nil {
			t.Errorf("%s: %v", script, result)
		}
	}
	a.intact()
	result, err := a.run("EVAL", "redis.call('INCR', KEYS[1]); return redis.call('GET', KEYS[1])", "1", "own:mine")
	if err != nil || result != "2" {
		t.Errorf("a script of its own key: %v, %v", result, err)
	}
}

func TestTransactionsAreConfinedToo(t *testing.T) {
	a := newAttack(t)
	_, err := a.conn.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.Set(t.Context(), a.own+"mine", "2", 0)
		tx.Set(t.Context(), a.victim+"secret", "x", 0)
		return nil
	})
	if err == nil {
		t.Error("a transaction with a key of the victim succeeded")
	}
	a.intact()
}

func TestOrdinaryClientsWork(t *testing.T) {
	a := newAttack(t)
	for _, line := range []string{
		"HELLO 3", "SELECT 0", "CLIENT SETNAME x", "INFO", "INFO server", "SET {{own}}:a 1", "PUBLISH {{own}}:c x",
		"SCRIPT EXISTS x", "UNLINK {{own}}:a",
		"CLIENT ID", "CLIENT INFO", "COMMAND COUNT", "COMMAND DOCS get", "ACL WHOAMI", "PING", "TIME",
		"SET own:a 1 EX 10 NX", "INCRBY own:n 2", "HSET own:h a 1", "HSCAN own:h 0", "RPUSH own:l a b", "BLPOP own:l 1", "SADD own:s a",
		"ZADD own:z 1 a", "ZRANGE own:z 0 -1 WITHSCORES", "XADD own:x * a 1", "XGROUP CREATE own:x g 0", "XREADGROUP GROUP g c STREAMS own:x >",
		"PFADD own:p a", "GEOADD own:g 0 0 a", "SETBIT own:b 1 1", "RENAME own:a own:a2", "OBJECT ENCODING own:h", "MEMORY USAGE own:h",
		"SUNIONSTORE own:s2 own:s", "PUBLISH own:c x", "SCRIPT LOAD return", "EXPIRE own:n 10", "DUMP own:n", "UNLINK own:n own:h", "RESET",
	} {
		if _, err := a.run(strings.Split(line, " ")...); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestSubscribersHearOnlyTheirOwnStore(t *testing.T) {
	a := newAttack(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sub := a.conn.PSubscribe(ctx, a.own+"*")
	defer func() { _ = sub.Close() }()
	_, err := sub.Receive(ctx)
	must(t, err)
	must(t, a.admin.Publish(ctx, a.victim+"c", "of the victim").Err())
	_, err = a.run("PUBLISH", "own:c", "own")
	must(t, err)
	message := waittest.Receive(t, "a message", sub.Channel())
	if message.Payload != "own" {
		t.Errorf("received %q", message.Payload)
	}
}

func TestInfoCanBeRefused(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL+"?info=false")
	p := create(t, e)
	c := dial(t, e.Connection(p).URL)
	if err := c.Info(t.Context()).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("INFO: %v", err)
	}

	// The setting applies to users that exist, from the next start.
	allowing := open(t, server.URL)
	must(t, allowing.Ensure(t.Context(), []*resource.Provisioned{p}))
	must(t, c.Info(t.Context()).Err())
}
