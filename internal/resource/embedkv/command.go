package embedkv

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// redisVersion is the version of Redis whose replies clients may expect.
const redisVersion = "7.0.0"

// connectionCommand is a command that a session answers itself.
type connectionCommand struct {
	run func(s *session, args [][]byte)
	// anyone is whether clients that have not authenticated may use it, immediate whether it is not
	// queued between MULTI and EXEC.
	anyone, immediate bool
}

// connectionCommands are the commands that a session answers itself.
var connectionCommands = map[string]connectionCommand{
	"auth":    {run: (*session).auth, anyone: true},
	"hello":   {run: (*session).hello, anyone: true},
	"quit":    {run: (*session).quitCommand, anyone: true, immediate: true},
	"reset":   {run: (*session).reset, anyone: true, immediate: true},
	"client":  {run: (*session).client},
	"command": {run: (*session).command},
	"config":  {run: (*session).config},
	"info":    {run: (*session).info},
	"ping":    {run: (*session).ping},
	"echo":    {run: (*session).echo},
	"select":  {run: (*session).selectCommand},
	"multi":   {run: (*session).multi, immediate: true},
	"exec":    {run: (*session).exec, immediate: true},
	"discard": {run: (*session).discard, immediate: true},
}

// storeCommands are the commands that stores run. PING and ECHO are only between MULTI and EXEC.
var storeCommands = commandSet(`
	ping echo dbsize flushdb flushall lolwut
	del exists expire expireat keys persist pexpire pexpireat pttl randomkey rename renamenx scan ttl type unlink
	lindex linsert llen lpop lpush lrange lrem lset ltrim rpop rpoplpush rpush
	decr decrby get getset incr incrby incrbyfloat mget mset psetex set setex setnx strlen
	hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hscan hset hsetnx hvals
	sadd scard sdiff sdiffstore sinter sinterstore sismember smembers smove spop srandmember srem sscan sunion sunionstore
	zadd zcard zcount zincrby zinter zinterstore zrange zrangebyscore zrank zrem zremrangebyrank zremrangebyscore
	zrevrange zrevrangebyscore zrevrank zscan zscore zunion zunionstore`)

// adders are those of them that can make a store grow.
var adders = commandSet(`
	rename renamenx linsert lpush lset rpoplpush rpush decr decrby getset incr incrby incrbyfloat mset psetex set setex setnx
	hincrby hincrbyfloat hmset hset hsetnx sadd sdiffstore sinterstore smove sunionstore
	zadd zincrby zinterstore zunionstore`)

func commandSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}

func (s *session) wrongArgs() { s.out.WriteError("ERR wrong number of arguments") }

// auth is AUTH [username] password.
func (s *session) auth(args [][]byte) {
	var err error
	switch len(args) {
	case 1:
		err = s.login("default", string(args[0]))
	case 2:
		err = s.login(string(args[0]), string(args[1]))
	default:
		s.wrongArgs()
		return
	}
	if err != nil {
		s.out.WriteError(err.Error())
		return
	}
	s.out.WriteString("OK")
}

