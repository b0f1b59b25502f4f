package redis

import (
	"slices"
	"strings"
)

// subscribers has the clients subscribed to each channel or pattern, by name.
type subscribers map[string]map[*Client]bool

// add adds a client and reports whether it is new.
func (s subscribers) add(name string, c *Client) bool {
	if s[name] == nil {
		s[name] = map[*Client]bool{}
	}
	added := !s[name][c]
	s[name][c] = true
	return added
}

func (s subscribers) remove(name string, c *Client) {
	delete(s[name], c)
	if len(s[name]) == 0 {
		delete(s, name)
	}
}

// subscription is a kind of subscription: to channels, patterns, or shard channels.
type subscription struct {
	// subscribe, unsubscribe and message are the first words in the messages that clients receive.
	subscribe, unsubscribe, message string
	all                             func(*Store) subscribers
	of                              func(*Client) map[string]bool
}

var (
	toChannels = subscription{
		"subscribe", "unsubscribe", "message",
		func(s *Store) subscribers { return s.channels },
		func(c *Client) map[string]bool { return c.channels },
	}
	toPatterns = subscription{
		"psubscribe", "punsubscribe", "pmessage",
		func(s *Store) subscribers { return s.patterns },
		func(c *Client) map[string]bool { return c.patterns },
	}
	toShards = subscription{
		"ssubscribe", "sunsubscribe", "smessage",
		func(s *Store) subscribers { return s.shards },
		func(c *Client) map[string]bool { return c.shards },
	}
)

const flagsOfSubscribe = flagPubSub | flagNoScript | flagSubscribed

// pubSubCommands has the publish and subscribe commands.
var pubSubCommands = []*command{
	{name: "subscribe", arity: -2, flags: flagsOfSubscribe, run: subscribeTo(toChannels), categories: "pubsub"},
	{name: "psubscribe", arity: -2, flags: flagsOfSubscribe, run: subscribeTo(toPatterns), categories: "pubsub"},
	{name: "ssubscribe", arity: -2, flags: flagsOfSubscribe, run: subscribeTo(toShards), categories: "pubsub"},
	{name: "unsubscribe", arity: -1, flags: flagsOfSubscribe, run: unsubscribeFrom(toChannels), categories: "pubsub"},
	{name: "punsubscribe", arity: -1, flags: flagsOfSubscribe, run: unsubscribeFrom(toPatterns), categories: "pubsub"},
	{name: "sunsubscribe", arity: -1, flags: flagsOfSubscribe, run: unsubscribeFrom(toShards), categories: "pubsub"},
	{name: "publish", arity: 3, flags: flagPubSub | flagFast, run: publish, categories: "pubsub"},
	{name: "spublish", arity: 3, flags: flagPubSub | flagFast, run: sPublish, categories: "pubsub"},
	{name: "pubsub", arity: -2, sub: []*command{
		{name: "pubsub|channels", arity: -2, flags: flagPubSub, run: listChannels(toChannels), categories: "pubsub"},
		{name: "pubsub|shardchannels", arity: -2, flags: flagPubSub, run: listChannels(toShards), categories: "pubsub"},
		{name: "pubsub|numsub", arity: -2, flags: flagPubSub, run: countSubscribers(toChannels), categories: "pubsub"},
		{name: "pubsub|shardnumsub", arity: -2, flags: flagPubSub, run: countSubscribers(toShards), categories: "pubsub"},
		{name: "pubsub|numpat", arity: 2, flags: flagPubSub, run: numPat, categories: "pubsub"},
		{name: "pubsub|help", arity: 2, run: help, categories: "pubsub"},
	}},
}

// subscribeTo returns the command that subscribes. The client receives one message for each name.
func subscribeTo(kind subscription) func(x *call) error {
	return func(x *call) error {
		if x.script {
			return errorf("ERR This Redis command is not allowed from script")
		}
		if !x.reserve(x.args[1:]...) {
			return errNames
		}
		for _, arg := range x.args[1:] {
			name := strings.Clone(arg)
			if kind.all(x.Store).add(name, x.client) {
				kind.of(x.client)[name] = true
			} else {
				x.release(name)
			}
			x.replySubscribed(kind.subscribe, &name)
		}
		x.client.pin()
		return nil
	}
}

