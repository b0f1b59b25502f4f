package redis

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"steward/internal/resource/rediskv/redistest"
)

// blockedReads are reads that block, what is run then, and, for those that are still blocked, what ends
// them.
var blockedReads = []struct {
	name   string
	before []string
	reads  []string
	then   []string
}{
	{
		name:  "XREAD of a new stream",
		reads: []string{"xread block 0 streams a $"},
		then:  []string{"xadd a 1 f v"},
	},
	{
		name:   "XREAD of the one key that has changed",
		before: []string{"xadd a 1 f v"},
		reads:  []string{"xread count 1 block 0 streams a b $ 0"},
		then:   []string{"xadd a 1 f v", "xadd b 2 f v"},
	},
	{
		name:  "XREAD of two keys that change at once",
		reads: []string{"xread block 0 streams a b 0 0"},
		then:  []string{"multi", "xadd b 2 f v", "xadd a 1 f v", "exec"},
	},
	{
		name:  "XREAD after several entries",
		reads: []string{"xread count 2 block 0 streams a 0"},
		then:  []string{"multi", "xadd a 2 f v", "xadd a 3 f v", "xadd a 4 f v", "exec"},
	},
	{
		name:  "XREAD of an entry that was deleted at once",
		reads: []string{"xread block 0 streams a 0"},
		then:  []string{"multi", "xadd a 2 f v", "xdel a 2", "exec"},
	},
	{
		name:   "XREAD stays blocked when its key is deleted or another value",
		before: []string{"xadd a 1 f v"},
		reads:  []string{"xread block 0 streams a $"},
		then:   []string{"del a", "set a x", "del a", "xadd a 2 f v"},
	},
	{
		name:   "XREAD stays blocked while entries are deleted and IDs set",
		before: []string{"xadd a 1 f v"},
		reads:  []string{"xread block 0 streams a $"},
		then:   []string{"xdel a 1", "xsetid a 5", "xgroup create a g 0", "xadd a 6 f v"},
	},
	{
		name:  "XREAD of two clients",
		reads: []string{"xread block 0 streams a $", "xread block 0 streams a $"},
		then:  []string{"xadd a 1 f v"},
	},
	{
		name:   "XREADGROUP of a new entry",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"xadd a 1 f v", "xpending a g", "xinfo groups a"},
	},
	{
		name:   "XREADGROUP of two consumers",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >", "xreadgroup group g d block 0 streams a >"},
		then:   []string{"xadd a 1 f v", "xadd a 2 f v", "xpending a g"},
	},
	{
		name:   "XREADGROUP with NOACK",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c noack block 0 streams a >"},
		then:   []string{"xadd a 1 f v", "xpending a g", "xinfo groups a"},
	},
	{
		name:   "XREADGROUP of a group that is moved",
		before: []string{"xadd a 1 f v", "xgroup create a g $"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"xgroup setid a g 0", "xadd a 2 f v"},
	},
	{
		name:   "XREADGROUP of a key that is deleted",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"del a"},
	},
	{
		name:   "XREADGROUP of a key that gets another value",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"set a x"},
	},
	{
		name:   "XREADGROUP of a key that is deleted and gets another value",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"multi", "del a", "set a x", "exec"},
	},
	{
		name:   "XREADGROUP of a keyspace that is flushed",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"flushall"},
	},
	{
		name:   "XREADGROUP of a group that is destroyed",
		before: []string{"xgroup create a g $ mkstream", "xgroup create a h $"},
		reads:  []string{"xreadgroup group g c block 0 streams a >", "xreadgroup group h c block 0 streams a >"},
		then:   []string{"xgroup destroy a g", "xadd a 1 f v"},
	},
	{
		name:   "XREADGROUP of two keys, one of which is deleted",
		before: []string{"xgroup create a g $ mkstream", "xgroup create b g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a b > >"},
		then:   []string{"del b"},
	},
	{
		name:   "XREADGROUP of a key that another with entries is renamed to",
		before: []string{"xgroup create a g $ mkstream", "xgroup create b g $ mkstream", "xadd b 5 f v"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"rename b a"},
	},
	{
		name:   "XREADGROUP of a key that another without the group is renamed to",
		before: []string{"xgroup create a g $ mkstream", "xadd b 5 f v"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"rename b a"},
	},
	{
		name:   "XREADGROUP of a key that is renamed",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"rename a b"},
	},
	{
		name:   "XREAD of a key that is a copy",
		before: []string{"xadd b 5 f v"},
		reads:  []string{"xread block 0 streams a 0"},
		then:   []string{"copy b a"},
	},
	{
		name:   "XREADGROUP of a key that expires at once",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xreadgroup group g c block 0 streams a >"},
		then:   []string{"pexpire a -1"},
	},
	{
		name:  "XREAD and BLPOP of one key",
		reads: []string{"xread block 0 streams a 0", "blpop a 0"},
		then:  []string{"rpush a x", "xadd a 1 f v"},
	},
	{
		name:  "XREAD within a transaction",
		reads: nil,
		then:  []string{"multi", "xread block 0 streams a 0", "exec"},
	},
	{
		name:   "time out",
		before: []string{"xgroup create a g $ mkstream"},
		reads:  []string{"xread block 1 streams a $", "xreadgroup group g c block 1 streams a >"},
	},
}

