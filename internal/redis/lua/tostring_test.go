package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gopher "github.com/yuin/gopher-lua"
)

// TestTextOfValuesTellsNoAddress compares what tostring returns with where values are.
func TestTextOfValuesTellsNoAddress(t *testing.T) {
	i := New(1<<20, nil)
	var values []gopher.LValue
	i.globals.RawSetString("see", i.function(func(l *gopher.LState) int {
		values = append(values, l.Get(1))
		return 0
	}))
	var text string
	proto, err := Compile(`local all = {{}, string.format, function() end, coroutine.create(function() end)}
		local s = '' for _, v in ipairs(all) do see(v) s = s .. tostring(v) .. ' ' end return s`, "test")
	if err == nil {
		err = i.Call(time.Hour, func(v gopher.LValue) error { text = v.String(); return nil }, i.Function(proto))
	}
	if err != nil || len(strings.Fields(text)) != 8 || len(values) != 4 {
		t.Fatalf("%q, %v", text, err)
	}
	for _, v := range values {
		if strings.Contains(text, strings.TrimPrefix(fmt.Sprintf("%p", v), "0x")) {
			t.Errorf("%q has the address of a %s", text, v.Type())
		}
	}
}
