package kvcopy

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// value copies a value piece by piece. For each piece, its methods are called in this order.
type value interface {
	name() string
	// read adds the command that reads the next piece.
	read(ctx context.Context, pipe redis.Pipeliner)
	// write adds the commands that write the piece. A piece is empty if its key has expired meanwhile.
	write(ctx context.Context, pipe redis.Pipeliner)
	// readBack adds the command that reads the written piece, and same reports whether it is equal.
	readBack(ctx context.Context, pipe redis.Pipeliner)
	same() bool
	// advance moves to the next piece. done reports whether there is none.
	advance()
	done() bool
	// halve makes pieces smaller. It returns false if they cannot be any smaller.
	halve() bool
}

// position has the fields that all values share: the key on both sides, and our progress.
type position struct {
	key
	to    string
	count int64 // elements in the next piece
	at    int64 // elements copied so far
	end   bool
}

func (p *position) name() string { return p.key.name }
func (p *position) done() bool   { return p.end }

func (p *position) halve() bool {
	p.count /= 2
	return p.count > 0
}

// passed moves on by n elements. The value ends after its last element, or if a piece was empty.
func (p *position) passed(n int) {
	p.at += int64(n)
	p.end = n == 0 || p.at >= p.size
}

// newValue returns the copier for a key's value, or nil if we do not know its type.
func newValue(k key, prefix string) value {
	p := position{key: k, to: prefix + k.name, count: pieceItems}
	if k.memory > pieceBytes {
		p.count = min(max(k.size*pieceBytes/k.memory, 1), pieceItems)
	}
	switch k.kind {
	case "string":
		p.count = pieceBytes
		return &stringValue{position: p}
	case "list":
		return &list{position: p}
	case "set":
		return &set{scanned: scanned{position: p}}
	case "hash":
		return &hash{scanned: scanned{position: p}}
	case "zset":
		return &zset{position: p}
	case "stream":
		return &stream{position: p}
	}
	return nil
}

type stringValue struct {
	position
	piece, back *redis.StringCmd
}

func (v *stringValue) read(ctx context.Context, pipe redis.Pipeliner) {
	v.piece = pipe.GetRange(ctx, v.key.name, v.at, v.at+v.count-1)
}

func (v *stringValue) write(ctx context.Context, pipe redis.Pipeliner) {
	if v.at == 0 {
		pipe.Set(ctx, v.to, v.piece.Val(), 0)
		return
	}
	pipe.SetRange(ctx, v.to, v.at, v.piece.Val())
}

func (v *stringValue) readBack(ctx context.Context, pipe redis.Pipeliner) {
	v.back = pipe.GetRange(ctx, v.to, v.at, -1)
}

func (v *stringValue) same() bool { return v.back.Val() == v.piece.Val() }
func (v *stringValue) advance()   { v.passed(len(v.piece.Val())) }

type list struct {
	position
	piece, back *redis.StringSliceCmd
}

func (v *list) read(ctx context.Context, pipe redis.Pipeliner) {
	v.piece = pipe.LRange(ctx, v.key.name, v.at, v.at+v.count-1)
}

func (v *list) write(ctx context.Context, pipe redis.Pipeliner) {
	if len(v.piece.Val()) > 0 {
		pipe.RPush(ctx, v.to, v.piece.Val())
	}
}

func (v *list) readBack(ctx context.Context, pipe redis.Pipeliner) {
	v.back = pipe.LRange(ctx, v.to, v.at, -1)
}

func (v *list) same() bool { return slices.Equal(v.back.Val(), v.piece.Val()) }
func (v *list) advance()   { v.passed(len(v.piece.Val())) }

type zset struct {
	position
	piece, back *redis.ZSliceCmd
}

func (v *zset) read(ctx context.Context, pipe redis.Pipeliner) {
	v.piece = pipe.ZRangeWithScores(ctx, v.key.name, v.at, v.at+v.count-1)
}

func (v *zset) write(ctx context.Context, pipe redis.Pipeliner) {
	if len(v.piece.Val()) > 0 {
		pipe.ZAdd(ctx, v.to, v.piece.Val()...)
	}
}

func (v *zset) readBack(ctx context.Context, pipe redis.Pipeliner) {
	v.back = pipe.ZRangeWithScores(ctx, v.to, v.at, -1)
}

func (v *zset) same() bool { return slices.Equal(v.back.Val(), v.piece.Val()) }
func (v *zset) advance()   { v.passed(len(v.piece.Val())) }

// scanned is the position in a value whose elements have no order.
type scanned struct {
	position
	cursor uint64
	piece  *redis.ScanCmd
}

func (v *scanned) items() []string {
	items, _ := v.piece.Val()
	return items
}

func (v *scanned) advance() {
	_, v.cursor = v.piece.Val()
	v.end = v.cursor == 0
}

type set struct {
	scanned
	back *redis.BoolSliceCmd
}

func (v *set) read(ctx context.Context, pipe redis.Pipeliner) {
	v.piece = pipe.SScan(ctx, v.key.name, v.cursor, "", v.count)
}

func (v *set) write(ctx context.Context, pipe redis.Pipeliner) {
	if len(v.items()) > 0 {
		pipe.SAdd(ctx, v.to, arguments(v.items())...)
	}
}

func (v *set) readBack(ctx context.Context, pipe redis.Pipeliner) {
	v.back = nil
	if len(v.items()) > 0 {
		v.back = pipe.SMIsMember(ctx, v.to, arguments(v.items())...)
	}
}

func (v *set) same() bool { return v.back == nil || !slices.Contains(v.back.Val(), false) }

type hash struct {
	scanned
	back *redis.SliceCmd
}

func (v *hash) read(ctx context.Context, pipe redis.Pipeliner) {
	v.piece = pipe.HScan(ctx, v.key.name, v.cursor, "", v.count)
}

func (v *hash) write(ctx context.Context, pipe redis.Pipeliner) {
	if len(v.items()) > 0 {
		pipe.HSet(ctx, v.to, v.items())
	}
}

func (v *hash) readBack(ctx context.Context, pipe redis.Pipeliner) {
	v.back = nil
	var fields []string
	for i := 0; i < len(v.items()); i += 2 {
		fields = append(fields, v.items()[i])
	}
	if len(fields) > 0 {
		v.back = pipe.HMGet(ctx, v.to, fields...)
	}
}

func (v *hash) same() bool {
	if v.back == nil {
		return true
	}
	for i, there := range v.back.Val() {
		if there != v.items()[2*i+1] {
			return false
		}
	}
	return 2*len(v.back.Val()) == len(v.items())
}

// arguments converts strings for a command.
func arguments(all []string) []any {
	args := make([]any, len(all))
	for i, text := range all {
		args[i] = text
	}
	return args
}
