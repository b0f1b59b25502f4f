package redis

import "math"

// hash is a hash value: fields and their values.
type hash struct{ fields fields }

func (*hash) kind() kind { return kindHash }

func (h *hash) encoding() string {
	if h.fields.isLarge() {
		return "hashtable"
	}
	return "listpack"
}

func (h *hash) size() int64 { return 64 + h.fields.size() }

func (h *hash) empty() bool { return h.fields.Len() == 0 }

func (h *hash) appendTo(b []byte) []byte {
	large := uint64(0)
	if h.fields.isLarge() {
		large = 1
	}
	b = appendUint(appendUint(b, large), uint64(h.fields.Len()))
	h.fields.all(func(name, value string) bool {
		b = appendString(appendString(b, name), value)
		return true
	})
	return b
}

func loadHash(r *loader) value {
	h := &hash{}
	if r.uint() != 0 {
		h.fields.grow()
	}
	for range r.count() {
		name := r.view()
		h.fields.set(name, r.view())
	}
	return h
}

// setField sets a field to a copy of a value, and reports whether the field is new.
func (x *call) setField(h *hash, field, v string) bool {
	if len(field) > x.limits.hashMaxListpackValue || len(v) > x.limits.hashMaxListpackValue {
		h.fields.grow()
	}
	added := h.fields.set(field, v)
	if h.fields.Len() > x.limits.hashMaxListpackEntries {
		h.fields.grow()
	}
	return added
}

// hashCommands has the hash commands.
var hashCommands = []*command{
	{name: "hset", arity: -4, flags: writesFast, first: 1, run: hSet, categories: "hash"},
	{name: "hmset", arity: -4, flags: writesFast, first: 1, run: hSet, categories: "hash"},
	{name: "hsetnx", arity: 4, flags: writesFast, first: 1, run: hSetNX, categories: "hash"},
	{name: "hget", arity: 3, flags: readsFast, first: 1, run: withValue(hGet), categories: "hash"},
	{name: "hmget", arity: -3, flags: readsFast, first: 1, run: withValue(hMGet), categories: "hash"},
	{name: "hdel", arity: -3, flags: flagWrite | flagFast, first: 1, run: withEntry(kindHash, hDel), categories: "hash"},
	{name: "hlen", arity: 2, flags: readsFast, first: 1, run: withValue(hLen), categories: "hash"},
	{name: "hstrlen", arity: 3, flags: readsFast, first: 1, run: withValue(hStrLen), categories: "hash"},
	{name: "hexists", arity: 3, flags: readsFast, first: 1, run: withValue(hExists), categories: "hash"},
	{name: "hkeys", arity: 2, flags: flagReadonly, first: 1, run: hKeys, categories: "hash"},
	{name: "hvals", arity: 2, flags: flagReadonly, first: 1, run: hVals, categories: "hash"},
	{name: "hgetall", arity: 2, flags: flagReadonly, first: 1, run: withValue(hGetAll), categories: "hash"},
	{name: "hincrby", arity: 4, flags: writesFast, first: 1, run: hIncrBy, categories: "hash"},
	{name: "hincrbyfloat", arity: 4, flags: writesFast, first: 1, run: hIncrByFloat, categories: "hash"},
	{name: "hrandfield", arity: -2, flags: flagReadonly, first: 1, run: hRandField, categories: "hash"},
	{name: "hscan", arity: -3, flags: flagReadonly, first: 1, run: hScan, categories: "hash"},
}

// hashFor returns a hash's entry for a change. It adds a missing one.
func (x *call) hashFor(key string) (*entry, *hash, error) {
	e, err := x.lookupKind(key, kindHash)
	if err != nil {
		return nil, nil, err
	}
	if e == nil {
		e = x.keys.add(key, &hash{})
		e.used = x.now
	}
	return e, e.value.(*hash), nil
}

