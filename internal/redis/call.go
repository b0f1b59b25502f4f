package redis

import "strings"

// call is a command that runs: its request, and where its reply goes.
type call struct {
	*Store
	client *Client
	cmd    *command
	args   []string
	out    *reply
	// now is the time in milliseconds, the same for all commands of a transaction or script.
	now int64
	// nested is whether the call is part of a transaction or a script, in which nothing blocks.
	nested bool
	// script is whether the call is part of a script.
	script bool
	// changes is the number of changes, and effects whether the command has written effects itself.
	changes int
	effects bool
	// noted are the keys that have been changed, if events are published.
	noted []string
	// missing are the keys of the request that did not exist, if events of new keys are published.
	missing []string
	// trimmed is whether XADD has removed entries.
	trimmed bool
}

// int returns an argument that is a number.
func (x *call) int(i int) (int64, error) {
	n, ok := parseInt(x.args[i])
	if !ok {
		return 0, errNotInt
	}
	return n, nil
}

// float returns an argument that is a floating-point number.
func (x *call) float(i int) (float64, error) {
	v, ok := parseFloat(x.args[i])
	if !ok {
		return 0, errNotFloat
	}
	return v, nil
}

// is reports whether an argument is a word, in any case of letters.
func (x *call) is(i int, word string) bool {
	return i < len(x.args) && strings.EqualFold(x.args[i], word)
}
