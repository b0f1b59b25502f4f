package redis

import (
	"testing"

	"pgregory.net/rapid"
)

// pubSubExamples are commands of publish and subscribe, and some that clients with subscriptions may not use.
var pubSubExamples = []example{
	{name: "subscribe", draw: someChannels},
	{name: "subscribe", draw: words(someChannel)},
	{name: "psubscribe", draw: words(someChannelPattern)},
	{name: "psubscribe", draw: func(t *rapid.T) []string { return several(t, 0, 3, someChannelPattern) }},
	{name: "ssubscribe", draw: someChannels},
	{name: "unsubscribe", draw: someChannels},
	{name: "punsubscribe", draw: func(t *rapid.T) []string { return several(t, 0, 3, someChannelPattern) }},
	{name: "sunsubscribe", draw: someChannels},
	{name: "publish", draw: words(someChannel, someValue)},
	{name: "publish", draw: words(someChannel, someValue)},
	{name: "publish", draw: words(someChannel)},
	{name: "spublish", draw: words(someChannel, someValue)},
	{name: "pubsub channels", same: anyOrder, draw: func(t *rapid.T) []string { return several(t, 0, 2, someChannelPattern) }},
	{name: "pubsub shardchannels", same: anyOrder, draw: func(t *rapid.T) []string { return several(t, 0, 2, someChannelPattern) }},
	{name: "pubsub numsub", draw: someChannels},
	{name: "pubsub shardnumsub", draw: someChannels},
	{name: "pubsub numpat", draw: func(t *rapid.T) []string { return several(t, 0, 1, someChannel) }},
	{name: "pubsub help", same: sameType, draw: words()},
	{name: "pubsub", draw: func(t *rapid.T) []string { return several(t, 0, 1, oneOf("x")) }},
	{name: "reset", draw: words()},
	{name: "ping", draw: func(t *rapid.T) []string { return several(t, 0, 2, someValue) }},
	{name: "get", draw: words(someKey)},
	{name: "set", draw: words(someKey, someValue)},
	{name: "nosuch", draw: words(someKey)},
	{name: "hello", same: sameFailure, draw: words(oneOf("2", "3"))},
	{name: "select", draw: words(oneOf("0"))},
}

var (
	someChannel        = oneOf("c", "d", "cc", "")
	someChannelPattern = oneOf("c", "c*", "?", "*", "[cd]", "")
)

func someChannels(t *rapid.T) []string { return several(t, 0, 3, someChannel) }

// TestPubSub compares what several clients receive of each other's messages with redis-server.
func TestPubSub(t *testing.T) { compareConversations(t, pubSubExamples) }

// TestMessagesToOneselfFollowTheReply is as Redis 7.2 has it: earlier ones put them before the reply, and into
// that of EXEC.
func TestMessagesToOneselfFollowTheReply(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.run(c, "HELLO 3")
	r.expect(c, "SUBSCRIBE c", push3{"subscribe", "c", int64(1)})
	message := func(text string) {
		t.Helper()
		got, ok := r.received(c).(push3)
		if !ok || len(got) != 3 || got[2] != text {
			t.Errorf("%v, want the message %s", got, text)
		}
	}
	r.expect(c, "PUBLISH c a", int64(1))
	message("a")
	r.expect(c, "MULTI", simple("OK"))
	r.expect(c, "PUBLISH c b", simple("QUEUED"))
	r.expect(c, "PUBLISH c d", simple("QUEUED"))
	r.expect(c, "EXEC", []any{int64(1), int64(1)})
	message("b")
	message("d")
	r.expect(c, "EVAL return(redis.call('publish','c','e')) 0", int64(1))
	message("e")
	r.run(c, "CLIENT REPLY SKIP")
	r.store.execute(c, []string{"PUBLISH", "c", "f"})
	c.flush()
	message("f")
}
