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

// infoLines returns the lines of INFO.
func infoLines(x *call) []string {
	var lines []string
	for _, section := range infoSections {
		lines = append(lines, section.lines(x)...)
	}
	return lines
}
