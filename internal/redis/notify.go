package redis

import (
	"slices"
	"strings"
)

// eventClasses is the set of event classes to publish, as in notify-keyspace-events.
type eventClasses uint16

// We send each event to its key's channel if eventsByKey is set, and to its name's channel if
// eventsByName is.
const (
	eventsByKey eventClasses = 1 << iota
	eventsByName
	eventGeneric
	eventString
	eventList
	eventSet
	eventHash
	eventZSet
	eventExpired
	eventEvicted
	eventStream
	eventModule
	eventNew
	eventMiss

	eventAll = eventGeneric | eventString | eventList | eventSet | eventHash | eventZSet | eventExpired | eventEvicted |
		eventStream | eventModule
)

type eventLetter struct {
	letter byte
	class  eventClasses
}

// eventLetters has each class's letter, in the order that CONFIG GET shows.
var eventLetters = []eventLetter{
	{'g', eventGeneric},
	{'$', eventString},
	{'l', eventList},
	{'s', eventSet},
	{'h', eventHash},
	{'z', eventZSet},
	{'x', eventExpired},
	{'e', eventEvicted},
	{'t', eventStream},
	{'d', eventModule},
	{'n', eventNew},
	{'K', eventsByKey},
	{'E', eventsByName},
	{'m', eventMiss},
}

// parseEventClasses reads class letters; A stands for most classes. It returns false if a letter is
// unknown.
func parseEventClasses(text string) (eventClasses, bool) {
	var all eventClasses
	for _, letter := range []byte(text) {
		if letter == 'A' {
			all |= eventAll
			continue
		}
		i := slices.IndexFunc(eventLetters, func(l eventLetter) bool { return l.letter == letter })
		if i < 0 {
			return 0, false
		}
		all |= eventLetters[i].class
	}
	return all, true
}

// String returns the classes' letters.
func (c eventClasses) String() string {
	var text []byte
	most := c&eventAll == eventAll
	if most {
		text = append(text, 'A')
	}
	for _, l := range eventLetters {
		if c&l.class != 0 && !(most && l.class&(eventAll|eventNew) != 0) {
			text = append(text, l.letter)
		}
	}
	return string(text)
}

// publishEvent publishes an event for a key if clients want its class.
func (x *call) publishEvent(class eventClasses, name, key string) {
	wanted := x.limits.events
	if wanted&class == 0 || x.replaying {
		return
	}
	if wanted&eventsByKey != 0 {
		x.publish("__keyspace@0__:"+key, name)
	}
	if wanted&eventsByName != 0 {
		x.publish("__keyevent@0__:"+name, key)
	}
}

// note remembers that a command has changed a key, if clients want events.
func (x *call) note(key string) {
	if x.limits.events != 0 && !slices.Contains(x.noted, key) {
		x.noted = append(x.noted, key)
	}
}

// noteMissing remembers which keys in a request do not exist, if clients want events for new keys.
func (x *call) noteMissing() {
	if x.limits.events&eventNew == 0 {
		return
	}
	for _, key := range x.cmd.keysOf(x.args) {
		if x.peek(key) == nil {
			x.missing = append(x.missing, key)
		}
	}
}

// publishEvents publishes the events for the keys that a command has changed.
func (x *call) publishEvents() {
	if to, from := x.moveEvents(); to != "" {
		x.publishNew(x.args[2])
		x.publishEvent(eventList, to, x.args[2])
		x.publishChange(x.args[1], from)
		return
	}
	switch {
	case x.cmd.name == "mset" || x.cmd.name == "msetnx":
		x.noted = x.cmd.keysOf(x.args) // a key may appear twice
	case replacing[x.cmd.name]:
		x.missing = slices.Clone(x.noted)
		for _, key := range x.noted {
			x.publishNew(key)
		}
	}
	for _, key := range x.noted {
		x.publishNew(key)
		x.publishEventsOf(key)
	}
}

// replacing has the commands that delete a key and add it again.
var replacing = map[string]bool{"rename": true, "renamenx": true, "copy": true, "restore": true}

// publishNew publishes that a key is new if it did not exist before. For SET, it does so even if the
// new key's time has already passed.
func (x *call) publishNew(key string) {
	if !slices.Contains(x.missing, key) || x.keys.find(key) == nil && x.cmd.name != "set" {
		return
	}
	x.missing = slices.DeleteFunc(x.missing, func(other string) bool { return other == key })
	x.publishEvent(eventNew, "new", key)
}

// moveEvents returns the events for a command that moves an element between lists, or nothing.
func (x *call) moveEvents() (to, from string) {
	switch x.cmd.name {
	case "rpoplpush", "brpoplpush":
		return "lpush", "rpop"
	case "lmove", "blmove":
		return sideLetter(x.args[4]) + "push", sideLetter(x.args[3]) + "pop"
	}
	return "", ""
}

// sideLetter returns the letter for LEFT or RIGHT.
func sideLetter(side string) string { return strings.ToLower(side[:1]) }

