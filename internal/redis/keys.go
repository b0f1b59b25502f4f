package redis

// keyCommands are the commands of keys of any kind.
var keyCommands = []*command{
	{name: "del", arity: -2, flags: flagWrite, first: 1, last: -1, step: 1, run: del, categories: "keyspace"},
	{name: "restore", arity: -4, flags: flagWrite | flagDenyOOM, first: 1, last: 1, step: 1, run: restore, categories: "keyspace dangerous"},
	{name: "flushall", arity: -1, flags: flagWrite, run: flushAll, categories: "keyspace dangerous"},
	{name: "dbsize", arity: 1, flags: flagReadonly | flagFast, run: dbSize, categories: "keyspace"},
}

func del(x *call) error {
	n := 0
	for _, key := range x.args[1:] {
		if e := x.lookup(key); e != nil {
			x.remove(e)
			x.effect("del", key)
			n++
		}
	}
	x.out.len(n)
	return nil
}

func restore(x *call) error {
	v, err := undump(x.args[3])
	if err != nil {
		return errorf("ERR DUMP payload version or checksum are wrong")
	}
	at, err := x.int(2)
	if err != nil {
		return err
	}
	e := x.set(x.args[1], v)
	x.Store.keys.setExpires(e, at)
	x.out.ok()
	return nil
}

func flushAll(x *call) error {
	n := x.keys.entries.Len()
	x.Store.keys = newKeyspace()
	x.changes += n
	for _, clients := range x.watched {
		for c := range clients {
			c.broken = true
		}
	}
	if n > 0 {
		x.effect("flushall")
	}
	x.out.ok()
	return nil
}

func dbSize(x *call) error {
	x.out.len(x.keys.entries.Len())
	return nil
}
