package embedkv

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/redcon"
)

// multi begins a transaction. Its commands are kept here and not by redka, which has no limit to
// them, and whose reply is cut off when one of them fails.
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
	if q.size+size > freeMemory {
		if err := s.grow(size); err != nil {
			return err.Error()
		}
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
	case "sinter":
		return redcon.Command{Args: append(args[:1:1], unique(args[1:])...)}
	case "sinterstore":
		return redcon.Command{Args: append(slices.Clone(args[:min(2, len(args))]), unique(args[min(2, len(args)):])...)}
	case "linsert", "scan", "zinter", "zinterstore", "zunion", "zunionstore":
		return redcon.Command{Args: lowerWords(args)}
	}
	return r.cmd
}

// unique returns keys without repetitions. redka finds nothing in the intersection of a set with itself.
func unique(keys [][]byte) [][]byte {
	var result [][]byte
	seen := map[string]bool{}
	for _, key := range keys {
		if !seen[string(key)] {
			seen[string(key)] = true
			result = append(result, key)
		}
	}
	return result
}

// lowerWords returns arguments with the words in lower case that redka knows in no other.
func lowerWords(args [][]byte) [][]byte {
	lowered := slices.Clone(args)
	for i, arg := range args {
		switch word := strings.ToLower(string(clip(arg, 9))); word {
		case "before", "after":
			if i == 2 {
				lowered[i] = []byte(word)
			}
		case "type", "aggregate":
			if i > 1 && i+1 < len(args) {
				lowered[i+1] = bytes.ToLower(args[i+1])
			}
		}
	}
	return lowered
}