// replySubscribed appends that a subscription has begun or ended, and how many the client has now. name
// is nil if there was none to end.
func (x *call) replySubscribed(word string, name *string) {
	x.out.push(3)
	x.out.bulk(word)
	if name == nil {
		x.out.null()
	} else {
		x.out.bulk(*name)
	}
	if word == toShards.subscribe || word == toShards.unsubscribe {
		x.out.len(len(x.client.shards))
		return
	}
	x.out.len(len(x.client.channels) + len(x.client.patterns))
}

// unsubscribeFrom returns the command that ends subscriptions: all if it names none.
func unsubscribeFrom(kind subscription) func(x *call) error {
	return func(x *call) error {
		names := x.args[1:]
		if len(names) == 0 {
			for name := range kind.of(x.client) {
				names = append(names, name)
			}
			slices.Sort(names)
		}
		if len(names) == 0 {
			x.replySubscribed(kind.unsubscribe, nil)
		}
		for _, name := range names {
			if kind.of(x.client)[name] {
				kind.all(x.Store).remove(name, x.client)
				delete(kind.of(x.client), name)
				x.release(name)
			}
			x.replySubscribed(kind.unsubscribe, &name)
		}
		x.client.pin()
		return nil
	}
}

// unsubscribeAll ends a client's subscriptions.
func (s *Store) unsubscribeAll(c *Client) {
	for _, kind := range []subscription{toChannels, toPatterns, toShards} {
		for name := range kind.of(c) {
			kind.all(s).remove(name, c)
			s.release(name)
		}
		clear(kind.of(c))
	}
}

func publish(x *call) error { return x.replyLen(x.publish(x.args[1], x.args[2])) }

// publish sends a message to a channel's subscribers, and returns how many there are.
func (x *call) publish(channel, text string) int {
	n := x.send(toChannels, channel, text)
	for pattern := range x.patterns {
		if globMatch(pattern, channel) {
			n += x.send(toPatterns, pattern, channel, text)
		}
	}
	return n
}

func sPublish(x *call) error { return x.replyLen(x.send(toShards, x.args[1], x.args[2])) }

// send sends a message to a name's subscribers, and returns how many there are. For a pattern the
// message is the channel and a text, otherwise just a text.
func (x *call) send(kind subscription, name string, message ...string) int {
	clients := kind.all(x.Store)[name]
	for c := range clients {
		x.tell(c, func(out *reply) {
			out.push(2 + len(message))
			out.bulk(kind.message)
			out.bulk(name)
			for _, word := range message {
				out.bulk(word)
			}
		})
	}
	return len(clients)
}

// tell sends a message to a client. The client whose command is running receives it after the reply.
func (s *Store) tell(c *Client, message func(out *reply)) {
	out := &c.out.reply
	if c == s.running {
		out = &c.later
		out.resp3 = c.out.resp3
	}
	if c.dropped || out.full {
		return
	}
	message(out)
	s.turn = append(s.turn, c)
	switch {
	case len(out.b) <= maxOutbox && c.chargeReplies():
	case c == s.running:
		out.full = true
	default:
		c.drop()
	}
}

// appendLater appends the messages that the client's own command caused. It closes the client if there
// are too many.
func (c *Client) appendLater() {
	if len(c.later.b) == 0 {
		return
	}
	c.out.b = append(c.out.b, c.later.b...)
	full := c.later.full
	c.later = reply{}
	if full || !c.chargeReplies() {
		c.drop()
	}
}

// listChannels returns the command that lists the channels with subscribers.
func listChannels(kind subscription) func(x *call) error {
	return func(x *call) error {
		if len(x.args) > 3 {
			return errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try PUBSUB HELP.", clip(x.args[1], 128))
		}
		var names []string
		for name := range kind.all(x.Store) {
			if len(x.args) == 2 || globMatch(x.args[2], name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return x.replyBulks(names)
	}
}

// countSubscribers returns the command that counts channels' subscribers.
func countSubscribers(kind subscription) func(x *call) error {
	return func(x *call) error {
		x.out.array(2 * (len(x.args) - 2))
		for _, name := range x.args[2:] {
			x.out.bulk(name)
			x.out.len(len(kind.all(x.Store)[name]))
		}
		return nil
	}
}

func numPat(x *call) error { return x.replyLen(len(x.patterns)) }
