package redis

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/resource/rediskv/redistest"
)

// example is a way to draw a command for the comparison with redis-server.
type example struct {
	name string
	// draw returns the arguments behind the name.
	draw func(t *rapid.T) []string
	// same says how replies are compared; nil means that they are equal.
	same func(theirs, ours any) bool
}

// examples are those of all groups of commands: each file of a group's tests has some.
func examples() []example {
	return slices.Concat(stringExamples, keyExamples, hashExamples, setExamples, listExamples, zsetExamples,
		bitmapExamples, sortExamples, hyperLogLogExamples, geoExamples, streamExamples)
}

// TestDifferential runs random commands on redis-server and on a store, and compares replies, keys, and
// what the log makes of them. rapid's flag -rapid.checks sets the number of sequences.
func TestDifferential(t *testing.T) { compareWithRedis(t, examples()) }

// compareWithRedis runs sequences of some examples.
func compareWithRedis(t *testing.T, all []example) {
	j := newJudge(t)
	rapid.Check(t, func(rt *rapid.T) {
		j.begin(rt, rapid.SampledFrom([]int{2, 3}).Draw(rt, "protocol"))
		var steps []example
		var requests [][]string
		for range rapid.IntRange(1, 30).Draw(rt, "length") {
			e := rapid.SampledFrom(all).Draw(rt, "command")
			steps = append(steps, e)
			requests = append(requests, append(strings.Fields(e.name), e.draw(rt)...))
		}
		theirs, ours := j.theirs.pipeline(rt, requests), j.run(requests)
		for i, step := range steps {
			same := step.same
			if same == nil {
				same = reflect.DeepEqual
			}
			if !same(theirs[i], ours[i]) {
				rt.Fatalf("%q:\nredis-server %#v\nhere         %#v", requests[i], theirs[i], ours[i])
			}
		}
		j.compareReplay(rt)
	})
}

// judge has a redis-server and a store.
type judge struct {
	theirs *wire
	dir    string
	store  *Store
	client *Client
}

func newJudge(t *testing.T) *judge {
	server := redistest.Start(t)
	j := &judge{theirs: dial(t, server.Addr), dir: t.TempDir()}
	j.theirs.pipeline(t, [][]string{{"AUTH", redistest.Password}})
	j.store = open(t, Dir(j.dir), Options{})
	return j
}

// begin empties both, and makes connections of a version of the protocol.
func (j *judge) begin(t rapid.TB, protocol int) {
	j.theirs.pipeline(t, [][]string{{"FLUSHALL"}, {"HELLO", strconv.Itoa(protocol)}})
	j.client = NewClient(1, "")
	j.client.store = j.store
	j.client.out.resp3 = protocol == 3
	j.run([][]string{{"FLUSHALL"}})
}

// run runs requests on the store, without a connection.
func (j *judge) run(requests [][]string) []any {
	var replies []any
	_ = j.store.do(func() {
		for _, args := range requests {
			j.client.out.b = nil
			j.store.execute(j.client, args)
			reply, err := readReply(bufio.NewReader(strings.NewReader(string(j.client.out.b))))
			if err != nil {
				reply = fmt.Sprintf("%q: %v", j.client.out.b, err)
			}
			replies = append(replies, reply)
		}
		j.client.out.b = nil
	})
	return replies
}

// compareReplay compares the keys of the store with those that its log makes.
func (j *judge) compareReplay(t rapid.TB) {
	copied, err := os.MkdirTemp(j.dir, "replay")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(copied) }()
	_ = j.store.do(func() {}) // the turn before has been written
	data, err := os.ReadFile(j.dir + "/" + logName)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied+"/"+logName, data, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Dir(copied), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if want, got := dumps(j.store), dumps(again); !reflect.DeepEqual(want, got) {
		t.Fatalf("the log makes other keys:\nwant %q\ngot  %q", want, got)
	}
}

// dumps returns the values of all keys that have not expired.
func dumps(s *Store) map[string]string {
	all := map[string]string{}
	_ = s.do(func() {
		s.keys.entries.All(func(e *entry) bool {
			if !e.expired(s.now() + 100) {
				all[e.key] = fmt.Sprintf("%d %q", e.expires, dump(e.value))
			}
			return true
		})
	})
	return all
}

// wire is a connection to a server.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(t testing.TB, addr string) *wire {
	t.Helper()
	w := connect(t, addr)
	t.Cleanup(func() { _ = w.conn.Close() })
	return w
}

// connect is dial for a connection that the caller closes.
func connect(t rapid.TB, addr string) *wire {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &wire{conn: conn, in: bufio.NewReader(conn)}
}

