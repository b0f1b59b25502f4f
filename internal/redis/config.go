package redis

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// setting is a setting that CONFIG GET shows and CONFIG SET changes.
type setting struct {
	get func(s *Store) string
	// set returns an error if a value is not possible. It is nil if the setting cannot be changed.
	set func(s *Store, text string) error
	// kept reports whether the log keeps a change.
	kept bool
}

// settings has the settings that clients ask for. Names with ziplist are older aliases.
var settings = map[string]setting{
	"appendonly":                fixed("yes"),
	"appendfsync":               fixed("always"),
	"save":                      fixed(""),
	"databases":                 fixed("1"),
	"proto-max-bulk-len":        fixed(strconv.Itoa(maxString)),
	"maxmemory":                 {get: func(s *Store) string { return formatInt(s.maxMemory()) }, set: setMaxMemory, kept: true},
	"maxmemory-policy":          {get: func(s *Store) string { return string(s.policy()) }, set: setPolicy, kept: true},
	"notify-keyspace-events":    {get: func(s *Store) string { return s.limits.events.String() }, set: setEvents, kept: true},
	"cluster-enabled":           {get: func(s *Store) string { return yesNo(s.limits.cluster) }, set: setCluster, kept: true},
	"hash-max-listpack-entries": entries(func(s *Store) *int { return &s.limits.hashMaxListpackEntries }),
	"hash-max-ziplist-entries":  entries(func(s *Store) *int { return &s.limits.hashMaxListpackEntries }),
	"hash-max-listpack-value":   size(func(s *Store) *int { return &s.limits.hashMaxListpackValue }),
	"hash-max-ziplist-value":    size(func(s *Store) *int { return &s.limits.hashMaxListpackValue }),
	"set-max-intset-entries":    entries(func(s *Store) *int { return &s.limits.setMaxIntsetEntries }),
	"set-max-listpack-entries":  entries(func(s *Store) *int { return &s.limits.setMaxListpackEntries }),
	"set-max-listpack-value":    size(func(s *Store) *int { return &s.limits.setMaxListpackValue }),
	"zset-max-listpack-entries": entries(func(s *Store) *int { return &s.limits.zsetMaxListpackEntries }),
	"zset-max-ziplist-entries":  entries(func(s *Store) *int { return &s.limits.zsetMaxListpackEntries }),
	"zset-max-listpack-value":   size(func(s *Store) *int { return &s.limits.zsetMaxListpackValue }),
	"zset-max-ziplist-value":    size(func(s *Store) *int { return &s.limits.zsetMaxListpackValue }),
	"list-max-listpack-size":    number(func(s *Store) *int { return &s.limits.listMaxListpackSize }, math.MinInt32, math.MaxInt32),
	"list-max-ziplist-size":     number(func(s *Store) *int { return &s.limits.listMaxListpackSize }, math.MinInt32, math.MaxInt32),
	"list-compress-depth":       number(func(s *Store) *int { return &s.limits.listCompressDepth }, 0, math.MaxInt32),
	"stream-node-max-bytes":     size(func(s *Store) *int { return &s.limits.streamNodeMaxBytes }),
	"stream-node-max-entries":   entries(func(s *Store) *int { return &s.limits.streamNodeMaxEntries }),
	"busy-reply-threshold":      number(func(s *Store) *int { return &s.limits.busyReplyThreshold }, 0, math.MaxInt32),
	"lua-time-limit":            number(func(s *Store) *int { return &s.limits.busyReplyThreshold }, 0, math.MaxInt32),
	"hll-sparse-max-bytes":      size(func(s *Store) *int { return &s.limits.hllSparseMaxBytes }),
}

// fixed returns a setting with a constant value.
func fixed(text string) setting { return setting{get: func(*Store) string { return text }} }

// number returns a setting whose value is a number between two bounds.
func number(of func(s *Store) *int, least, most int64) setting {
	return setting{
		get: func(s *Store) string { return strconv.Itoa(*of(s)) },
		set: func(s *Store, text string) error {
			n, ok := parseInt(text)
			if !ok {
				return errorf("argument couldn't be parsed into an integer")
			}
			return assign(of(s), n, least, most)
		},
	}
}

// entries returns a setting that counts things.
func entries(of func(s *Store) *int) setting { return number(of, 0, math.MaxInt64) }