func hSet(x *call) error {
	if len(x.args)%2 == 1 {
		return errorf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	e, h, err := x.hashFor(x.args[1])
	if err != nil {
		return err
	}
	added := 0
	for i := 2; i < len(x.args); i += 2 {
		if x.setField(h, x.args[i], x.args[i+1]) {
			added++
		}
	}
	x.changed(e)
	if x.cmd.name == "hmset" {
		x.out.ok()
	} else {
		x.out.len(added)
	}
	return nil
}

func hSetNX(x *call) error {
	e, h, err := x.hashFor(x.args[1])
	if err != nil {
		return err
	}
	if h.fields.has(x.args[2]) {
		return x.replyInt(0)
	}
	x.setField(h, x.args[2], x.args[3])
	x.changed(e)
	return x.replyInt(1)
}

func hGet(x *call, h *hash) error {
	x.replyField(h, x.args[2])
	return nil
}

// replyField appends a field's value. h may be nil.
func (x *call) replyField(h *hash, field string) {
	if h != nil {
		if v, ok := h.fields.get(field); ok {
			x.out.bulk(v)
			return
		}
	}
	x.out.null()
}

func hMGet(x *call, h *hash) error {
	x.out.array(len(x.args) - 2)
	for _, field := range x.args[2:] {
		x.replyField(h, field)
	}
	return nil
}

func hDel(x *call, e *entry) error {
	if e == nil {
		return x.replyInt(0)
	}
	h := e.value.(*hash)
	n := 0
	for _, field := range x.args[2:] {
		if h.fields.delete(field) {
			n++
		}
	}
	if n > 0 {
		x.changed(e)
	}
	return x.replyLen(n)
}

func hLen(x *call, h *hash) error {
	n := 0
	if h != nil {
		n = h.fields.Len()
	}
	return x.replyLen(n)
}

func hStrLen(x *call, h *hash) error {
	n := 0
	if h != nil {
		v, _ := h.fields.get(x.args[2])
		n = len(v)
	}
	return x.replyLen(n)
}

func hExists(x *call, h *hash) error { return x.replyFlag(h != nil && h.fields.has(x.args[2])) }

func hKeys(x *call) error { return x.replyFields(func(name, _ string) string { return name }) }

func hVals(x *call) error {
	return x.replyFields(func(_, value string) string { return value })
}

// replyFields appends of's result for each field.
func (x *call) replyFields(of func(name, value string) string) error {
	h, err := find[*hash](x, x.args[1])
	if err != nil {
		return err
	}
	if h == nil {
		x.out.array(0)
		return nil
	}
	x.out.array(h.fields.Len())
	h.fields.all(func(name, value string) bool {
		x.out.bulk(of(name, value))
		return true
	})
	return nil
}

func hGetAll(x *call, h *hash) error {
	if h == nil {
		x.out.mapOf(0)
		return nil
	}
	x.out.mapOf(h.fields.Len())
	h.fields.all(func(name, value string) bool {
		x.out.bulk(name)
		x.out.bulk(value)
		return true
	})
	return nil
}

func hIncrBy(x *call) error {
	by, err := x.int(3)
	if err != nil {
		return err
	}
	e, h, err := x.hashFor(x.args[1])
	if err != nil {
		return err
	}
	n := int64(0)
	if old, ok := h.fields.get(x.args[2]); ok {
		if n, ok = parseInt(old); !ok {
			return errorf("ERR hash value is not an integer")
		}
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return x.dropEmpty(e, errOverflow)
	}
	x.setField(h, x.args[2], formatInt(n+by))
	x.changed(e)
	return x.replyInt(n + by)
}

// dropEmpty removes an entry that was added in vain, and returns err.
func (x *call) dropEmpty(e *entry, err error) error {
	if e.value.empty() {
		x.keys.remove(e)
	}
	return err
}

func hIncrByFloat(x *call) error {
	if v, ok := parseLongDouble(x.args[3]); !ok {
		return errNotFloat
	} else if v.IsInf() {
		return errorf("ERR value is NaN or Infinity")
	}
	e, h, err := x.hashFor(x.args[1])
	if err != nil {
		return err
	}
	old, ok := h.fields.get(x.args[2])
	if !ok {
		old = "0"
	} else if _, ok := parseLongDouble(old); !ok {
		return errorf("ERR hash value is not a float")
	}
	sum, err := addFloats(old, x.args[3])
	if err != nil {
		return x.dropEmpty(e, err)
	}
	x.setField(h, x.args[2], sum)
	x.changed(e)
	x.effect("hset", x.args[1], x.args[2], sum)
	return x.replyBulk(sum)
}

func hRandField(x *call) error {
	r, err := x.randomOptions("WITHVALUES")
	if err != nil {
		return err
	}
	h, err := find[*hash](x, x.args[1])
	if err != nil {
		return err
	}
	if h == nil {
		x.replyNoRandom(r)
		return nil
	}
	replyItems(x, r, randomItems(h.fields.asDict(), r), func(it *item[string]) { x.out.bulk(it.value) })
	return nil
}

func hScan(x *call) error {
	fields := func(h *hash) *dict[string] { return h.fields.asDict() }
	return scanDict(x, fields, func(it *item[string]) string { return it.value })
}