// send sends requests.
func (w *wire) send(t rapid.TB, requests [][]string) {
	var b strings.Builder
	for _, args := range requests {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if _, err := io.WriteString(w.conn, b.String()); err != nil {
		t.Fatal(err)
	}
}

// pipeline sends requests and returns their replies.
func (w *wire) pipeline(t rapid.TB, requests [][]string) []any {
	w.send(t, requests)
	replies := make([]any, len(requests))
	for i := range replies {
		var err error
		if replies[i], err = readReply(w.in); err != nil {
			t.Fatal(err)
		}
	}
	return replies
}

// simple is a simple string, failure an error, and unordered a set or map of RESP3.
type (
	simple    string
	failure   string
	double    string
	set3      []any
	map3      []any
	push3     []any
	verbatim3 string
	bigNumber string
)

// readReply reads a reply: nil, int64, string, bool, simple, failure, []any, or one of the types of RESP3.
func readReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+':
		return simple(text), nil
	case '-':
		return failure(text), nil
	case '_':
		return nil, nil
	case '#':
		return text == "t", nil
	case ',':
		return double(text), nil
	case '(':
		return bigNumber(text), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || kind == ':' {
		return n, err
	}
	if n < 0 {
		return nil, nil
	}
	switch kind {
	case '$', '=':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		if kind == '=' {
			return verbatim3(b[:n]), nil
		}
		return string(b[:n]), nil
	case '*':
		return readReplies(in, n)
	case '~':
		all, err := readReplies(in, n)
		return set3(all), err
	case '>':
		all, err := readReplies(in, n)
		return push3(all), err
	case '%':
		all, err := readReplies(in, 2*n)
		return map3(all), err
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

func readReplies(in *bufio.Reader, n int64) ([]any, error) {
	all := []any{}
	for range n {
		v, err := readReply(in)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// anyOrder reports whether two lists or sets have the same elements.
func anyOrder(a, b any) bool { return reflect.DeepEqual(sorted(a, 1), sorted(b, 1)) }

// anyPairs reports whether two lists or maps have the same pairs.
func anyPairs(a, b any) bool { return reflect.DeepEqual(sorted(a, 2), sorted(b, 2)) }

// sorted returns a reply as text, with its elements, in groups, sorted.
func sorted(reply any, group int) []string {
	v := reflect.ValueOf(reply)
	if v.Kind() != reflect.Slice || v.Len()%group != 0 {
		return []string{fmt.Sprintf("%#v", reply)}
	}
	all := []string{v.Type().String()}
	for i := 0; i < v.Len(); i += group {
		all = append(all, fmt.Sprintf("%#v", v.Slice(i, i+group).Interface()))
	}
	slices.SortFunc(all[1:], cmp.Compare[string])
	return all
}

// about reports whether two numbers, such as milliseconds, differ by little.
func about(a, b any) bool {
	m, ok := a.(int64)
	n, also := b.(int64)
	return reflect.DeepEqual(a, b) || ok && also && m-n < 2000 && n-m < 2000
}

// sameType reports whether replies to a command with a random result have the same form.
func sameType(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// Keys and values are few, so that commands meet.

func someKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "{e}f"}).Draw(t, "key")
}

func someValue(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "x", "y", "z", "foo", "bar", "0", "1", "-1", "10", "3.5", "1e3", "inf", " 1", "9223372036854775807"}),
		rapid.StringN(0, 8, 16),
		rapid.Map(rapid.IntRange(-20, 20), strconv.Itoa),
	).Draw(t, "value")
}

func someInt(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-12, 12), strconv.Itoa),
		rapid.SampledFrom([]string{"", "x", "1.5", "100000", "-100000", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "01", "+1", "-0"}),
	).Draw(t, "int")
}

func someFloat(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-12, 12), strconv.Itoa),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }),
		rapid.SampledFrom([]string{"", "x", "inf", "-inf", "+inf", "nan", "1e300", "0.1"}),
	).Draw(t, "float")
}

// several returns some of what draw returns.
func several(t *rapid.T, least, most int, draw func(*rapid.T) string) []string {
	return rapid.SliceOfN(rapid.Custom(draw), least, most).Draw(t, "several")
}

// options returns some of a number of groups of words, each of which may have been drawn, in any order.
func options(t *rapid.T, groups ...[]string) []string {
	var all []string
	for _, g := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(groups)-1), 0, len(groups), rapid.ID[int]).Draw(t, "options") {
		all = append(all, groups[g]...)
	}
	return all
}

// words returns the arguments of a command that has these.
func words(draws ...func(*rapid.T) string) func(*rapid.T) []string {
	return func(t *rapid.T) []string {
		var all []string
		for _, draw := range draws {
			all = append(all, draw(t))
		}
		return all
	}
}
