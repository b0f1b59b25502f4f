package redis

import "slices"

// ends returns members at one end, outermost first.
func (z *zset) ends(highest bool, count int64) []scored {
	n := z.len()
	count = min(count, int64(n))
	if !highest {
		return z.slice(0, int(count))
	}
	all := z.slice(n-int(count), n)
	slices.Reverse(all)
	return all
}

// zPop runs ZPOPMIN and ZPOPMAX.
func zPop(x *call) error {
	if len(x.args) > 3 {
		return errorf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	count := int64(1)
	counted := len(x.args) == 3
	if counted {
		n, ok := parseInt(x.args[2])
		if !ok || n < 0 {
			return errNegative
		}
		count = n
	}
	e, err := x.lookupKind(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	if e == nil {
		x.out.array(0)
		return nil
	}
	all := e.value.(*zset).ends(x.cmd.name == "zpopmax", count)
	x.removeScored(e, all)
	if counted {
		x.replyScored(all, true)
		return nil
	}
	x.out.array(2)
	x.out.bulk(all[0].member)
	x.out.double(all[0].score)
	return nil
}

func zMPop(x *call) error {
	o, err := x.popOptions(1, "MIN", "MAX")
	if err != nil {
		return err
	}
	return x.zPopFirst(o, func() error {
		x.out.nullArray()
		return nil
	})
}

func bZMPop(x *call) error {
	o, err := x.popOptions(2, "MIN", "MAX")
	if err != nil {
		return err
	}
	timeout, err := x.timeoutArg(1)
	if err != nil {
		return err
	}
	return x.zPopFirst(o, func() error { return x.block(x.args, o.keys, timeout, (*reply).nullArray) })
}

// zPopFirst pops members from the first sorted set that has any. It calls missing if there is none.
func (x *call) zPopFirst(o popOptions, missing func() error) error {
	e, key, err := x.firstZSet(o.keys)
	if err != nil {
		return err
	}
	if e == nil {
		return missing()
	}
	all := e.value.(*zset).ends(o.last, o.count)
	x.popScored(e, key, all)
	x.out.array(2)
	x.out.bulk(key)
	x.out.array(len(all))
	for _, m := range all {
		x.out.array(2)
		x.out.bulk(m.member)
		x.out.double(m.score)
	}
	return nil
}

// firstZSet returns the first key that has a sorted set. A client that is already blocked gets no error
// for a key with another type; it goes on waiting.
func (x *call) firstZSet(keys []string) (*entry, string, error) {
	for _, key := range x.candidates(keys) {
		e, err := x.lookupKind(key, kindZSet)
		if err != nil && x.client.blocked == nil {
			return nil, "", err
		}
		if e != nil {
			return e, key, nil
		}
	}
	return nil, "", nil
}

// popScored removes members, with an effect that names them.
func (x *call) popScored(e *entry, key string, all []scored) {
	x.removeScored(e, all)
	removal := []string{"zrem", key}
	for _, m := range all {
		removal = append(removal, m.member)
	}
	x.effect(removal...)
}

// bZPop runs BZPOPMIN and BZPOPMAX.
func bZPop(x *call) error {
	last := len(x.args) - 1
	timeout, err := x.timeoutArg(last)
	if err != nil {
		return err
	}
	e, key, err := x.firstZSet(x.args[1:last])
	if err != nil {
		return err
	}
	if e == nil {
		return x.block(x.args, x.args[1:last], timeout, (*reply).nullArray)
	}
	all := e.value.(*zset).ends(x.cmd.name == "bzpopmax", 1)
	x.popScored(e, key, all)
	x.out.array(3)
	x.out.bulk(key)
	x.out.bulk(all[0].member)
	x.out.double(all[0].score)
	return nil
}
