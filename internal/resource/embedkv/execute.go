package embedkv

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nalgeon/redka"
	"github.com/tidwall/redcon"
)

// execute runs a command and writes its reply.
func (s *store) execute(out *reply, r request) {
	out.name = r.name
	out.args = r.cmd.Args
	out.file = s.conn
	defer func() { out.file = nil }()
	cmd := r.asRedka()
	switch {
	case !storeCommands[r.name]:
		out.unknownCommand()
	case adders[r.name] && s.disk.Room() != nil:
		out.WriteError("OOM command not allowed when the disk of the server is almost full")
	case (r.name == "flushdb" || r.name == "flushall") && len(cmd.Args) == 1:
		s.flushCommand(out)
	case (r.name == "lpush" || r.name == "rpush") && len(r.cmd.Args) > 3:
		s.push(out, r.cmd.Args)
	case r.name == "pttl" && len(cmd.Args) == 2:
		s.pttl(out, string(cmd.Args[1]))
	case strings.HasSuffix(r.name, "scan"):
		s.scan(out, cmd)
	case ranges[r.name] && len(cmd.Args) >= 4:
		s.ranged(out, r.name, cmd.Args)
	default:
		s.command(out, cmd)
	}
	if keys := removers[r.name]; len(r.cmd.Args) > keys {
		s.deleteEmpty(r.cmd.Args[1 : 1+keys])
	}
}

// removers are the commands that may leave a key without elements, with the number of keys concerned.
var removers = map[string]int{
	"lpop": 1, "rpop": 1, "lrem": 1, "ltrim": 1, "rpoplpush": 1, "hdel": 1, "srem": 1, "spop": 1, "smove": 1,
	"zrem": 1, "zremrangebyrank": 1, "zremrangebyscore": 1,
	"sdiffstore": 1, "sinterstore": 1, "sunionstore": 1, "zinterstore": 1, "zunionstore": 1,
}

// deleteEmpty deletes keys without elements, as Redis does. redka keeps them.
func (s *store) deleteEmpty(keys [][]byte) {
	for _, key := range keys {
		args := []driver.NamedValue{{Ordinal: 1, Value: string(key)}}
		if _, err := s.conn.ExecContext(context.Background(), "delete from rkey where key = $1 and len = 0", args); err != nil {
			s.conn.fail(err)
		}
	}
}

// ranges are the commands with two indexes, which may be negative.
var ranges = map[string]bool{"lrange": true, "ltrim": true, "zrange": true, "zrevrange": true, "zremrangebyrank": true}

// ranged runs a command with two indexes. redka fails on negative ones of a list that is not there, and
// takes those of sorted sets for an empty range.
func (s *store) ranged(out *reply, name string, args [][]byte) {
	first, err1 := strconv.Atoi(string(args[2]))
	last, err2 := strconv.Atoi(string(args[3]))
	if err1 != nil || err2 != nil || slices.ContainsFunc(args[4:], isByScore) {
		s.command(out, redcon.Command{Args: args})
		return
	}
	n, err := s.length(name, string(args[1]))
	if err != nil {
		out.WriteError(fmt.Sprint(err))
		return
	}
	first = max(absolute(first, n), 0)
	last = min(absolute(last, n), n-1)
	if first > last {
		s.emptyRange(out, name, args[1])
		return
	}
	indexes := [][]byte{args[0], args[1], []byte(strconv.Itoa(first)), []byte(strconv.Itoa(last))}
	s.command(out, redcon.Command{Args: append(indexes, args[4:]...)})
}

func isByScore(arg []byte) bool { return strings.EqualFold(string(arg), "byscore") }

// length returns the number of elements of a list or sorted set.
func (s *store) length(name, key string) (int, error) {
	if strings.HasPrefix(name, "l") {
		return s.red.List().Len(key)
	}
	return s.red.ZSet().Len(key)
}

// emptyRange is the effect of a command whose range has no element.
func (s *store) emptyRange(out *reply, name string, key []byte) {
	switch name {
	case "ltrim":
		start := len(out.b)
		s.command(out, command([]byte("ltrim"), key, []byte("1"), []byte("0")))
		out.b = out.b[:start]
		out.WriteString("OK")
	case "zremrangebyrank":
		out.WriteInt(0)
	default:
		out.WriteArray(0)
	}
}

func command(args ...[]byte) redcon.Command { return redcon.Command{Args: args} }

// absolute returns an index from the beginning for one that may be from the end.
func absolute(i, n int) int {
	if i < 0 {
		return i + n
	}
	return i
}

// flushCommand is FLUSHDB. It may take longer than other commands.
func (s *store) flushCommand(out *reply) {
	if err := s.flush(); err != nil {
		s.conn.fail(err)
		out.WriteError(failure(err))
		return
	}
	out.WriteString("OK")
}

// push is LPUSH or RPUSH of several elements; redka takes one.
func (s *store) push(out *reply, args [][]byte) {
	start := len(out.b)
	for _, element := range args[2:] {
		out.b = out.b[:start]
		s.command(out, command(args[0], args[1], element))
		if out.b[start] == '-' {
			return
		}
	}
}

// scan is SCAN and its like. The cursor is text in Redis, and a number in redka.
func (s *store) scan(out *reply, cmd redcon.Command) {
	start := len(out.b)
	s.command(out, cmd)
	number, ok := bytes.CutPrefix(out.b[start:], []byte("*2\r\n:"))
	if !ok {
		return
	}
	cursor, rest, _ := bytes.Cut(number, []byte("\r\n"))
	text := redcon.AppendBulk(redcon.AppendArray(nil, 2), cursor)
	out.b = append(out.b[:start], append(text, rest...)...)
}

// pttl is PTTL, which redka does not have.
func (s *store) pttl(out *reply, key string) {
	s.start()
	defer s.stop()
	k, err := s.red.Key().Get(key)
	switch {
	case errors.Is(err, redka.ErrNotFound):
		out.WriteInt(-2)
	case err != nil:
		out.WriteError(fmt.Sprint(err))
	case k.ETime == nil:
		out.WriteInt(-1)
	default:
		out.WriteInt64(max(*k.ETime-time.Now().UnixMilli(), 0))
	}
}
