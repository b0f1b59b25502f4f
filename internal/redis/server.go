package redis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is the Redis version whose commands a store has.
const Version = "7.0.15"

// serverCommands has the commands about the server. introspect.go has those that describe commands.
var serverCommands = append([]*command{
	{name: "ping", arity: -1, flags: flagFast | flagSubscribed, run: ping, categories: "connection"},
	{name: "echo", arity: 2, flags: flagFast, run: echo, categories: "connection"},
	{name: "time", arity: 1, flags: flagFast, run: timeNow},
	{name: "info", arity: -1, run: info, categories: "dangerous"},
	{name: "wait", arity: 3, run: wait, categories: "blocking connection"},
	{name: "lastsave", arity: 1, flags: flagFast, run: lastSave, categories: "dangerous admin"},
	{name: "save", arity: 1, flags: flagAdmin | flagNoScript | flagNoMulti, run: save},
	{name: "bgsave", arity: -1, flags: flagAdmin | flagNoScript, run: bgSave},
	{name: "bgrewriteaof", arity: 1, flags: flagAdmin | flagNoScript, run: bgRewrite},
	{name: "role", arity: 1, flags: flagNoScript | flagFast, run: role, categories: "dangerous admin"},
	{name: "memory", arity: -2, sub: []*command{
		{name: "memory|usage", arity: -3, flags: flagReadonly, first: 2, last: 2, step: 1, run: memoryUsage},
		{name: "memory|help", arity: 2, run: help},
	}},
	{name: "config", arity: -2, sub: []*command{
		{name: "config|get", arity: -3, flags: flagAdmin | flagNoScript, run: configGet},
		{name: "config|set", arity: -4, flags: flagAdmin | flagNoScript, run: configSet},
		{name: "config|resetstat", arity: 2, flags: flagAdmin | flagNoScript, run: resetStat},
		{name: "config|help", arity: 2, run: help},
	}},
}, introspectCommands...)

func ping(x *call) error {
	switch {
	case len(x.args) > 2:
		return errorf("ERR wrong number of arguments for 'ping' command")
	case x.client.subscriptions() > 0 && !x.out.resp3:
		x.out.array(2)
		x.out.bulk("pong")
		x.out.bulk(strings.Join(x.args[1:], ""))
	case len(x.args) == 2:
		x.out.bulk(x.args[1])
	default:
		x.out.simple("PONG")
	}
	return nil
}

func echo(x *call) error {
	return x.replyBulk(x.args[1])
}

func timeNow(x *call) error {
	now := x.options.Now()
	return x.replyBulks([]string{formatInt(now.Unix()), strconv.Itoa(now.Nanosecond() / 1000)})
}

// wait replies that no replica has the changes: there are no replicas, and the changes are on disk
// already.
func wait(x *call) error {
	if _, err := x.int(1); err != nil {
		return err
	}
	timeout, ok := parseInt(x.args[2])
	if !ok {
		return errorf("ERR timeout is not an integer or out of range")
	}
	if timeout < 0 {
		return errorf("ERR timeout is negative")
	}
	return x.replyInt(0)
}

func lastSave(x *call) error {
	return x.replyInt(x.now / 1000)
}

// save replies at once, because acknowledged changes are already on disk.
func save(x *call) error {
	x.stats.changes = 0
	return x.replyOK()
}

func bgSave(x *call) error {
	if len(x.args) > 2 || len(x.args) == 2 && !x.is(1, "SCHEDULE") {
		return errSyntax
	}
	x.stats.changes = 0
	x.out.simple("Background saving started")
	return nil
}

func bgRewrite(x *call) error {
	x.log.base = 0
	x.out.simple("Background append only file rewriting started")
	return nil
}

func role(x *call) error {
	x.out.array(3)
	x.out.bulk("master")
	x.out.int(0)
	x.out.array(0)
	return nil
}

func memoryUsage(x *call) error {
	for i := 3; i < len(x.args); i += 2 {
		if !x.is(i, "SAMPLES") || i+1 == len(x.args) {
			return errSyntax
		}
		if n, err := x.int(i + 1); err != nil {
			return err
		} else if n < 0 {
			return errSyntax
		}
	}
	e := x.peek(x.args[2])
	if e == nil {
		return x.replyNull()
	}
	return x.replyInt(e.charged)
}

