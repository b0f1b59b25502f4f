package lua

import (
	"reflect"

	gopher "github.com/yuin/gopher-lua"
)

// measurement counts the bytes in all values reachable from a few.
type measurement struct {
	size, limit int64
	seen        map[uintptr]struct{}
	next        []gopher.LValue
}

// Estimated memory for values. A table has maps for its keys; the first key makes them, and they are
// not small.
const (
	tableSize    = 112
	hashSize     = 1536
	keySize      = 128
	functionSize = 160
	valueSize    = 16
	stateSize    = 10 << 10
	// A string with at least longString bytes counts only once, however many values hold it.
	longString = 128
)

// measure returns the bytes in all values that scripts can reach, or some number above the limit.
func (i *Interpreter) measure(limit int64) int64 {
	m := &measurement{limit: limit, seen: map[uintptr]struct{}{}}
	for _, l := range i.running {
		m.add(l)
	}
	if i.Kept != nil {
		i.Kept(func(f *gopher.LFunction) { m.add(f) })
	}
	for _, t := range i.building {
		m.add(t)
	}
	for len(m.next) > 0 && m.size <= limit {
		last := len(m.next) - 1
		v := m.next[last]
		m.next = m.next[:last]
		m.count(v)
	}
	return m.size
}

// add marks a value for counting.
func (m *measurement) add(v gopher.LValue) {
	switch v := v.(type) {
	case gopher.LString:
		m.size += int64(valueSize + len(v))
		if len(v) >= longString && m.again(reflect.ValueOf(v)) {
			m.size -= int64(len(v))
		}
	case *gopher.LTable, *gopher.LFunction, *gopher.LState:
		if !m.again(reflect.ValueOf(v)) {
			m.next = append(m.next, v)
		}
	}
}

// again reports whether we have counted a value before.
func (m *measurement) again(v reflect.Value) bool {
	at := v.Pointer()
	_, found := m.seen[at]
	m.seen[at] = struct{}{}
	return found
}

func (m *measurement) count(v gopher.LValue) {
	switch v := v.(type) {
	case *gopher.LTable:
		table := reflect.ValueOf(v).Elem()
		array := table.FieldByIndex(tableArray).Cap()
		keys := table.FieldByIndex(tableKeys).Len() // also those that were removed
		m.size += int64(tableSize + array*valueSize + keys*keySize)
		if keys > 0 {
			m.size += hashSize
		}
		m.add(v.Metatable)
		v.ForEach(func(key, value gopher.LValue) {
			m.add(key)
			m.add(value)
		})
	case *gopher.LFunction:
		m.size += functionSize
		m.addProto(v.Proto)
		for _, u := range v.Upvalues {
			m.add(u.Value())
		}
	case *gopher.LState:
		stack := reflect.ValueOf(v).Elem().FieldByIndex(stateRegistry).Elem().FieldByIndex(registryArray)
		values := *(*[]gopher.LValue)(stack.Addr().UnsafePointer())
		m.size += int64(stateSize + len(values)*valueSize)
		for _, value := range values {
			m.add(value)
		}
	}
}

// addProto counts a function's code, which the script may have compiled.
func (m *measurement) addProto(p *gopher.FunctionProto) {
	if p == nil || m.again(reflect.ValueOf(p)) {
		return
	}
	m.size += int64(functionSize + len(p.Code)*instructionCost)
	for _, v := range p.Constants {
		m.add(v)
	}
	for _, inner := range p.FunctionPrototypes {
		m.addProto(inner)
	}
}

// The interpreter's private fields that show how much memory scripts take.
var (
	tableArray    = field(reflect.TypeFor[gopher.LTable](), "array")
	tableKeys     = field(reflect.TypeFor[gopher.LTable](), "keys")
	stateRegistry = field(reflect.TypeFor[gopher.LState](), "reg")
	registryArray = field(reflect.TypeFor[gopher.LState]().FieldByIndex(stateRegistry).Type.Elem(), "array")
)

func field(of reflect.Type, name string) []int {
	f, _ := of.FieldByName(name)
	return f.Index
}
