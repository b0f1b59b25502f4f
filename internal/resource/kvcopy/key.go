package kvcopy

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// key describes a key on a server.
type key struct {
	name    string
	kind    string
	expires int64 // milliseconds since 1970; -1 for never
	size    int64 // elements, or bytes for a string
	memory  int64 // bytes, roughly, that a copy takes
}

// expired reports whether the key may have expired by now.
func (k key) expired() bool { return k.expires >= 0 && k.expires <= time.Now().UnixMilli() }

// sizeCommands maps each type to the command that returns a value's size.
var sizeCommands = map[string]string{
	"string": "STRLEN", "list": "LLEN", "set": "SCARD", "hash": "HLEN", "zset": "ZCARD", "stream": "XLEN",
}

// describe describes keys on a server. It leaves out those that do not exist.
func describe(ctx context.Context, server redis.UniversalClient, prefix string, names []string) ([]key, error) {
	pipe := server.Pipeline()
	kinds := make([]*redis.StatusCmd, len(names))
	expires := make([]*redis.Cmd, len(names))
	memory := make([]*redis.IntCmd, len(names))
	for i, name := range names {
		kinds[i] = pipe.Type(ctx, prefix+name)
		expires[i] = pipe.Do(ctx, "PEXPIRETIME", prefix+name)
		memory[i] = pipe.MemoryUsage(ctx, prefix+name)
	}
	if err := run(ctx, pipe); err != nil {
		return nil, err
	}
	pipe = server.Pipeline()
	sizes := make([]*redis.Cmd, len(names))
	for i, name := range names {
		if command := sizeCommands[kinds[i].Val()]; command != "" {
			sizes[i] = pipe.Do(ctx, command, prefix+name)
		}
	}
	if err := run(ctx, pipe); err != nil {
		return nil, err
	}
	var found []key
	for i, name := range names {
		if kinds[i].Val() == "none" {
			continue
		}
		at, err := expires[i].Int64()
		if err != nil {
			return nil, err
		}
		k := key{name: name, kind: kinds[i].Val(), expires: at, memory: memory[i].Val()}
		if sizes[i] != nil {
			if k.size, err = sizes[i].Int64(); err != nil {
				return nil, err
			}
		}
		found = append(found, k)
	}
	return found, nil
}

// clockSkew is how far servers' clocks may differ. We do not compare keys that expire within it.
const clockSkew = time.Minute

// compareKeys returns an error if the keys differ between both sides.
func (c *Copier) compareKeys(ctx context.Context, found []key) error {
	names := make([]string, len(found))
	for i, k := range found {
		names[i] = k.name
	}
	copied, err := describe(ctx, c.To, c.Prefix, names)
	if err != nil {
		return fmt.Errorf("read keys that were written: %w", err)
	}
	there := map[string]key{}
	for _, k := range copied {
		there[k.name] = k
	}
	soon := time.Now().Add(clockSkew).UnixMilli()
	for _, k := range found {
		other := there[k.name]
		other.memory = k.memory
		if other != k && (k.expires < 0 || k.expires > soon) {
			return fmt.Errorf("key %q is not what was written", k.name)
		}
	}
	return nil
}