// hello is HELLO [protover [AUTH username password] [SETNAME clientname]].
func (s *session) hello(args [][]byte) {
	if len(args) > 0 && string(args[0]) != "2" {
		s.out.WriteError("NOPROTO unsupported protocol version")
		return
	}
	for i := 1; i < len(args); {
		option := strings.ToLower(string(args[i]))
		switch {
		case option == "auth" && i+2 < len(args):
			if err := s.login(string(args[i+1]), string(args[i+2])); err != nil {
				s.out.WriteError(err.Error())
				return
			}
			i += 3
		case option == "setname" && i+1 < len(args):
			s.name = string(args[i+1])
			i += 2
		default:
			s.out.WriteError(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", clip(args[i], maxEcho)))
			return
		}
	}
	s.greet()
}

// greet is the reply to HELLO.
func (s *session) greet() {
	if s.store == "" {
		s.out.WriteError("NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
			"HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP " +
			"protocol version at the same time")
		return
	}
	s.out.WriteArray(14)
	for _, text := range []string{"server", "redis", "version", redisVersion, "proto"} {
		s.out.WriteBulkString(text)
	}
	s.out.WriteInt(2)
	s.out.WriteBulkString("id")
	s.out.WriteInt64(s.id)
	for _, text := range []string{"mode", "standalone", "role", "master", "modules"} {
		s.out.WriteBulkString(text)
	}
	s.out.WriteArray(0)
}

func (s *session) quitCommand([][]byte) {
	s.quit = true
	s.out.WriteString("OK")
}

// reset makes the connection what it was at the beginning.
func (s *session) reset([][]byte) {
	s.queue = nil
	s.releaseMemory()
	s.forget()
	s.in.args = loginArgs
	s.in.bytes = loginBytes
	s.began = time.Now()
	s.name = ""
	s.out.WriteString("RESET")
}

// client is CLIENT with the subcommands that libraries send.
func (s *session) client(args [][]byte) {
	if len(args) == 0 {
		s.wrongArgs()
		return
	}
	switch sub := strings.ToLower(string(args[0])); sub {
	case "id":
		s.out.WriteInt64(s.id)
	case "getname":
		s.out.WriteBulkString(s.name)
	case "setname":
		if len(args) != 2 {
			s.wrongArgs()
			return
		}
		s.name = string(clip(args[1], maxEcho))
		s.out.WriteString("OK")
	case "setinfo", "no-evict", "no-touch":
		s.out.WriteString("OK")
	case "info", "list":
		s.out.WriteBulkString(fmt.Sprintf("id=%d addr=%s name=%s db=0 user=%s resp=2\n", s.id, s.net.RemoteAddr(), s.name, s.store))
	default:
		s.unknownSubcommand("CLIENT", args[0])
	}
}

func (s *session) unknownSubcommand(name string, sub []byte) {
	s.out.WriteError(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", clip(sub, maxEcho), name))
}

// command answers that nothing is known about commands, but how many stores run.
func (s *session) command(args [][]byte) {
	if len(args) == 1 && strings.EqualFold(string(args[0]), "count") {
		s.out.WriteInt(len(storeCommands))
		return
	}
	s.out.WriteArray(0)
}

// config is CONFIG GET, of what tools ask for.
func (s *session) config(args [][]byte) {
	if len(args) == 0 {
		s.wrongArgs()
		return
	}
	if !strings.EqualFold(string(args[0]), "get") {
		s.unknownSubcommand("CONFIG", args[0])
		return
	}
	settings := [][2]string{{"appendfsync", "always"}, {"appendonly", "yes"}, {"databases", "1"}, {"save", ""}}
	var found []string
	for _, setting := range settings {
		for _, pattern := range args[1:] {
			if ok, _ := path.Match(strings.ToLower(string(pattern)), setting[0]); ok {
				found = append(found, setting[:]...)
				break
			}
		}
	}
	s.out.WriteArray(len(found))
	for _, text := range found {
		s.out.WriteBulkString(text)
	}
}

// info is INFO, with what libraries read of it.
func (s *session) info([][]byte) {
	s.out.WriteBulkString("# Server\r\nredis_version:" + redisVersion + "\r\nredis_mode:standalone\r\nserver_name:steward\r\n" +
		"\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n" +
		"\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n" +
		"\r\n# Cluster\r\ncluster_enabled:0\r\n")
}

func (s *session) ping(args [][]byte) {
	switch len(args) {
	case 0:
		s.out.WriteString("PONG")
	case 1:
		s.out.WriteBulk(args[0])
	default:
		s.wrongArgs()
	}
}

func (s *session) echo(args [][]byte) {
	if len(args) != 1 {
		s.wrongArgs()
		return
	}
	s.out.WriteBulk(args[0])
}

// selectCommand is SELECT. A store has one database.
func (s *session) selectCommand(args [][]byte) {
	if len(args) != 1 {
		s.wrongArgs()
		return
	}
	n, err := strconv.Atoi(string(args[0]))
	switch {
	case err != nil:
		s.out.WriteError("ERR value is not an integer or out of range")
	case n != 0:
		s.out.WriteError("ERR DB index is out of range")
	default:
		s.out.WriteString("OK")
	}
}
