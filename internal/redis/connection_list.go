package redis

import (
	"fmt"
	"slices"
	"strings"
)

// info returns a client's line in CLIENT LIST. Numbers that mean nothing here are 0.
func (x *call) info(c *Client) string {
	queued := -1
	if c.queue != nil {
		queued = len(c.queue.commands)
	}
	last := "NULL"
	if c.last != nil {
		last = c.last.name
	}
	now := x.options.Now()
	idle := now.Sub(c.Began)
	if !c.lastAt.IsZero() {
		idle = now.Sub(c.lastAt)
	}
	c.mu.Lock()
	requests, replies, user := c.size, len(c.outbox)+c.sending, c.access.User
	c.mu.Unlock()
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=%d multi=%d "+
		"qbuf=%d qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=%d tot-mem=%d events=r cmd=%s user=%s "+
		"redir=%d resp=%d lib-name=%s lib-ver=%s",
		c.ID, c.Address, c.Local, c.name, int(now.Sub(c.Began).Seconds()), int(idle.Seconds()), c.flags(),
		len(c.channels), len(c.patterns), len(c.shards), queued, requests, replies, requests+replies, last, user,
		c.redirection(), c.protocol(), c.software.name, c.software.version)
}

// flags returns the letters for a client's state in CLIENT LIST.
func (c *Client) flags() string {
	letters := ""
	for _, flag := range []struct {
		set    bool
		letter string
	}{
		{c.subscriptions() > 0, "P"},
		{c.queue != nil, "x"},
		{c.blocked != nil || c.paused, "b"},
		{c.tracking.on, "t"},
		{c.tracking.broken, "R"},
		{c.tracking.broadcast, "B"},
		{c.broken, "d"},
		{c.noEvict, "e"},
		{c.noTouch, "T"},
	} {
		if flag.set {
			letters += flag.letter
		}
	}
	if letters == "" {
		return "N"
	}
	return letters
}

// clientType returns normal or pubsub.
func (c *Client) clientType() string {
	if c.subscriptions() > 0 {
		return "pubsub"
	}
	return "normal"
}

// typeArg reads a client type. Some types have no clients here.
func (x *call) typeArg(i int) (string, error) {
	name := strings.ToLower(x.args[i])
	switch name {
	case "normal", "pubsub", "master", "replica", "slave":
		return name, nil
	}
	return "", errorf("ERR Unknown client type '%s'", x.args[i])
}

func clientInfo(x *call) error {
	x.out.verbatim(x.info(x.client) + "\n")
	return nil
}

func clientList(x *call) error {
	match := func(*Client) bool { return true }
	switch {
	case len(x.args) == 2:
	case x.is(2, "TYPE") && len(x.args) == 4:
		name, err := x.typeArg(3)
		if err != nil {
			return err
		}
		match = func(c *Client) bool { return c.clientType() == name }
	case x.is(2, "ID") && len(x.args) > 3:
		var ids []int64
		for _, arg := range x.args[3:] {
			id, ok := parseInt(arg)
			if !ok {
				return errorf("ERR Invalid client ID")
			}
			ids = append(ids, id)
		}
		match = func(c *Client) bool { return slices.Contains(ids, c.ID) }
	default:
		return errSyntax
	}
	var text strings.Builder
	for _, c := range x.others() {
		if match(c) {
			text.WriteString(x.info(c) + "\n")
		}
	}
	x.out.verbatim(text.String())
	return nil
}

// killFilter selects the clients that CLIENT KILL closes.
type killFilter struct {
	id                         int64
	address, local, user, kind string
	self                       bool
}

func (f killFilter) matches(c *Client) bool {
	c.mu.Lock()
	user, closed := c.access.User, c.closed
	c.mu.Unlock()
	return !closed && (f.id == 0 || f.id == c.ID) && (f.address == "" || f.address == c.Address) && (f.local == "" || f.local == c.Local) &&
		(f.user == "" || f.user == user) && (f.kind == "" || f.kind == c.clientType())
}

func clientKill(x *call) error {
	filter := killFilter{address: x.args[2], self: true}
	if len(x.args) > 3 {
		var err error
		if filter, err = x.killFilter(); err != nil {
			return err
		}
	}
	killed := int64(0)
	for _, c := range x.others() {
		if !filter.matches(c) || c == x.client && !filter.self {
			continue
		}
		killed++
		if c == x.client {
			c.quitting = true
		} else {
			c.Kill()
		}
	}
	switch {
	case len(x.args) > 3:
		x.out.int(killed)
	case killed == 0:
		return errorf("ERR No such client")
	default:
		x.out.ok()
	}
	return nil
}

// killFilter reads CLIENT KILL's filters.
func (x *call) killFilter() (f killFilter, err error) {
	for i := 2; i < len(x.args); i += 2 {
		if i+1 == len(x.args) {
			return f, errSyntax
		}
		switch strings.ToUpper(x.args[i]) {
		case "ID":
			id, ok := parseInt(x.args[i+1])
			if !ok || id < 1 {
				return f, errorf("ERR client-id should be greater than 0")
			}
			f.id = id
		case "TYPE":
			if f.kind, err = x.typeArg(i + 1); err != nil {
				return f, err
			}
		case "ADDR":
			f.address = x.args[i+1]
		case "LADDR":
			f.local = x.args[i+1]
		case "USER":
			f.user = x.args[i+1]
			if !slices.ContainsFunc(x.others(), killFilter{user: f.user}.matches) {
				return f, errorf("ERR No such user '%s'", f.user)
			}
		case "SKIPME":
			if !x.is(i+1, "YES") && !x.is(i+1, "NO") {
				return f, errSyntax
			}
			f.self = x.is(i+1, "NO")
		default:
			return f, errSyntax
		}
	}
	return f, nil
}

func clientUnblock(x *call) error {
	failed := false
	switch {
	case len(x.args) == 3:
	case len(x.args) == 4 && (x.is(3, "TIMEOUT") || x.is(3, "ERROR")):
		failed = x.is(3, "ERROR")
	case len(x.args) == 4:
		return errorf("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	default:
		return errSyntax
	}
	id, err := x.int(2)
	if err != nil {
		return err
	}
	for _, c := range x.others() {
		if c.ID != id || c.blocked == nil {
			continue
		}
		if failed {
			c.out.error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
		} else {
			c.blocked.expire(&c.out.reply)
		}
		x.turn = append(x.turn, c)
		x.unblock(c)
		return x.replyInt(1)
	}
	return x.replyInt(0)
}
