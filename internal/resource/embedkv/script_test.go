package embedkv

import (
	"strings"
	"testing"

	"steward/internal/budget"
)

// keeper is a library whose function keeps what it is called for.
const keeper = `#!lua name=keeper
local kept = {}
redis.register_function('keep', function(_, args) kept[#kept + 1] = string.rep('x', tonumber(args[1])) return #kept end)`

// TestScriptMemoryIsShared has functions in stores of an organization keep as much as they can. Another organization's
// scripts have their share, and so have those of the same when the others have ended.
func TestScriptMemoryIsShared(t *testing.T) {
	f := start(t, func(e *Engine) { e.ScriptMemory = budget.NewPool(64*mib, ScriptGrant) }) // 24 MiB for an organization
	kept := 0
	for range 4 {
		c := f.client(f.createOf("org_a"))
		must(t, c.FunctionLoad(t.Context(), keeper).Err())
		for {
			err := c.FCall(t.Context(), "keep", nil, mib).Err()
			if err != nil && strings.Contains(err.Error(), "needs too much memory") {
				break // and its functions are loaded again
			}
			must(t, err)
			kept++
			if kept > 100 {
				t.Fatal("nothing was refused")
			}
		}
		for range 4 {
			must(t, c.FCall(t.Context(), "keep", nil, mib).Err())
		}
	}
	if u := f.ScriptMemory.Usage(); u.Owners != 1 || u.Common+u.Reserve > 24*mib+ScriptGrant || u.Common+u.Reserve < 8*mib {
		t.Errorf("%+v", u)
	}
	c := f.client(f.createOf("org_b"))
	if got, err := c.Eval(t.Context(), `local t = {} for i = 1, 8 do t[i] = ('x'):rep(2^20) .. i end return #t`, nil).Int(); got != 8 {
		t.Errorf("another organization's script: %d, %v", got, err)
	}
	must(t, f.pool.close(t.Context()))
	if u := f.ScriptMemory.Usage(); u.Common+u.Reserve != 0 {
		t.Errorf("after closing: %+v", u)
	}
}