// infoSections has INFO's sections in order. Each returns names and values.
var infoSections = []struct {
	name  string
	lines func(x *call) []string
}{
	{"Server", func(x *call) []string {
		return []string{
			"redis_version:" + Version, "redis_mode:" + x.mode(), "arch_bits:64",
			fmt.Sprintf("uptime_in_seconds:%d", (x.now-x.opened)/1000),
			fmt.Sprintf("uptime_in_days:%d", (x.now-x.opened)/86_400_000),
			fmt.Sprintf("server_time_usec:%d", x.options.Now().UnixMicro()),
		}
	}},
	{"Clients", func(x *call) []string {
		x.mu.Lock()
		defer x.mu.Unlock()
		return []string{
			fmt.Sprintf("connected_clients:%d", len(x.clients)),
			fmt.Sprintf("blocked_clients:%d", x.countClients(func(c *Client) bool { return c.blocked != nil || c.paused })),
			fmt.Sprintf("pubsub_clients:%d", x.countClients(func(c *Client) bool { return c.subscriptions() > 0 })),
			fmt.Sprintf("total_blocking_keys:%d", len(x.waiting)), fmt.Sprintf("total_blocking_keys_on_nokey:%d", x.awaitedGroups()),
			fmt.Sprintf("tracking_clients:%d", x.countClients(func(c *Client) bool { return c.tracking.on })),
		}
	}},
	{"Memory", func(x *call) []string {
		return []string{
			fmt.Sprintf("used_memory:%d", x.keys.memory), fmt.Sprintf("used_memory_dataset:%d", x.keys.memory),
			fmt.Sprintf("maxmemory:%d", x.maxMemory()), "maxmemory_policy:" + string(x.policy()),
			fmt.Sprintf("number_of_cached_scripts:%d", len(x.scripts.cache.scripts)),
			fmt.Sprintf("number_of_libraries:%d", len(x.scripts.libraries)),
		}
	}},
	{"Persistence", func(x *call) []string {
		return []string{
			"loading:0", fmt.Sprintf("rdb_changes_since_last_save:%d", x.stats.changes), "rdb_bgsave_in_progress:0", "rdb_last_bgsave_status:ok", "aof_enabled:1",
			fmt.Sprintf("aof_rewrite_in_progress:%d", flagNumber(x.log.rewrite != nil)), "aof_last_write_status:ok",
			fmt.Sprintf("aof_current_size:%d", x.log.size), fmt.Sprintf("aof_base_size:%d", x.log.base),
		}
	}},
	{"Stats", func(x *call) []string {
		return []string{
			fmt.Sprintf("total_commands_processed:%d", x.stats.commands), fmt.Sprintf("expired_keys:%d", x.stats.expired),
			fmt.Sprintf("evicted_keys:%d", x.stats.evicted), fmt.Sprintf("keyspace_hits:%d", x.stats.hits),
			fmt.Sprintf("keyspace_misses:%d", x.stats.misses), fmt.Sprintf("pubsub_channels:%d", len(x.channels)),
			fmt.Sprintf("pubsub_patterns:%d", len(x.patterns)), fmt.Sprintf("total_error_replies:%d", x.stats.errorReplies),
			fmt.Sprintf("tracking_total_keys:%d", len(x.tracked.readers)),
			fmt.Sprintf("tracking_total_prefixes:%d", x.trackedPrefixes()),
		}
	}},
	{"Replication", func(*call) []string { return []string{"role:master", "connected_slaves:0"} }},
	{"Commandstats", commandStatsLines},
	{"Errorstats", errorStats},
	{"Cluster", func(x *call) []string {
		return []string{fmt.Sprintf("cluster_enabled:%d", flagNumber(x.limits.cluster))}
	}},
	{"Keyspace", func(x *call) []string {
		n := x.keys.entries.Len()
		if n == 0 {
			return nil
		}
		return []string{fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0", n, x.keys.expiring.Len())}
	}},
}

func flagNumber(v bool) int {
	if v {
		return 1
	}
	return 0
}

// maxErrorCodes caps the number of different error codes, the first words in error replies, that we
// count, and maxErrorCode their length. Scripts can make up any number.
const (
	maxErrorCodes = 128
	maxErrorCode  = 64
)

// countError counts an error reply, for INFO.
func (s *Store) countError(text string) {
	code, _, found := strings.Cut(text, " ")
	if !found || len(code) > maxErrorCode {
		code = "ERR"
	}
	if s.stats.errors == nil {
		s.stats.errors = map[string]int64{}
	}
	if _, known := s.stats.errors[code]; known || len(s.stats.errors) < maxErrorCodes {
		s.stats.errors[strings.Clone(code)]++
	}
	s.stats.errorReplies++
}

// commandStats has a command's statistics for INFO: how often it ran, how long that took, how often we
// refused it, and how often it failed.
type commandStats struct {
	calls, rejected, failed int64
	took                    time.Duration
}

// commandStats returns a command's statistics.
func (s *Store) commandStats(cmd *command) *commandStats {
	if s.stats.of == nil {
		s.stats.of = map[*command]*commandStats{}
	}
	n := s.stats.of[cmd]
	if n == nil {
		n = &commandStats{}
		s.stats.of[cmd] = n
	}
	return n
}

func commandStatsLines(x *call) []string {
	var lines []string
	for cmd, n := range x.stats.of {
		usec := n.took.Microseconds()
		lines = append(lines, fmt.Sprintf("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			cmd.name, n.calls, usec, float64(usec)/float64(max(n.calls, 1)), n.rejected, n.failed))
	}
	slices.Sort(lines)
	return lines
}

// errorStats returns the error replies' counts.
func errorStats(x *call) []string {
	var lines []string
	for _, code := range slices.Sorted(maps.Keys(x.stats.errors)) {
		lines = append(lines, fmt.Sprintf("errorstat_%s:count=%d", code, x.stats.errors[code]))
	}
	return lines
}

// awaitedGroups counts the keys where clients wait to read from a group. They also wait for the key's
// deletion.
func (s *Store) awaitedGroups() int {
	n := 0
	for _, clients := range s.waiting {
		n += flagNumber(slices.ContainsFunc(clients, func(c *Client) bool { return c.blocked.cmd.name == "xreadgroup" }))
	}
	return n
}

// countClients counts the clients for which the function is true. The caller holds mu.
func (s *Store) countClients(of func(*Client) bool) int {
	n := 0
	for c := range s.clients {
		n += flagNumber(of(c))
	}
	return n
}

func info(x *call) error {
	wanted := map[string]bool{}
	for _, name := range x.args[1:] {
		wanted[strings.ToLower(name)] = true
	}
	all := len(wanted) == 0 || wanted["all"] || wanted["default"] || wanted["everything"]
	var text strings.Builder
	for _, section := range infoSections {
		if !all && !wanted[strings.ToLower(section.name)] {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		text.WriteString("# " + section.name + "\r\n")
		for _, line := range section.lines(x) {
			text.WriteString(line + "\r\n")
		}
	}
	x.out.verbatim(text.String())
	return nil
}

func resetStat(x *call) error {
	x.report()
	x.Store.stats = stats{changes: x.stats.changes}
	x.reported.commands = 0
	return x.replyOK()
}
