package lua

import (
	"errors"
	"runtime"
	"testing"
	"time"

	gopher "github.com/yuin/gopher-lua"
)

// TestMeasureCountsWhatScriptsHave compares what is measured of different values with how the heap grows.
func TestMeasureCountsWhatScriptsHave(t *testing.T) {
	for _, text := range []string{
		`local t = {} for i = 1, 200000 do t[i] = {} end done()`,
		`local t = {} for i = 1, 20000 do t[i] = {} t[i].x = i end done()`,
		`local t = {} for i = 1, 100000 do t['k' .. i] = i end done()`,
		`local t = {} for i = 1, 100000 do t[i] = ('x'):rep(200) .. i end done()`,
		`local t = {} for i = 1, 50000 do t[i] = function() return t, i end end done()`,
		`local t = {} for i = 1, 1000 do t[i] = coroutine.create(function() end) end done()`,
		`local t = {} for i = 1, 50000 do t[i % 100] = 1 t['k' .. i] = i t['k' .. i] = nil end done()`,
		`local t, s = {}, ('x'):rep(1000000) for i = 1, 20 do t[i] = string.gmatch(s .. i, 'x') end done()`,
		`local t, s = {}, ('x'):rep(1000000) for i = 1, 200 do t[i] = (s .. i):sub(1, 100000 / i) end done()`,
		`local t = cjson.decode('[' .. ('[],'):rep(100000) .. '{"a":[{"b":1}]}]') done()`,
		`local t = {} for i = 1, 10000 do t[i] = cmsgpack.unpack(cmsgpack.pack({a = i, b = {i}})) end done()`,
		`local function f(n, ...) if n == 0 then done() return 1 end return 1 + select('#', f(n - 1, ...)) end f(1000, ('x'):rep(1000000), ('y'):rep(1000000))`,
	} {
		i := New(1<<30, nil)
		var measured, heap int64
		before := liveHeap()
		i.globals.RawSetString("done", i.function(func(*gopher.LState) int {
			measured = i.measure(1 << 30)
			heap = liveHeap() - before
			return 0
		}))
		proto, err := Compile(text, "test")
		if err == nil {
			err = i.Call(time.Hour, func(gopher.LValue) error { return nil }, i.Function(proto))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d MiB measured, %d MiB in the heap: %.50s", measured>>20, heap>>20, text)
		if measured < heap/2 || measured > 3*heap {
			t.Errorf("%s: %d bytes measured, the heap grew by %d", text, measured, heap)
		}
	}
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestScriptsDropWhatTheyHave has a script take far more than its memory, but never at once.
func TestScriptsDropWhatTheyHave(t *testing.T) {
	i := New(16<<20, nil)
	proto, err := Compile(`for i = 1, 200 do local t = {} for k = 1, 1000 do t[k] = {k} end t = ('x'):rep(2^21) .. i end`, "test")
	if err == nil {
		err = i.Call(time.Hour, func(gopher.LValue) error { return nil }, i.Function(proto))
	}
	if err != nil {
		t.Error(err)
	}
	proto, err = Compile(`local t = {} while true do t[#t + 1] = {} end`, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Call(time.Hour, func(gopher.LValue) error { return nil }, i.Function(proto)); !errors.Is(err, errMemory) {
		t.Errorf("want %v, got %v", errMemory, err)
	}
}
