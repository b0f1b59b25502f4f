package embedkv

import (
	"fmt"
	"net"
	"strings"

	"github.com/tidwall/redcon"
	"zombiezen.com/go/sqlite"
)

// reply collects the replies to a client. It is what redka takes for a connection.
type reply struct {
	b []byte
	// context is redka's.
	context any
	// name and args are those of the current command.
	name string
	args [][]byte
	// file is the file of the store that runs the current command; nil if a session does.
	file *conn
}

func (r *reply) WriteString(s string)     { r.b = redcon.AppendString(r.b, s) }
func (r *reply) WriteBulk(v []byte)       { r.b = redcon.AppendBulk(r.b, v) }
func (r *reply) WriteBulkString(s string) { r.b = redcon.AppendBulkString(r.b, s) }
func (r *reply) WriteInt(n int)           { r.b = redcon.AppendInt(r.b, int64(n)) }
func (r *reply) WriteInt64(n int64)       { r.b = redcon.AppendInt(r.b, n) }
func (r *reply) WriteUint64(n uint64)     { r.b = redcon.AppendUint(r.b, n) }
func (r *reply) WriteArray(n int)         { r.b = redcon.AppendArray(r.b, n) }
func (r *reply) WriteNull()               { r.b = redcon.AppendNull(r.b) }
func (r *reply) WriteRaw(b []byte)        { r.b = append(r.b, b...) }
func (r *reply) WriteAny(v any)           { r.b = redcon.AppendAny(r.b, v) }
func (r *reply) Context() any             { return r.context }
func (r *reply) SetContext(v any)         { r.context = v }

// The rest of redcon.Conn is nothing that a command may use.

func (r *reply) RemoteAddr() string             { return "" }
func (r *reply) Close() error                   { return nil }
func (r *reply) SetReadBuffer(int)              {}
func (r *reply) Detach() redcon.DetachedConn    { return nil }
func (r *reply) ReadPipeline() []redcon.Command { return nil }
func (r *reply) PeekPipeline() []redcon.Command { return nil }
func (r *reply) NetConn() net.Conn              { return nil }

// WriteError writes an error in the words of Redis. Those of redka end with the name of the command.
func (r *reply) WriteError(text string) {
	if i := strings.LastIndex(text, " ("); i >= 0 && strings.HasSuffix(text, ")") {
		text = text[:i]
	}
	r.b = redcon.AppendError(r.b, r.errorText(text))
}

func (r *reply) errorText(text string) string {
	switch text {
	case "ERR wrong number of arguments":
		return fmt.Sprintf("ERR wrong number of arguments for '%s' command", r.name)
	case "ERR value is not an integer":
		return "ERR value is not an integer or out of range"
	case "ERR value is not a float":
		return "ERR value is not a valid float"
	case "key type mismatch":
		return "WRONGTYPE Operation against a key holding the wrong kind of value"
	case "invalid value type":
		return r.valueError()
	}
	if code, _, _ := strings.Cut(text, " "); code != "" && code == strings.ToUpper(code) {
		return text
	}
	if r.file != nil && r.file.failed != nil {
		return failure(r.file.failed)
	}
	return "ERR " + text
}

// valueError is the error of a command that counts, on a value that is no number.
func (r *reply) valueError() string {
	switch {
	case r.name == "hincrby":
		return "ERR hash value is not an integer"
	case r.name == "hincrbyfloat":
		return "ERR hash value is not a float"
	case strings.HasSuffix(r.name, "float"):
		return "ERR value is not a valid float"
	}
	return "ERR value is not an integer or out of range"
}

// maxEcho is how much of an unknown command is repeated.
const maxEcho = 128

// unknownCommand writes the error that Redis has for a command that it does not know.
func (r *reply) unknownCommand() {
	var args strings.Builder
	for _, arg := range r.args[1:] {
		if args.Len() >= maxEcho {
			break
		}
		fmt.Fprintf(&args, "'%s' ", clip(arg, maxEcho-args.Len()))
	}
	r.WriteError(fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", clip(r.args[0], maxEcho), args.String()))
}

func clip(b []byte, n int) []byte { return b[:min(len(b), n)] }

// failure returns what a client reads about an error of its store.
func failure(err error) string {
	if strings.HasPrefix(err.Error(), "ERR ") {
		return err.Error()
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		return "OOM command not allowed, the store has reached its maximum size"
	case sqlite.ResultInterrupt:
		return "ERR the command took too long and was ended"
	}
	return "ERR the store failed, nothing was changed"
}