func TestBlockedReadsOfStreams(t *testing.T) {
	server := redistest.Start(t)
	for _, test := range blockedReads {
		t.Run(test.name, func(t *testing.T) {
			theirs := runBlocked(t, server.Addr, test.before, test.reads, test.then, func(w *wire) int {
				info := w.pipeline(t, [][]string{{"INFO", "clients"}})[0].(string)
				_, after, _ := strings.Cut(info, "blocked_clients:")
				return int(after[0] - '0')
			})
			s := open(t, Dir(t.TempDir()), Options{})
			ours := runBlocked(t, serve(t, s), test.before, test.reads, test.then, func(*wire) int {
				n := 0
				_ = s.do(func() {
					for c := range s.clients {
						if c.blocked != nil {
							n++
						}
					}
				})
				return n
			})
			for i, reply := range ours {
				if text, failed := theirs[i].(failure); failed && (strings.HasPrefix(string(text), "UNBLOCKED ") || strings.HasPrefix(string(text), "NOGROUP the ")) {
					if error72 := fmt.Sprint(reply); strings.HasPrefix(error72, "NOGROUP No such key ") || strings.HasPrefix(error72, "WRONGTYPE ") {
						theirs[i] = reply // Redis 7.2 runs the command again
					}
				}
			}
			if !reflect.DeepEqual(theirs, ours) {
				t.Errorf("\nredis-server %#v\nhere         %#v", theirs, ours)
			}
		})
	}
}

// runBlocked runs commands, reads that block, each on a connection, and commands after they do. It returns
// the replies to the latter and to the reads.
func runBlocked(t *testing.T, addr string, before, reads, then []string, blocked func(*wire) int) []any {
	admin := dialAuthenticated(t, addr)
	admin.pipeline(t, [][]string{{"FLUSHALL"}})
	for _, command := range before {
		admin.pipeline(t, [][]string{strings.Fields(command)})
	}
	var waiting []*wire
	for i, command := range reads {
		w := dialAuthenticated(t, addr)
		w.send(t, [][]string{strings.Fields(command)})
		for len(then) > 0 && blocked(admin) <= i {
			continue // until the server has read the command
		}
		waiting = append(waiting, w)
	}
	var replies []any
	for _, command := range then {
		replies = append(replies, admin.pipeline(t, [][]string{strings.Fields(command)})...)
	}
	for _, w := range waiting {
		reply, err := readReply(w.in)
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, reply)
	}
	return replies
}

// dialAuthenticated returns a connection to a server, with the password that redis-server has in tests.
func dialAuthenticated(t *testing.T, addr string) *wire {
	w := dial(t, addr)
	w.pipeline(t, [][]string{{"AUTH", redistest.Password}})
	return w
}
