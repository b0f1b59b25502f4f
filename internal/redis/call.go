package redis

import "strings"

// call is a running command: its request, and the reply that it appends to.
type call struct {
	*Store
	client *Client
	cmd    *command
	args   []string
	out    *reply
	// now is the time in milliseconds, the same for all commands in a transaction or script.
	now int64
	// nested reports whether the call is part of a transaction or a script, in which nothing blocks.
	nested bool
	// script reports whether the call is part of a script.
	script bool
	// counted reports whether INFO already counts the error in the reply: a command that a script called
	// has failed with it.
	counted bool
	// changes counts the changes. effects reports whether the command has written its effects itself.
	changes int
	effects bool
	// noted has the keys that have changed, if we publish events.
	noted []string
	// missing has the keys in the request that did not exist, if we publish events for new keys.
	missing []string
	// trimmed reports whether XADD has removed entries.
	trimmed bool
}

// int parses an argument as a number.
func (x *call) int(i int) (int64, error) {
	n, ok := parseInt(x.args[i])
	if !ok {
		return 0, errNotInt
	}
	return n, nil
}

// float parses an argument as a floating-point number.
func (x *call) float(i int) (float64, error) {
	v, ok := parseFloat(x.args[i])
	if !ok {
		return 0, errNotFloat
	}
	return v, nil
}

// is reports whether an argument is a word, ignoring case.
func (x *call) is(i int, word string) bool {
	return i < len(x.args) && strings.EqualFold(x.args[i], word)
}

// These append a command's whole reply, and return nil for the command to return.

func (x *call) replyOK() error { x.out.ok(); return nil }

func (x *call) replyNull() error { x.out.null(); return nil }

func (x *call) replyNullArray() error { x.out.nullArray(); return nil }

func (x *call) replyInt(n int64) error { x.out.int(n); return nil }

func (x *call) replyLen(n int) error { x.out.len(n); return nil }

func (x *call) replyFlag(v bool) error { x.out.flag(v); return nil }

func (x *call) replyBulk(text string) error { x.out.bulk(text); return nil }

func (x *call) replyBulks(all []string) error { x.out.bulks(all); return nil }
