package redis

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// command is an entry in the command table.
type command struct {
	name string // in lower case; "client|list" for a subcommand
	// arity is the number of arguments including the name. If it is negative, there must be at least
	// -arity.
	arity int
	flags flags
	// first, last and step select the arguments that are keys. If first is 0 there are none; a negative
	// last counts from the end, and 0 stands for first; step is 1 if it is 0. keys finds them where this
	// is not enough.
	first, last, step int
	keys              func(args []string) []string
	run               func(x *call) error
	// sub lists the subcommands. A command that has some may have no run.
	sub []*command
	// categories has the ACL categories for COMMAND that do not follow from the flags.
	categories string
}

// flags describe a command's behaviour.
type flags uint32

// The flags mean the same as in Redis.
const (
	flagWrite flags = 1 << iota
	flagReadonly
	// flagDenyOOM marks a command that may need more memory. It is refused when there is none.
	flagDenyOOM
	flagFast
	flagBlocking
	flagPubSub
	flagNoScript
	// flagNoMulti marks a command that is refused in a transaction.
	flagNoMulti
	// flagSubscribed marks a command that a RESP2 client may use while it has subscriptions.
	flagSubscribed
	flagAdmin
	flagMovableKeys
	flagRandom
	// flagAllowBusy marks a command that runs even while a long script is running.
	flagAllowBusy
)

func (f flags) has(other flags) bool { return f&other != 0 }

// replyError is an error in Redis's words.
type replyError string

func (e replyError) Error() string { return string(e) }

// Errors that many commands return.
const (
	errWrongType  replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errSyntax     replyError = "ERR syntax error"
	errNotInt     replyError = "ERR value is not an integer or out of range"
	errNotFloat   replyError = "ERR value is not a valid float"
	errNoSuchKey  replyError = "ERR no such key"
	errOutOfRange replyError = "ERR index out of range"
	errOverflow   replyError = "ERR increment or decrement would overflow"
	errTooLong    replyError = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errNegative   replyError = "ERR value is out of range, must be positive"
	errOOM        replyError = "OOM command not allowed when used memory > 'maxmemory'."
)

// errorf formats an error. As in C, string arguments end at a NUL.
func errorf(format string, args ...any) error {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i], _, _ = strings.Cut(text, "\x00")
		}
	}
	return replyError(fmt.Sprintf(format, args...))
}

// clip cuts a text for an error, at a NUL and after at most that many bytes.
func clip(text string, most int) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text[:min(len(text), most)]
}

// errBlocked is returned by a command that has blocked its client. It has no reply yet.
var errBlocked = errors.New("the client is blocked")

// table finds commands by their names in lower case.
type table map[string]*command

// newTable returns the table with all commands.
func newTable() table {
	t := table{}
	for _, group := range [][]*command{
		stringCommands, bitmapCommands, hyperLogLogCommands, hashCommands, listCommands, setCommands,
		zsetCommands, geoCommands, streamCommands, keyCommands, sortCommands, transactionCommands,
		pubSubCommands, scriptCommands, connectionCommands, clusterCommands, serverCommands,
	} {
		for _, cmd := range group {
			t[cmd.name] = cmd
		}
	}
	return t
}

// byName returns the command with a name, ignoring case, or nil. It allocates nothing.
func (t table) byName(name string) *command {
	var lower [32]byte // no name is longer
	if len(name) > len(lower) {
		return nil
	}
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return t[string(lower[:len(name)])]
}

// find returns a request's command, or an error in Redis's words.
func (t table) find(args []string) (*command, error) {
	cmd := t.byName(args[0])
	if cmd == nil {
		return nil, unknownCommand(args)
	}
	if len(cmd.sub) > 0 && len(args) > 1 {
		name := cmd.name + "|" + strings.ToLower(args[1])
		parent := cmd
		for _, sub := range parent.sub {
			if sub.name == name {
				cmd = sub
			}
		}
		if cmd == parent {
			return nil, errorf("ERR unknown subcommand '%s'. Try %s HELP.", clip(args[1], 128), strings.ToUpper(parent.name))
		}
	}
	if cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity || cmd.run == nil {
		return nil, errorf("ERR wrong number of arguments for '%s' command", cmd.name)
	}
	return cmd, nil
}

func unknownCommand(args []string) error {
	var begin strings.Builder
	for _, arg := range args[1:] {
		if begin.Len() >= 128 {
			break
		}
		fmt.Fprintf(&begin, "'%s' ", clip(arg, 128-begin.Len()))
	}
	return errorf("ERR unknown command '%s', with args beginning with: %s", clip(args[0], 128), begin.String())
}

// keysOf returns a request's keys.
func (c *command) keysOf(args []string) []string {
	if c.keys != nil {
		return c.keys(args)
	}
	first, last, step := c.keyRange()
	if first == 0 {
		return nil
	}
	if last < 0 {
		last += len(args)
	}
	var keys []string
	for i := first; i <= last && i < len(args); i += step {
		keys = append(keys, args[i])
	}
	return keys
}

func (c *command) keyRange() (first, last, step int) {
	if c.first == 0 {
		return 0, 0, 0
	}
	return c.first, cmp.Or(c.last, c.first), max(c.step, 1)
}
