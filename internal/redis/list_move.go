package redis

import "time"

// listMoveCommands has the commands that move elements between lists, and those that block.
var listMoveCommands = []*command{
	{name: "lmove", arity: 5, flags: writes, first: 1, last: 2, run: lMove, categories: "list"},
	{name: "rpoplpush", arity: 3, flags: writes, first: 1, last: 2, run: rPopLPush, categories: "list"},
	{name: "lmpop", arity: -4, flags: flagWrite | flagMovableKeys, keys: numberedKeys(1), run: lMPop, categories: "list"},
	{name: "blpop", arity: -3, flags: flagWrite | flagBlocking, first: 1, last: -2, run: bPop, categories: "list"},
	{name: "brpop", arity: -3, flags: flagWrite | flagBlocking, first: 1, last: -2, run: bPop, categories: "list"},
	{name: "blmove", arity: 6, flags: writes | flagBlocking, first: 1, last: 2, run: lMove, categories: "list"},
	{name: "brpoplpush", arity: 4, flags: writes | flagBlocking, first: 1, last: 2, run: rPopLPush, categories: "list"},
	{name: "blmpop", arity: -5, flags: flagWrite | flagBlocking | flagMovableKeys, keys: numberedKeys(2), run: lMPop, categories: "list"},
}

// side reads an argument that must be LEFT or RIGHT.
func (x *call) side(i int) (left bool, err error) {
	if !x.is(i, "LEFT") && !x.is(i, "RIGHT") {
		return false, errSyntax
	}
	return x.is(i, "LEFT"), nil
}

// lMove runs LMOVE and BLMOVE.
func lMove(x *call) error {
	fromLeft, err := x.side(3)
	if err != nil {
		return err
	}
	toLeft, err := x.side(4)
	if err != nil {
		return err
	}
	return x.move(fromLeft, toLeft, 5)
}

// rPopLPush runs RPOPLPUSH and BRPOPLPUSH.
func rPopLPush(x *call) error { return x.move(false, true, 3) }

// move moves an element from one list's end to another's, and replies with it. If there is none, a
// blocking command waits, for as long as the argument at timeoutAt says.
func (x *call) move(fromLeft, toLeft bool, timeoutAt int) error {
	var timeout time.Duration
	var err error
	if x.cmd.flags.has(flagBlocking) {
		if timeout, err = x.timeoutArg(timeoutAt); err != nil {
			return err
		}
	}
	from, err := x.lookupKind(x.args[1], kindList)
	if err != nil && x.client.blocked == nil {
		return err
	}
	if from == nil && x.cmd.flags.has(flagBlocking) {
		return x.block(x.args, x.args[1:2], timeout, (*reply).null)
	}
	if from == nil {
		return x.replyNull()
	}
	to, err := x.lookupKind(x.args[2], kindList)
	if err != nil {
		return err
	}
	element := from.value.(*list).pop(fromLeft)
	if to == nil {
		to = x.addList(x.args[2])
	}
	to.value.(*list).push(toLeft, element)
	x.changed(to)
	if from != to {
		x.changed(from)
	}
	// The push comes first, so that a list with one element keeps its expiry.
	if toLeft {
		x.effect("lpush", x.args[2], element)
	} else {
		x.effect("rpush", x.args[2], element)
	}
	x.effect(popName(fromLeft), x.args[1])
	return x.replyBulk(element)
}

func popName(left bool) string {
	if left {
		return "lpop"
	}
	return "rpop"
}

// bPop runs BLPOP and BRPOP.
func bPop(x *call) error {
	last := len(x.args) - 1
	timeout, err := x.timeoutArg(last)
	if err != nil {
		return err
	}
	e, key, err := x.firstOf(x.args[1:last], kindList)
	if err != nil {
		return err
	}
	if e == nil {
		return x.block(x.args, x.args[1:last], timeout, (*reply).nullArray)
	}
	left := x.cmd.name == "blpop"
	x.out.array(2)
	x.out.bulk(key)
	x.out.bulk(e.value.(*list).pop(left))
	x.changed(e)
	x.effect(popName(left), key)
	return nil
}

// firstOf returns the first key that has a value of a kind. A client that is already blocked gets no
// error for a key with another type; it goes on waiting.
func (x *call) firstOf(keys []string, k kind) (*entry, string, error) {
	for _, key := range x.candidates(keys) {
		e, err := x.lookupKind(key, k)
		if err != nil && x.client.blocked == nil {
			return nil, "", err
		}
		if e != nil {
			return e, key, nil
		}
	}
	return nil, "", nil
}

// popOptions are the arguments for LMPOP and ZMPOP. BLMPOP and BZMPOP have them after the timeout.
type popOptions struct {
	keys []string
	// last takes elements from the end: RIGHT, or MAX.
	last  bool
	count int64
	// timeout is for the commands that block.
	timeout time.Duration
}

// popOptions reads the arguments. first and last name the two ends.
func (x *call) popOptions(first, last string) (o popOptions, err error) {
	at := 1
	if x.cmd.flags.has(flagBlocking) {
		at = 2
	}
	n, ok := parseInt(x.args[at])
	if !ok || n <= 0 {
		return o, errorf("ERR numkeys should be greater than 0")
	}
	if n > int64(len(x.args)-at-2) {
		return o, errSyntax
	}
	where := at + 1 + int(n)
	o.keys = x.args[at+1 : where]
	o.last = x.is(where, last)
	if !o.last && !x.is(where, first) {
		return o, errSyntax
	}
	if o.count, err = x.countOption(where + 1); err == nil && at == 2 {
		o.timeout, err = x.timeoutArg(1)
	}
	return o, err
}

// nothingToPop replies that no key has elements, unless the command blocks until one has.
func (x *call) nothingToPop(o popOptions) error {
	if x.cmd.flags.has(flagBlocking) {
		return x.block(x.args, o.keys, o.timeout, (*reply).nullArray)
	}
	return x.replyNullArray()
}

// countOption reads COUNT and a number, starting at argument from; 1 without it.
func (x *call) countOption(from int) (int64, error) {
	count := int64(0)
	for i := from; i < len(x.args); i += 2 {
		if count > 0 || !x.is(i, "COUNT") || i+1 == len(x.args) {
			return 0, errSyntax
		}
		n, ok := parseInt(x.args[i+1])
		if !ok || n <= 0 {
			return 0, errorf("ERR count should be greater than 0")
		}
		count = n
	}
	return max(count, 1), nil
}

// lMPop runs LMPOP and BLMPOP.
func lMPop(x *call) error {
	o, err := x.popOptions("LEFT", "RIGHT")
	if err != nil {
		return err
	}
	e, key, err := x.firstOf(o.keys, kindList)
	if err != nil {
		return err
	}
	if e == nil {
		return x.nothingToPop(o)
	}
	n := min(o.count, int64(e.value.(*list).len()))
	x.out.array(2)
	x.out.bulk(key)
	x.replyPopped(e, !o.last, n)
	x.effect(popName(!o.last), key, formatInt(n))
	return nil
}
