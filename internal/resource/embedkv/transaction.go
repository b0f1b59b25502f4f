package embedkv

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/nalgeon/redka"
	"github.com/tidwall/redcon"
)

// multi begins a transaction. Its commands are kept here and not by redka, which has no limit to them, and
// whose reply is cut off when one of them fails.
func (s *session) multi(args [][]byte) {
	switch {
	case len(args) != 0:
		s.wrongArgs()
	case s.queue != nil:
		s.out.WriteError("ERR MULTI calls can not be nested")
	default:
		s.queue = &queue{}
		s.out.WriteString("OK")
	}
}

// exec has the queued commands run. No other command runs between them, and all that they change is
// committed at once.
func (s *session) exec([][]byte) {
	q := s.queue
	s.queue = nil
	switch {
	case q == nil:
		s.out.WriteError("ERR EXEC without MULTI")
	case q.failed:
		s.out.WriteError("EXECABORT Transaction discarded because of previous errors.")
		s.releaseMemory()
	default:
		s.job.size += q.size
		s.pending = append(s.pending, request{name: "exec", exec: q.requests})
	}
}

func (s *session) discard([][]byte) {
	if s.queue == nil {
		s.out.WriteError("ERR DISCARD without MULTI")
		return
	}
	s.queue = nil
	s.releaseMemory()
	s.out.WriteString("OK")
}

// enqueue keeps a command of a transaction, if it is one that can be run.
func (s *session) enqueue(r request, size int) {
	q := s.queue
	if text := s.refused(r, size); text != "" {
		q.failed = true
		q.requests = nil
		s.out.b = redcon.AppendError(s.out.b, text)
		return
	}
	q.size += size
	q.requests = append(q.requests, r)
	s.out.WriteString("QUEUED")
}

// refused returns the error of a command that cannot be queued, or "".
func (s *session) refused(r request, size int) string {
	q := s.queue
	if _, ok := connectionCommands[r.name]; ok && !storeCommands[r.name] {
		return "ERR Command not allowed inside a transaction"
	}
	if len(q.requests) >= s.engine.Limits.Queue || q.size+size > s.engine.Limits.Request {
		return "ERR the transaction is too large"
	}
	answer := reply{name: r.name, args: r.cmd.Args}
	if !storeCommands[r.name] {
		answer.unknownCommand()
	} else {
		s.engine.parse(&answer, redcon.Command{Args: [][]byte{[]byte("multi")}})
		answer.b = nil
		s.engine.parse(&answer, r.asRedka())
	}
	if text, ok := bytes.CutPrefix(answer.b, []byte{'-'}); ok {
		return strings.TrimSpace(string(text))
	}
	return ""
}

// asRedka returns the command of redka that takes the same arguments.
func (r request) asRedka() redcon.Command {
	args := r.cmd.Args
	switch r.name {
	case "unlink":
		return redcon.Command{Args: append([][]byte{[]byte("del")}, args[1:]...)}
	case "pttl":
		return redcon.Command{Args: append([][]byte{[]byte("ttl")}, args[1:]...)}
	case "lpush", "rpush":
		return redcon.Command{Args: args[:min(len(args), 3)]}
	case "flushdb", "flushall":
		if len(args) == 2 && (strings.EqualFold(string(args[1]), "async") || strings.EqualFold(string(args[1]), "sync")) {
			return redcon.Command{Args: args[:1]}
		}
	}
	return r.cmd
}

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
	case (r.name == "flushdb" || r.name == "flushall") && len(cmd.Args) == 1:
		s.flushCommand(out)
	case (r.name == "lpush" || r.name == "rpush") && len(r.cmd.Args) > 3:
		s.push(out, r.cmd.Args)
	case r.name == "pttl" && len(cmd.Args) == 2:
		s.pttl(out, string(cmd.Args[1]))
	case strings.HasSuffix(r.name, "scan"):
		s.scan(out, cmd)
	default:
		s.command(out, cmd)
	}
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
		s.command(out, redcon.Command{Args: [][]byte{args[0], args[1], element}})
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
	case err == redka.ErrNotFound:
		out.WriteInt(-2)
	case err != nil:
		out.WriteError(fmt.Sprint(err))
	case k.ETime == nil:
		out.WriteInt(-1)
	default:
		out.WriteInt64(max(*k.ETime-time.Now().UnixMilli(), 0))
	}
}
