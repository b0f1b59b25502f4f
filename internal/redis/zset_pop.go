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
	count, err := x.popCount()
	if err != nil {
		return err
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
	if len(x.args) == 3 {
		x.replyScored(all, true)
		return nil
	}
	x.out.array(2)
	x.out.bulk(all[0].member)
	x.out.double(all[0].score)
	return nil
}

// zMPop runs ZMPOP and BZMPOP.
func zMPop(x *call) error {
	o, err := x.popOptions("MIN", "MAX")
	if err != nil {
		return err
	}
	e, key, err := x.firstOf(o.keys, kindZSet)
	if err != nil {
		return err
	}
	if e == nil {
		return x.nothingToPop(o)
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
	e, key, err := x.firstOf(x.args[1:last], kindZSet)
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
