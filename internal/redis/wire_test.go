package redis

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

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

// connect is dial for a connection that the caller closes. The address is one of TCP or the path of a socket.
func connect(t rapid.TB, addr string) *wire {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	conn, err := net.Dial(network, addr)
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
