package redis

import (
	"reflect"
	"strings"
	"testing"
)

// TestConfig compares CONFIG GET and CONFIG SET with redis-server.
func TestConfig(t *testing.T) {
	j := newJudge(t)
	j.begin(t, 2)
	for _, request := range []string{
		"config set hash-max-listpack-entries 7 hash-max-listpack-value 1kb",
		"config get hash-max-listpack-*",
		"config set hash-max-listpack-value 1k",
		"config get hash-max-listpack-value",
		"config set hash-max-listpack-value 1x",
		"config set hash-max-listpack-value -1",
		"config set hash-max-listpack-entries 1k",
		"config set hash-max-listpack-entries -1",
		"config set hash-max-listpack-entries x",
		"config set hash-max-listpack-entries 1 hash-max-listpack-entries 2",
		"config set hash-max-listpack-entries 1 nosuch 2",
		"config set hash-max-listpack-entries 1 list-compress-depth -1",
		"config get hash-max-listpack-entries",
		"config set list-max-listpack-size -3 list-compress-depth 2",
		"config get list-*",
		"config set list-max-listpack-size 9999999999",
		"config set hash-max-listpack-entries",
		"config set hash-max-listpack-entries 1 list-compress-depth",
		"config set save ",
		"config set notify-keyspace-events KA",
		"config get notify-keyspace-events",
		"config set notify-keyspace-events nmgE$",
		"config get notify-keyspace-events",
		"config set notify-keyspace-events Q",
		"config set notify-keyspace-events ",
		"config get notify-keyspace-events",
		"config set maxmemory x",
		"config set maxmemory 100kb maxmemory-policy ALLKEYS-lru",
		"config get maxmemory-p*",
	} {
		args := strings.Split(request, " ")
		theirs, ours := j.theirs.pipeline(t, [][]string{args})[0], j.run([][]string{args})[0]
		if !reflect.DeepEqual(theirs, ours) && !anyPairs(theirs, ours) {
			t.Errorf("%q:\nredis-server %#v\nhere         %#v", request, theirs, ours)
		}
	}
}

func TestMaxMemoryIsAtMostThatOfTheOptions(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.store.options.Memory = 1 << 20
	r.expect(c, "SET a 1", simple("OK"))
	r.expect(c, "CONFIG SET maxmemory 1", simple("OK"))
	r.expect(c, "SET b 1", failure(errOOM))
	r.expect(c, "CONFIG SET maxmemory 0", simple("OK"))
	r.expect(c, "SET b 1", simple("OK"))
	r.expect(c, "CONFIG GET maxmemory", []any{"maxmemory", "1048576"})
	r.expect(c, "CONFIG SET maxmemory 1gb",
		failure("ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be at most 1048576"))

	r.expect(c, "CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru", simple("OK"))
	r.expect(c, "DBSIZE", int64(0))
}

func TestSettingsOfTheServerCannotBeChanged(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.expect(c, "CONFIG SET appendonly yes", simple("OK"))
	r.expect(c, "CONFIG SET appendonly no",
		failure("ERR CONFIG SET failed (possibly related to argument 'appendonly') - it is a setting of the server"))
}

func TestInfoCountsErrors(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.expect(c, "LPUSH a x", int64(1))
	r.expect(c, "GET a", failure(errWrongType))
	r.expect(c, "GET", failure("ERR wrong number of arguments for 'get' command"))
	r.expect(c, "MULTI", simple("OK"))
	r.expect(c, "GET a", simple("QUEUED"))
	r.expect(c, "EXEC", []any{failure(errWrongType)})
	info := strings.Join(infoLines(&call{Store: r.store}), "\n")
	for _, want := range []string{"total_error_replies:3", "errorstat_ERR:count=1", "errorstat_WRONGTYPE:count=2"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO has no %s", want)
		}
	}
}

// TestInfoCountsErrorsOfScripts compares the counts with redis-server's.
func TestInfoCountsErrorsOfScripts(t *testing.T) {
	j := newJudge(t)
	j.begin(t, 2)
	for _, script := range []string{
		"return redis.pcall('set', 'a', 'x')",
		"redis.pcall('set', 'a', 'x') return 1",
		"redis.call('set', 'a', 'x')",
		"pcall(redis.call, 'set', 'a', 'x') return 1",
		"return redis.pcall('get', 'list')",
		"redis.pcall('get', 'list') return 1",
		"local e = redis.pcall('get', 'list') return {err = e.err}",
		"redis.call('get', 'list')",
		"redis.call('nosuch')",
		"redis.call()",
		"return redis.error_reply('MY error')",
		"error({err = 'MY error'})",
		"return nosuch",
	} {
		j.compare(t, [][]string{
			{"rpush", "list", "x"},
			{"config", "set", "maxmemory", "1"},
			{"config", "resetstat"},
			{"eval", script, "0"},
			{"info", "errorstats"},
			{"config", "set", "maxmemory", "0"},
			{"flushall"},
		}, func(i int) func(theirs, ours any) bool {
			if i == 3 {
				return sameErrorCode
			}
			return nil
		})
	}
}

// sameErrorCode compares replies, of errors only their codes.
func sameErrorCode(theirs, ours any) bool {
	a, failed := theirs.(failure)
	b, also := ours.(failure)
	if !failed || !also {
		return reflect.DeepEqual(theirs, ours)
	}
	code, _, _ := strings.Cut(string(a), " ")
	return strings.HasPrefix(string(b), code+" ")
}

// infoLines returns the lines of INFO.
func infoLines(x *call) []string {
	var lines []string
	for _, section := range infoSections {
		lines = append(lines, section.lines(x)...)
	}
	return lines
}
