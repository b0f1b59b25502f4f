// Package kvcopy copies a store's keys to another Redis server, with ordinary commands.
//
// It reads keys in batches: first their descriptions (key.go), then their values in pieces, so that large
// values take bounded memory (value.go, stream.go). It writes each piece, reads it back and compares it
// before the next one. In the end it compares each key's type, size and expiry on both sides.
package kvcopy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Limits for a batch. Key names are short enough that a server can receive all commands before we read
// its replies.
const (
	batchKeys   = 200
	batchNames  = 32 << 10
	batchMemory = 4 << 20
	// pieceBytes is a piece's approximate size, and pieceItems caps its elements.
	pieceBytes = 1 << 20
	pieceItems = 1000
)

// Copier copies a store. Do not change its fields after calling Run.
type Copier struct {
	// From has the keys. Nobody else may use it meanwhile.
	From redis.UniversalClient
	// To receives the keys, with Prefix before their names. It must not retry commands.
	To     redis.UniversalClient
	Prefix string
	// Report, if not nil, is called after each batch with the number of keys copied so far and, in the
	// second pass, compared so far.
	Report func(keys int64) error
}

// Run copies all keys, and returns their number. It returns an error if something cannot be copied or
// differs afterwards.
func (c *Copier) Run(ctx context.Context) (keys int64, err error) {
	if err := c.checkSettings(ctx); err != nil {
		return 0, err
	}
	if _, err := c.each(ctx, c.copyKeys); err != nil {
		return 0, err
	}
	return c.each(ctx, c.compareKeys)
}

// checkSettings returns an error if the store has functions or changed settings, since a user on a shared
// server may not have them.
func (c *Copier) checkSettings(ctx context.Context) error {
	libraries, err := c.From.FunctionList(ctx, redis.FunctionListQuery{}).Result()
	if err != nil {
		return fmt.Errorf("list functions: %w", err)
	}
	if len(libraries) > 0 {
		return errors.New("it has functions, which users of a shared server may not have")
	}
	settings, err := c.From.ConfigGet(ctx, "*").Result()
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	for name, value := range map[string]string{"maxmemory-policy": "noeviction", "notify-keyspace-events": ""} {
		if settings[name] != value {
			return fmt.Errorf("its setting %s is %s, which users of a shared server may not change", name, settings[name])
		}
	}
	return nil
}

// each calls do with batches of all keys, and returns their number.
func (c *Copier) each(ctx context.Context, do func(context.Context, []key) error) (keys int64, err error) {
	var cursor uint64
	for {
		names, next, err := c.From.Scan(ctx, cursor, "", batchKeys).Result()
		if err != nil {
			return keys, fmt.Errorf("list keys: %w", err)
		}
		for some := range batches(names, batchNames, func(name string) int64 { return int64(len(name)) }) {
			found, err := describe(ctx, c.From, "", some)
			if err != nil {
				return keys, fmt.Errorf("read keys: %w", err)
			}
			if err := do(ctx, found); err != nil {
				return keys, err
			}
			keys += int64(len(found))
			if c.Report == nil {
				continue
			}
			if err := c.Report(keys); err != nil {
				return keys, err
			}
		}
		if next == 0 {
			return keys, nil
		}
		cursor = next
	}
}

// batches splits a slice into parts. The sizes in a part add up to at most limit, unless it has only one
// element.
func batches[T any](all []T, limit int64, size func(T) int64) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		start, sum := 0, int64(0)
		for i, one := range all {
			n := size(one)
			if i > start && (sum+n > limit || i-start >= batchKeys) {
				if !yield(all[start:i]) {
					return
				}
				start, sum = i, 0
			}
			sum += n
		}
		if start < len(all) {
			yield(all[start:])
		}
	}
}

// copyKeys copies keys with their values and expiry.
func (c *Copier) copyKeys(ctx context.Context, found []key) error {
	for some := range batches(found, batchMemory, func(k key) int64 { return k.memory }) {
		if err := c.copyBatch(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// copyBatch copies keys that together take little memory, or a single key.
func (c *Copier) copyBatch(ctx context.Context, batch []key) error {
	values := make([]value, len(batch))
	pipe := c.To.Pipeline()
	for i, k := range batch {
		if values[i] = newValue(k, c.Prefix); values[i] == nil {
			return fmt.Errorf("key %q is of the type %s, which cannot be copied", k.name, k.kind)
		}
		pipe.Unlink(ctx, c.Prefix+k.name)
	}
	if err := run(ctx, pipe); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	for left := slices.Clone(values); len(left) > 0; {
		if err := c.copyPieces(ctx, left); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, value.done)
	}
	pipe = c.To.Pipeline()
	for _, k := range batch {
		if k.kind == "stream" {
			if err := c.copyStreamState(ctx, k); err != nil && !k.expired() {
				return fmt.Errorf("copy the state of stream %q: %w", k.name, err)
			}
		}
		if k.expires >= 0 {
			pipe.Do(ctx, "PEXPIREAT", c.Prefix+k.name, k.expires)
		}
	}
	if err := run(ctx, pipe); err != nil {
		return fmt.Errorf("set expiry: %w", err)
	}
	return nil
}

// copyPieces copies each value's next piece, and compares it.
func (c *Copier) copyPieces(ctx context.Context, values []value) error {
	if err := c.readPieces(ctx, values); err != nil {
		return fmt.Errorf("read values: %w", err)
	}
	pipe := c.To.Pipeline()
	for _, v := range values {
		v.write(ctx, pipe)
	}
	if err := run(ctx, pipe); err != nil {
		return fmt.Errorf("write values: %w", err)
	}
	pipe = c.To.Pipeline()
	for _, v := range values {
		v.readBack(ctx, pipe)
	}
	if err := run(ctx, pipe); err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	for _, v := range values {
		if !v.same() {
			return fmt.Errorf("the value of key %q is not what was written", v.name())
		}
		v.advance()
	}
	return nil
}

// readPieces reads each value's next piece. If the server refuses so large a reply for a single value, it
// asks for less.
func (c *Copier) readPieces(ctx context.Context, values []value) error {
	for {
		pipe := c.From.Pipeline()
		for _, v := range values {
			v.read(ctx, pipe)
		}
		err := run(ctx, pipe)
		var refused redis.Error
		if !errors.As(err, &refused) || len(values) > 1 || !values[0].halve() {
			return err
		}
	}
}

// run executes a pipeline, and returns the first error. A missing value is not an error.
func run(ctx context.Context, pipe redis.Pipeliner) error {
	if pipe.Len() == 0 {
		return nil
	}
	commands, err := pipe.Exec(ctx)
	if err == nil || !errors.Is(err, redis.Nil) {
		return err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}
