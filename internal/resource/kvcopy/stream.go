package kvcopy

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// stream copies a stream's entries. An entry has an id, and fields and values in order.
type stream struct {
	position
	last        string // id of the last copied entry
	piece, back *redis.Cmd
}

func (v *stream) read(ctx context.Context, pipe redis.Pipeliner) {
	v.piece = pipe.Do(ctx, "XRANGE", v.key.name, after(v.last), "+", "COUNT", v.count)
}

// after returns the start of a range after an id, or of the whole stream if id is empty.
func after(id string) string {
	if id == "" {
		return "-"
	}
	return "(" + id
}

func (v *stream) entries() []any {
	entries, _ := v.piece.Slice()
	return entries
}

func (v *stream) write(ctx context.Context, pipe redis.Pipeliner) {
	for _, e := range v.entries() {
		fields, _ := e.([]any)[1].([]any)
		pipe.Do(ctx, append([]any{"XADD", v.to, e.([]any)[0]}, fields...)...)
	}
}

func (v *stream) readBack(ctx context.Context, pipe redis.Pipeliner) {
	v.back = pipe.Do(ctx, "XRANGE", v.to, after(v.last), "+")
}

func (v *stream) same() bool { return reflect.DeepEqual(v.back.Val(), v.piece.Val()) }

func (v *stream) advance() {
	entries := v.entries()
	v.passed(len(entries))
	if len(entries) > 0 {
		v.last, _ = entries[len(entries)-1].([]any)[0].(string)
	}
}

// copyStreamState copies the rest of a stream: its groups, and counters for entries that are gone.
func (c *Copier) copyStreamState(ctx context.Context, k key) error {
	s := streamState{Copier: c, from: k.name, to: c.Prefix + k.name}
	info, err := pairs(c.From.Do(ctx, "XINFO", "STREAM", s.from))
	if err != nil {
		return err
	}
	if k.size == 0 { // no entry has created it
		if err := s.To.XGroupCreateMkStream(ctx, s.to, "kvcopy", "0").Err(); err != nil {
			return err
		}
		if err := s.To.XGroupDestroy(ctx, s.to, "kvcopy").Err(); err != nil {
			return err
		}
	}
	err = c.To.Do(ctx, "XSETID", s.to, info["last-generated-id"], "ENTRIESADDED", info["entries-added"],
		"MAXDELETEDID", info["max-deleted-entry-id"]).Err()
	if err != nil {
		return err
	}
	groups, err := all(c.From.Do(ctx, "XINFO", "GROUPS", s.from))
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := s.copyGroup(ctx, group); err != nil {
			return err
		}
	}
	return s.compare(ctx, info, groups)
}

// streamState copies a stream's state.
type streamState struct {
	*Copier
	from, to string
}

// copyGroup copies a group with its consumers and pending entries.
func (s streamState) copyGroup(ctx context.Context, group map[string]any) error {
	name := group["name"]
	create := []any{"XGROUP", "CREATE", s.to, name, group["last-delivered-id"]}
	if read := group["entries-read"]; read != nil {
		create = append(create, "ENTRIESREAD", read)
	}
	if err := s.To.Do(ctx, create...).Err(); err != nil {
		return err
	}
	consumers, err := all(s.From.Do(ctx, "XINFO", "CONSUMERS", s.from, name))
	if err != nil {
		return err
	}
	pipe := s.To.Pipeline()
	for _, consumer := range consumers {
		pipe.Do(ctx, "XGROUP", "CREATECONSUMER", s.to, name, consumer["name"])
	}
	if err := run(ctx, pipe); err != nil {
		return err
	}
	for last := ""; ; {
		now := time.Now().UnixMilli()
		pending, err := s.From.Do(ctx, "XPENDING", s.from, name, after(last), "+", pieceItems).Slice()
		if err != nil || len(pending) == 0 {
			return err
		}
		if err := s.copyPending(ctx, name, now, pending); err != nil {
			return err
		}
		last, _ = pending[len(pending)-1].([]any)[0].(string)
	}
}

// copyPending copies pending entries that were read at time now. Each has an id, a consumer, the
// milliseconds since its delivery, and the number of deliveries.
func (s streamState) copyPending(ctx context.Context, group any, now int64, pending []any) error {
	pipe := s.To.Pipeline()
	for _, one := range pending {
		e := one.([]any)
		idle, _ := e[2].(int64)
		pipe.Do(ctx, "XCLAIM", s.to, group, e[1], 0, e[0], "TIME", now-idle, "RETRYCOUNT", e[3], "FORCE", "JUSTID")
	}
	if err := run(ctx, pipe); err != nil {
		return err
	}
	first, last := pending[0].([]any)[0], pending[len(pending)-1].([]any)[0]
	copied, err := s.To.Do(ctx, "XPENDING", s.to, group, first, last, len(pending)+1).Slice()
	if err != nil {
		return err
	}
	if len(copied) != len(pending) {
		return fmt.Errorf("group %q has pending entries that were deleted", group)
	}
	for i := range pending {
		one, other := pending[i].([]any), copied[i].([]any)
		if one[0] != other[0] || one[1] != other[1] || one[3] != other[3] {
			return fmt.Errorf("group %q has other pending entries than were written", group)
		}
	}
	return nil
}

// compare returns an error if the copied state differs.
func (s streamState) compare(ctx context.Context, info map[string]any, groups []map[string]any) error {
	copied, err := pairs(s.To.Do(ctx, "XINFO", "STREAM", s.to))
	if err != nil {
		return err
	}
	for _, name := range []string{"length", "last-generated-id", "entries-added", "max-deleted-entry-id", "groups"} {
		if copied[name] != info[name] {
			return fmt.Errorf("its %s is not what was written", name)
		}
	}
	there, err := all(s.To.Do(ctx, "XINFO", "GROUPS", s.to))
	if err != nil {
		return err
	}
	for i := range groups {
		for _, name := range []string{"name", "consumers", "pending", "last-delivered-id", "entries-read"} {
			if i >= len(there) || there[i][name] != groups[i][name] {
				return fmt.Errorf("the %s of group %q is not what was written", name, groups[i]["name"])
			}
		}
	}
	return nil
}

// pairs returns a reply with names and values as a map.
func pairs(reply *redis.Cmd) (map[string]any, error) {
	fields, err := reply.Slice()
	if err != nil {
		return nil, err
	}
	return mapOf(fields), nil
}

// all returns a reply with lists of names and values as maps.
func all(reply *redis.Cmd) ([]map[string]any, error) {
	items, err := reply.Slice()
	if err != nil {
		return nil, err
	}
	maps := make([]map[string]any, len(items))
	for i, item := range items {
		fields, _ := item.([]any)
		maps[i] = mapOf(fields)
	}
	return maps, nil
}

func mapOf(fields []any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		m[name] = fields[i+1]
	}
	return m
}
