package rediskv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// permitted lists the commands that a user may call. They touch only the connection, or keys and channels
// that they name, and the server compares those with the user's prefix. Commands that see or change
// anything else are refused: other keys, users, connections, scripts or the server. A new Redis version's
// commands stay refused until we list them, and we skip those that a server does not have.
//
// Some are left out on purpose, although they are in no dangerous category: SCAN, RANDOMKEY and DBSIZE, which
// see all keys; COPY, MOVE and SWAPDB, which reach other databases; CLIENT TRACKING, whose broadcasts name
// others' keys; CLIENT UNBLOCK; PUBSUB; FUNCTION and FCALL, whose libraries are shared; WAIT.
const permitted = `
append bitcount bitfield bitfield_ro bitop bitpos decr decrby get getbit getdel getex getrange getset
incr incrby incrbyfloat lcs mget mset msetnx psetex set setbit setex setnx setrange strlen substr
del dump exists expire expireat expiretime persist pexpire pexpireat pexpiretime pttl rename renamenx
touch ttl type unlink object|encoding object|freq object|help object|idletime object|refcount memory|usage
hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen hvals
hexpire hexpireat hexpiretime hgetdel hgetex hpersist hpexpire hpexpireat hpexpiretime hpttl hsetex httl
blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange
lrem lset ltrim rpop rpoplpush rpush rpushx
sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop
srandmember srem sscan sunion sunionstore
bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount
zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem
zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan
zscore zunion zunionstore
geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch
geosearchstore pfadd pfcount pfmerge
xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim
psubscribe publish punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe
discard exec multi unwatch watch
eval eval_ro evalsha evalsha_ro script|exists script|help script|load
acl|whoami auth client|getname client|help client|id client|info client|no-touch client|reply client|setinfo
client|setname command echo hello ping quit reset time
`

// permittedInfo is permitted unless the admin URL says otherwise. It reveals nothing about single keys
// and users, but how much of the whole server is in use. Many clients use it to ask for the version.
const permittedInfo = "info"

// permittedInCluster lists the commands that cluster clients need to find keys' nodes.
const permittedInCluster = `
asking readonly readwrite cluster|help cluster|info cluster|keyslot cluster|myid cluster|nodes cluster|shards cluster|slots
`

// firstDatabase permits SELECT 0, which some clients send, and no other database.
const firstDatabase = "+select|0"

// A store has two prefixes, and its keys and channels must begin with one of them. In a cluster, the
// tagged prefix puts all keys into one slot, so that one command can use several keys.
func prefix(id string) string       { return id + ":" }
func taggedPrefix(id string) string { return "{" + id + "}:" }

// prefix returns the prefix that we tell a store's clients.
func (e *Engine) prefix(id string) string {
	if e.address.form == cluster {
		return taggedPrefix(id)
	}
	return prefix(id)
}

// rules returns the rules for a store's user. They replace the user's old rules, and contain the
// password's hash.
func rules(p *resource.Provisioned, commands []string) []string {
	rules := []string{"reset", "on", "#" + passwordHash(p), "resetchannels", "-@all"}
	for _, own := range []string{prefix(p.ID), taggedPrefix(p.ID)} {
		rules = append(rules, "~"+own+"*", "&"+own+"*")
	}
	for _, command := range commands {
		rules = append(rules, "+"+command)
	}
	return append(rules, firstDatabase)
}

func passwordHash(p *resource.Provisioned) string {
	hash := sha256.Sum256([]byte(p.Password))
	return hex.EncodeToString(hash[:])
}

// commands returns the permitted commands that a server knows.
func (e *Engine) commands(ctx context.Context, server *redis.Client) ([]string, error) {
	has, err := known(ctx, server)
	if err != nil {
		return nil, err
	}
	wanted := permitted
	if e.address.info {
		wanted += permittedInfo
	}
	if e.address.form == cluster {
		wanted += permittedInCluster
	}
	var commands []string
	for _, command := range strings.Fields(wanted) {
		if has(command) {
			commands = append(commands, command)
		}
	}
	return commands, nil
}

// known returns a function that reports whether a server knows a command.
func known(ctx context.Context, server *redis.Client) (func(command string) bool, error) {
	list, err := server.Do(ctx, "COMMAND", "LIST").StringSlice()
	var refused redis.Error
	if errors.As(err, &refused) {
		return knownBefore7(ctx, server)
	}
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, name := range list {
		names[strings.ToLower(name)] = true
	}
	return func(command string) bool { return names[command] }, nil
}

// knownBefore7 replaces known for Redis 6.2, which lists no subcommands and accepts any.
func knownBefore7(ctx context.Context, server *redis.Client) (func(command string) bool, error) {
	infos, err := server.Command(ctx).Result()
	if err != nil {
		return nil, err
	}
	return func(command string) bool {
		name, _, _ := strings.Cut(command, "|")
		return infos[name] != nil
	}, nil
}
