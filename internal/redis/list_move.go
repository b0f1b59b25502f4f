package redis

// listMoveCommands has the commands that move elements between lists, and those that block.
var listMoveCommands = []*command{
	{name: "lmove", arity: 5, flags: writes, first: 1, last: 2, run: lMove, categories: "list"},
	{name: "rpoplpush", arity: 3, flags: writes, first: 1, last: 2, run: rPopLPush, categories: "list"},
	{name: "lmpop", arity: -4, flags: flagWrite | flagMovableKeys, keys: numberedKeys(1), run: lMPop, categories: "list"},
	{name: "blpop", arity: -3, flags: flagWrite | flagBlocking, first: 1, last: -2, run: bPop, categories: "list"},
	{name: "brpop", arity: -3, flags: flagWrite | flagBlocking, first: 1, last: -2, run: bPop, categories: "list"},
	{name: "blmove", arity: 6, flags: writes | flagBlocking, first: 1, last: 2, run: bLMove, categories: "list"},
	{name: "brpoplpush", arity: 4, flags: writes | flagBlocking, first: 1, last: 2, run: bRPopLPush, categories: "list"},
	{name: "blmpop", arity: -5, flags: flagWrite | flagBlocking | flagMovableKeys, keys: numberedKeys(2), run: bLMPop, categories: "list"},
}

// side reads an argument that must be LEFT or RIGHT.
func (x *call) side(i int) (left bool, err error) {
	if !x.is(i, "LEFT") && !x.is(i, "RIGHT") {
		return false, errSyntax
	}
	return x.is(i, "LEFT"), nil
}

func lMove(x *call) error {
	fromLeft, err := x.side(3)
	if err != nil {
		return err
	}
	toLeft, err := x.side(4)
	if err != nil {
		return err
	}
	_, err = x.move(fromLeft, toLeft, x.replyNull)
	return err
}

func rPopLPush(x *call) error {
	_, err := x.move(false, true, x.replyNull)
	return err
}

// move moves an element from one list's end to another's, and replies with it. It calls missing if
// there is none.
func (x *call) move(fromLeft, toLeft bool, missing func() error) (bool, error) {
	from, err := x.lookupKind(x.args[1], kindList)
	if err != nil && x.client.blocked == nil {
		return false, err
	}
	if from == nil {
		return false, missing()
	}
	to, err := x.lookupKind(x.args[2], kindList)
	if err != nil {
		return false, err
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
	x.out.bulk(element)
	return true, nil
}

func popName(left bool) string {
	if left {
		return "lpop"
	}
	return "rpop"
}

func bLMove(x *call) error {
	fromLeft, err := x.side(3)
	if err != nil {
		return err
	}
	toLeft, err := x.side(4)
	if err != nil {
		return err
	}
	return x.blockingMove(fromLeft, toLeft, 5)
}

func bRPopLPush(x *call) error { return x.blockingMove(false, true, 3) }

func (x *call) blockingMove(fromLeft, toLeft bool, timeoutAt int) error {
	timeout, err := x.timeoutArg(timeoutAt)
	if err != nil {
		return err
	}
	_, err = x.move(fromLeft, toLeft, func() error {
		return x.block(x.args, x.args[1:2], timeout, (*reply).null)
	})
	return err
}

// bPop runs BLPOP and BRPOP.
func bPop(x *call) error {
	last := len(x.args) - 1
	timeout, err := x.timeoutArg(last)
	if err != nil {
		return err
	}
	for _, key := range x.candidates(x.args[1:last]) {
		e, err := x.lookupKind(key, kindList)
		if err != nil {
			if x.client.blocked != nil {
				continue // it waits for a list
			}
			return err
		}
		if e == nil {
			continue
		}
		left := x.cmd.name == "blpop"
		x.out.array(2)
		x.out.bulk(key)
		x.out.bulk(e.value.(*list).pop(left))
		x.changed(e)
		x.effect(popName(left), key)
		return nil
	}
	return x.block(x.args, x.args[1:last], timeout, (*reply).nullArray)
}

// popOptions are the arguments for LMPOP and ZMPOP. BLMPOP and BZMPOP have them after the timeout.
type popOptions struct {
	keys []string
	// last takes elements from the end: RIGHT, or MAX.
	last  bool
	count int64
}

// popOptions reads the number of keys and the arguments after it. first and last name the two ends.
func (x *call) popOptions(at int, first, last string) (o popOptions, err error) {
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
	o.count, err = x.countOption(where + 1)
	return o, err
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

func lMPop(x *call) error {
	o, err := x.popOptions(1, "LEFT", "RIGHT")
	if err != nil {
		return err
	}
	return x.popFirst(o, func() error {
		x.out.nullArray()
		return nil
	})
}

func bLMPop(x *call) error {
	o, err := x.popOptions(2, "LEFT", "RIGHT")
	if err != nil {
		return err
	}
	timeout, err := x.timeoutArg(1)
	if err != nil {
		return err
	}
	return x.popFirst(o, func() error { return x.block(x.args, o.keys, timeout, (*reply).nullArray) })
}

// popFirst pops elements from the first list that has any. It calls missing if there is none.
func (x *call) popFirst(o popOptions, missing func() error) error {
	for _, key := range x.candidates(o.keys) {
		e, err := x.lookupKind(key, kindList)
		if err != nil {
			if x.client.blocked != nil {
				continue
			}
			return err
		}
		if e == nil {
			continue
		}
		n := min(o.count, int64(e.value.(*list).len()))
		x.out.array(2)
		x.out.bulk(key)
		x.replyPopped(e, !o.last, n)
		x.effect(popName(!o.last), key, formatInt(n))
		return nil
	}
	return missing()
}