// size returns a setting in bytes.
func size(of func(s *Store) *int) setting {
	return setting{
		get: func(s *Store) string { return strconv.Itoa(*of(s)) },
		set: func(s *Store, text string) error {
			n, ok := parseMemory(text)
			if !ok {
				return errorf("argument must be a memory value")
			}
			return assign(of(s), n, 0, math.MaxInt64)
		},
	}
}

func assign(to *int, n, least, most int64) error {
	if n < least || n > most {
		return errorf("argument must be between %d and %d inclusive", least, most)
	}
	*to = int(n)
	return nil
}

// memoryUnits has the units for sizes in bytes.
var memoryUnits = map[string]int64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1_000_000, "mb": 1 << 20, "g": 1_000_000_000, "gb": 1 << 30,
}

// parseMemory parses a size in bytes such as 64mb.
func parseMemory(text string) (int64, bool) {
	digits := strings.TrimRight(text, "bkmgBKMG")
	unit, known := memoryUnits[strings.ToLower(text[len(digits):])]
	n, ok := parseInt(digits)
	if !known || !ok || n < 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// setMaxMemory changes the memory limit, up to the one in the options; 0 means that one. A store may
// have had more than its options allow now. We keep that setting in case they allow it again.
func setMaxMemory(s *Store, text string) error {
	n, ok := parseMemory(text)
	if !ok {
		return errorf("argument must be a memory value")
	}
	if n > s.options.Memory && !s.replaying {
		return errorf("argument must be at most %d", s.options.Memory)
	}
	s.limits.maxMemory = n
	return nil
}

func setPolicy(s *Store, text string) error {
	policy := Policy(strings.ToLower(text))
	switch policy {
	case NoEviction, AllKeysLRU, VolatileTTL:
		s.limits.maxMemoryPolicy = policy
		return nil
	default:
		return errorf("argument(s) must be one of the following: %s, %s, %s", VolatileTTL, AllKeysLRU, NoEviction)
	}
}

func setEvents(s *Store, text string) error {
	events, ok := parseEventClasses(text)
	if !ok {
		return errorf("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
	}
	s.limits.events = events
	return nil
}

func setCluster(s *Store, text string) error {
	text = strings.ToLower(text)
	if text != "yes" && text != "no" {
		return errorf("argument must be 'yes' or 'no'")
	}
	s.limits.cluster = text == "yes"
	return nil
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func configGet(x *call) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if slices.ContainsFunc(x.args[2:], func(pattern string) bool { return globMatch(strings.ToLower(pattern), name) }) {
			names = append(names, name)
		}
	}
	x.out.mapOf(len(names))
	for _, name := range names {
		x.out.bulk(name)
		x.out.bulk(settings[name].get(x.Store))
	}
	return nil
}

// configSet changes all settings in a request, or none.
func configSet(x *call) error {
	if len(x.args)%2 == 1 {
		return errSyntax
	}
	seen := map[string]bool{}
	for i := 2; i < len(x.args); i += 2 {
		name := strings.ToLower(x.args[i])
		if _, known := settings[name]; !known {
			return errorf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", x.args[i])
		}
		if seen[name] {
			return configFailed(x.args[i], "duplicate parameter")
		}
		seen[name] = true
	}
	before := x.limits
	for i := 2; i < len(x.args); i += 2 {
		if err := x.configure(x.args[i], x.args[i+1]); err != nil {
			x.Store.limits = before
			return configFailed(x.args[i], err.Error())
		}
	}
	for i := 2; i < len(x.args); i += 2 {
		if settings[strings.ToLower(x.args[i])].kept {
			x.effect("config", "set", x.args[i], x.args[i+1])
		}
	}
	if limit := x.memoryLimit(); x.keys.memory > limit && !x.replaying {
		x.evict(limit)
	}
	return x.replyOK()
}

// configure changes a setting. For one that cannot be changed, it accepts the current value.
func (s *Store) configure(name, value string) error {
	to := settings[strings.ToLower(name)]
	switch {
	case to.set != nil:
		return to.set(s, value)
	case strings.EqualFold(value, to.get(s)):
		return nil
	default:
		return errorf("it is a setting of the server")
	}
}

func configFailed(name, reason string) error {
	return errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, reason)
}
