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

// permitted are the commands that a user may call. They touch only the keys and channels that they
// name, which the server compares with the user's prefix, or the connection itself. Everything else
// is refused: what sees or changes other keys, users, connections, scripts or the server. A command
// of a later version is refused until it is listed; those that a server does not have are skipped.
//
// Left out on purpose, although they are in no dangerous category: SCAN, RANDOMKEY and DBSIZE,
// which see all keys; COPY, MOVE and SWAPDB, which reach other databases; CLIENT TRACKING, whose
// broadcasts name the keys of others; CLIENT UNBLOCK; PUBSUB; FUNCTION and FCALL, whose libraries
// are shared; WAIT.
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

// firstDatabase permits SELECT 0, which some clients send, and no other database.
const firstDatabase = "+select|0"

// prefix returns what every key and channel of a store begins with.
func prefix(id string) string { return id + ":" }

// rules returns the rules of a store's user, which replace those that the user has. The password is
// given as its hash.
func rules(p *resource.Provisioned, commands []string) []string {
	hash := sha256.Sum256([]byte(p.Password))
	rules := []string{
		"reset", "on", "#" + hex.EncodeToString(hash[:]), "~" + prefix(p.ID) + "*", "resetchannels", "&" + prefix(p.ID) + "*", "-@all",
	}
	for _, command := range commands {
		rules = append(rules, "+"+command)
	}
	return append(rules, firstDatabase)
}

// commands returns the permitted commands that the server has.
func (e *Engine) commands(ctx context.Context) ([]string, error) {
	has, err := e.known(ctx)
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, command := range strings.Fields(permitted) {
		if has(command) {
			commands = append(commands, command)
		}
	}
	return commands, nil
}

// known returns a function that reports whether the server has a command.
func (e *Engine) known(ctx context.Context) (func(command string) bool, error) {
	list, err := e.admin.Do(ctx, "COMMAND", "LIST").StringSlice()
	var refused redis.Error
	if errors.As(err, &refused) {
		return e.knownBefore7(ctx)
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

// knownBefore7 is known for Redis 6.2, which lists no subcommands and accepts any.
func (e *Engine) knownBefore7(ctx context.Context) (func(command string) bool, error) {
	infos, err := e.admin.Command(ctx).Result()
	if err != nil {
		return nil, err
	}
	return func(command string) bool {
		name, _, _ := strings.Cut(command, "|")
		return infos[name] != nil
	}, nil
}
