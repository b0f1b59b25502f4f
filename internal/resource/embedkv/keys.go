package embedkv

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"steward/internal/errs"
	"steward/internal/redis"
	"steward/internal/resource"
)

// cursorPrefix begins every cursor, so that a cursor is not empty even if its key is.
const cursorPrefix = "k"

// Keys returns a page of a store's keys, in order.
func (e *Engine) Keys(ctx context.Context, p *resource.Provisioned, q resource.KeyQuery) (resource.Keys, error) {
	if err := e.mine(p); err != nil {
		return resource.Keys{}, err
	}
	from, err := fromCursor(q.Cursor)
	if err != nil {
		return resource.Keys{}, errs.InvalidField("query.cursor", "must be the next of another page")
	}
	wanted := redis.PageQuery{
		Prefix: q.Prefix, From: from, Type: q.Type, Limit: max(q.Limit, 1), Preview: resource.MaxPreview,
	}
	for {
		found, err := e.page(p, wanted)
		if err == nil {
			return pageOf(found, q.Values), nil
		}
		if !errors.Is(err, redis.ErrClosed) || ctx.Err() != nil {
			return resource.Keys{}, errs.Unavailablef(err, "the key-value store cannot be read")
		}
	}
}

// page reads a page from a store. It returns redis.ErrClosed if the store was closed in the meantime.
func (e *Engine) page(p *resource.Provisioned, q redis.PageQuery) (redis.Page, error) {
	s, err := e.pool.get(p)
	if err != nil {
		return redis.Page{}, err
	}
	return s.Page(q)
}

// fromCursor returns the smallest key that can follow a cursor.
func fromCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", err
	}
	last, ok := strings.CutPrefix(string(text), cursorPrefix)
	if !ok {
		return "", errors.New("no cursor")
	}
	return last + "\x00", nil
}

func pageOf(found redis.Page, values bool) resource.Keys {
	page := resource.Keys{Keys: []resource.Key{}}
	for _, info := range found.Keys {
		key := resource.Key{Key: info.Key, Type: info.Type}
		if info.Expires >= 0 {
			key.TTL = &info.Expires
		}
		switch {
		case values && info.Type == "string":
			key.SetString(info.First, info.Size)
		case values:
			key.Size = &info.Size
		}
		page.Keys = append(page.Keys, key)
	}
	if found.More {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + found.Last))
	}
	return page
}
