package redis

import (
	"maps"
	"slices"
	"strings"
)

// introspectCommands has the commands that describe commands.
var introspectCommands = []*command{
	{name: "command", arity: -1, run: commandAll, sub: []*command{
		{name: "command|count", arity: 2, run: commandCount, categories: "connection"},
		{name: "command|info", arity: -2, run: commandInfo, categories: "connection"},
		{name: "command|list", arity: -2, run: commandList, categories: "connection"},
		{name: "command|docs", arity: -2, run: commandDocs, categories: "connection"},
		{name: "command|getkeys", arity: -3, run: commandGetKeys, categories: "connection"},
		{name: "command|help", arity: 2, run: help, categories: "connection"},
	}},
}

// flagNames has the flags' names in replies.
var flagNames = []struct {
	flag flags
	name string
}{
	{flagWrite, "write"},
	{flagReadonly, "readonly"},
	{flagDenyOOM, "denyoom"},
	{flagAdmin, "admin"},
	{flagPubSub, "pubsub"},
	{flagNoScript, "noscript"},
	{flagBlocking, "blocking"},
	{flagFast, "fast"},
	{flagMovableKeys, "movablekeys"},
	{flagNoMulti, "no_multi"},
	{flagAllowBusy, "allow_busy"},
}

// names returns the commands' names in order.
func (t table) names() []string { return slices.Sorted(maps.Keys(t)) }

func commandAll(x *call) error {
	names := x.table.names()
	x.out.array(len(names))
	for _, name := range names {
		x.replyCommand(x.table[name])
	}
	return nil
}

func commandCount(x *call) error { return x.replyLen(len(x.table)) }

func commandInfo(x *call) error {
	if len(x.args) == 2 {
		return commandAll(x)
	}
	x.out.array(len(x.args) - 2)
	for _, name := range x.args[2:] {
		cmd := x.table.named(name)
		if cmd == nil {
			x.out.nullArray()
			continue
		}
		x.replyCommand(cmd)
	}
	return nil
}

// named returns a command, a subcommand with a name such as client|list, or nil.
func (t table) named(name string) *command {
	name = strings.ToLower(name)
	parent, _, isSub := strings.Cut(name, "|")
	cmd := t[parent]
	if !isSub || cmd == nil {
		return cmd
	}
	if i := slices.IndexFunc(cmd.sub, func(sub *command) bool { return sub.name == name }); i >= 0 {
		return cmd.sub[i]
	}
	return nil
}

// replyCommand appends COMMAND INFO's fields: name, arity, flags, keys, categories, hints, key
// specifications and subcommands.
func (x *call) replyCommand(cmd *command) {
	x.out.array(10)
	x.out.bulk(cmd.name)
	x.out.len(cmd.arity)
	var flags []string
	for _, f := range flagNames {
		if cmd.flags.has(f.flag) {
			flags = append(flags, f.name)
		}
	}
	x.out.set(len(flags))
	for _, name := range flags {
		x.out.simple(name)
	}
	first, last, step := cmd.keyRange()
	x.out.values(first, last, step)
	categories := cmd.categoryNames()
	x.out.set(len(categories))
	for _, name := range categories {
		x.out.simple(name)
	}
	x.out.array(0)
	x.out.array(0)
	x.out.array(len(cmd.sub))
	for _, sub := range cmd.sub {
		x.replyCommand(sub)
	}
}

// categoryNames returns a command's ACL categories.
func (c *command) categoryNames() []string {
	names := strings.Fields(c.categories)
	for flag, name := range map[flags]string{
		flagWrite: "write", flagReadonly: "read", flagAdmin: "admin", flagPubSub: "pubsub", flagBlocking: "blocking", flagFast: "fast",
	} {
		if c.flags.has(flag) {
			names = append(names, name)
		}
	}
	if !c.flags.has(flagFast) {
		names = append(names, "slow")
	}
	if c.flags.has(flagAdmin) {
		names = append(names, "dangerous")
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names {
		names[i] = "@" + name
	}
	return names
}

// commandList lists the names of commands and subcommands.
func commandList(x *call) error {
	names := x.table.names()
	for _, cmd := range x.table {
		for _, sub := range cmd.sub {
			names = append(names, sub.name)
		}
	}
	slices.Sort(names)
	if len(x.args) == 2 {
		return x.replyBulks(names)
	}
	if len(x.args) != 5 || !x.is(2, "FILTERBY") {
		return errSyntax
	}
	keep := func(*command) bool { return false }
	switch {
	case x.is(3, "ACLCAT"):
		keep = func(c *command) bool { return slices.Contains(c.categoryNames(), "@"+strings.ToLower(x.args[4])) }
	case x.is(3, "PATTERN"):
		keep = func(c *command) bool { return globMatch(strings.ToLower(x.args[4]), c.name) }
	case x.is(3, "MODULE"):
	default:
		return errSyntax
	}
	return x.replyBulks(slices.DeleteFunc(names, func(name string) bool { return !keep(x.table.named(name)) }))
}

// commandDocs replies with each command's group. We document nothing else here.
func commandDocs(x *call) error {
	names := x.table.names()
	if len(x.args) > 2 {
		names = slices.DeleteFunc(slices.Clone(x.args[2:]), func(name string) bool { return x.table.named(name) == nil })
	}
	x.out.mapOf(len(names))
	for _, name := range names {
		cmd := x.table.named(name)
		x.out.bulk(cmd.name)
		x.out.mapOf(1)
		x.out.bulk("group")
		x.out.bulk(cmd.group())
	}
	return nil
}

// group returns a command's group in Redis's documentation.
func (c *command) group() string {
	for _, name := range strings.Fields(c.categories) {
		switch name {
		case "keyspace":
			return "generic"
		case "sortedset":
			return "sorted-set"
		case "transaction":
			return "transactions"
		case "dangerous", "admin", "blocking":
		default:
			return name
		}
	}
	return "server"
}

func commandGetKeys(x *call) error {
	cmd, err := x.table.find(x.args[2:])
	if err != nil {
		return errorf("ERR Invalid command specified")
	}
	keys := cmd.keysOf(x.args[2:])
	if len(keys) == 0 && (cmd.keys == nil || cmd.categories != "scripting") {
		return errorf("ERR The command has no key arguments")
	}
	return x.replyBulks(keys)
}