// publishEventsOf publishes a command's change to a key, under Redis's event names.
func (x *call) publishEventsOf(key string) {
	e := x.keys.find(key)
	switch x.cmd.name {
	case "del", "unlink", "getdel":
		x.publishEvent(eventGeneric, "del", key)
	case "expire", "pexpire", "expireat", "pexpireat":
		x.publishGeneric(key, "expire")
	case "persist":
		x.publishGeneric(key, "persist")
	case "getex":
		if e != nil && e.expires == 0 {
			x.publishGeneric(key, "persist")
		} else {
			x.publishGeneric(key, "expire")
		}
	case "rename", "renamenx":
		if key == x.args[1] {
			x.publishEvent(eventGeneric, "rename_from", key)
		} else {
			x.publishEvent(eventGeneric, "rename_to", key)
		}
	case "copy":
		x.publishGeneric(key, "copy_to")
	case "restore":
		x.publishGeneric(key, "restore")
	case "set", "setex", "psetex":
		x.publishSet(key, e)
	case "smove":
		if key == x.args[1] {
			x.publishChange(key, "srem")
		} else {
			x.publishChange(key, "sadd")
		}
	case "xadd":
		x.publishChange(key, "xadd")
		if x.trimmed {
			x.publishEvent(eventStream, "xtrim", key)
		}
	default:
		x.publishChange(key, x.eventName())
	}
}

// publishGeneric publishes an event in the generic class, or that the key was deleted.
func (x *call) publishGeneric(key, name string) {
	if x.keys.find(key) == nil {
		name = "del"
	}
	x.publishEvent(eventGeneric, name, key)
}

// publishSet publishes SET's events. A key whose time has passed is gone already.
func (x *call) publishSet(key string, e *entry) {
	x.publishEvent(eventString, "set", key)
	if e == nil || e.expires != 0 && !x.keepsTime() {
		x.publishEvent(eventGeneric, "expire", key)
	}
	if e == nil {
		x.publishEvent(eventExpired, "expired", key)
	}
}

// keepsTime reports whether SET has the option KEEPTTL.
func (x *call) keepsTime() bool {
	for i := 3; i < len(x.args); i++ {
		switch strings.ToUpper(x.args[i]) {
		case "KEEPTTL":
			return true
		case "EX", "PX", "EXAT", "PXAT":
			i++ // its time
		}
	}
	return false
}

// publishChange publishes an event in the command's class, and that the key was deleted if it is gone.
// A command that stores an empty result has only deleted the key.
func (x *call) publishChange(key, name string) {
	gone := x.keys.find(key) == nil
	if name != "" && !(gone && x.storesResult()) {
		x.publishEvent(x.eventClass(), name, key)
	}
	if gone {
		x.publishEvent(eventGeneric, "del", key)
	}
}

// storesResult reports whether a command stores a result that may be empty.
func (x *call) storesResult() bool {
	return strings.HasSuffix(x.eventName(), "store") || x.cmd.name == "bitop"
}

// eventNames has the event names that differ from the command's. Commands with "" publish none.
var eventNames = map[string]string{
	"setnx": "set", "getset": "set", "mset": "set", "msetnx": "set", "bitop": "set", "bitfield": "setbit",
	"incr": "incrby", "decr": "incrby", "decrby": "incrby", "pfmerge": "pfadd", "hmset": "hset", "hsetnx": "hset",
	"lpushx": "lpush", "rpushx": "rpush", "blpop": "lpop", "brpop": "rpop", "zincrby": "zincr", "geoadd": "zadd",
	"bzpopmin": "zpopmin", "bzpopmax": "zpopmax", "georadius": "georadiusstore", "georadiusbymember": "georadiusstore",
	"sort": "sortstore", "xreadgroup": "", "xclaim": "", "xautoclaim": "", "xack": "", "flushall": "", "flushdb": "",
}

// eventName returns the name for a command's event, or "" if it has none.
func (x *call) eventName() string {
	switch x.cmd.name {
	case "lmpop", "blmpop":
		return sideLetter(x.popSide()) + "pop"
	case "zmpop", "bzmpop":
		return "zpop" + strings.ToLower(x.popSide())
	case "zadd":
		if slices.ContainsFunc(x.args[2:len(x.args)-2], func(arg string) bool { return strings.EqualFold(arg, "INCR") }) {
			return "zincr"
		}
	}
	if name, other := eventNames[x.cmd.name]; other {
		return name
	}
	return strings.ReplaceAll(x.cmd.name, "|", "-")
}

// popSide returns the argument after the keys in a command that pops from one of them.
func (x *call) popSide() string {
	keys := x.cmd.keysOf(x.args)
	at := 2 + len(keys)
	if strings.HasPrefix(x.cmd.name, "b") {
		at++
	}
	return x.args[at]
}

// eventClass returns the class for a command's event.
func (x *call) eventClass() eventClasses {
	if x.cmd.name == "sort" {
		return eventList
	}
	switch x.cmd.categories {
	case "string", "bitmap", "hyperloglog":
		return eventString
	case "list":
		return eventList
	case "set":
		return eventSet
	case "hash":
		return eventHash
	case "sortedset", "geo":
		return eventZSet
	case "stream":
		return eventStream
	}
	return eventGeneric
}

// noteConsumer publishes that a command is about to add a consumer to a group, if no consumer has the
// name yet.
func (x *call) noteConsumer(key string, g *streamGroup, name string) {
	if x.limits.events == 0 {
		return
	}
	if _, found := g.consumers[name]; !found {
		x.publishEvent(eventStream, "xgroup-createconsumer", key)
	}
}
