package load

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/installation"
)

// greedyScripts take all memory that they get, each in another way.
var greedyScripts = []string{
	`local t = {} while true do t[#t + 1] = string.rep('x', 2^20) .. #t end`,
	`local t = {} while true do t[#t + 1] = {} end`,
	`local t, i = {}, 0 while true do i = i + 1 t['k' .. i] = {x = i} end`,
	`local s = string.rep('\0', 2^25) while true do s = string.format('%q', s) end`,
	`local t = {} for i = 1, 100 do t[i] = 'x' end local s = string.rep('x', 2^24) while true do t[#t + 1] = s:gsub('x', 'yy') end`,
	`local s = '[' .. string.rep('[],', 2^23) .. '[]]' return #cjson.decode(s)`,
	`local f = function() end while true do local g = f f = function() return g end end`,
	`local t = {} while true do t[#t + 1] = redis.call('get', 'large') end`,
	`local s = string.rep('x', 2^20) while true do redis.call('set', 'k', s) end`,
	`local s = string.rep('x', 2^20) redis.call('set', s, '') while true do redis.call('expire', s, 100) end`,
}

// scriptLimits are in the errors of scripts that take more than they may.
var scriptLimits = regexp.MustCompile("Script stopped|string length overflow|changes too much at once")

// TestScriptsShareMemory has all stores of an organization run scripts that take what they get, over and over. The
// process stays small, and another organization's scripts run.
func TestScriptsShareMemory(t *testing.T) {
	const most = 400 << 20
	s := installation.Start(t, "sqlite")
	victim := s.SecondOrganization().NewKVStore("victim").Client()
	done := make(chan struct{})
	var attackers sync.WaitGroup
	for i := range greedyScripts {
		c := s.NewKVStore(fmt.Sprint("greedy", i)).Client()
		s.Must(c.Set(t.Context(), "large", strings.Repeat("x", 1<<20), 0).Err())
		attackers.Go(func() {
			for k := i; ; k++ {
				err := c.Eval(t.Context(), greedyScripts[k%len(greedyScripts)], nil).Err()
				select {
				case <-done:
					return
				default:
				}
				if err == nil || !scriptLimits.MatchString(err.Error()) {
					t.Errorf("script %d: %v", k%len(greedyScripts), err)
				}
			}
		})
	}
	began := time.Now()
	for n := 0; n < 50 || time.Since(began) < 30*time.Second; n++ {
		got, err := victim.Eval(t.Context(), `local t = {} for i = 1, 3000 do t[i] = string.rep('x', 1000) .. i end return #t`, nil).Int()
		if err != nil || got != 3000 {
			t.Errorf("another organization's script: %d, %v", got, err)
		}
	}
	close(done)
	attackers.Wait()
	t.Logf("%d MiB", s.PeakRSS()>>20)
	if peak := s.PeakRSS(); peak > most {
		t.Errorf("the process has taken %d MiB", peak>>20)
	}
}
