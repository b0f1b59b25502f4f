package embedkv

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/errs"
	"steward/internal/resource"
)

// Keys returns a page of the keys of a store with a prefix, by key.
func (e *Engine) Keys(_ context.Context, p *resource.Provisioned, prefix, cursor string, limit int) (resource.Keys, error) {
	if err := e.mine(p); err != nil {
		return resource.Keys{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return resource.Keys{}, errs.InvalidField("query.cursor", "must be the next of another page")
	}
	page := resource.Keys{Keys: []resource.Key{}}
	j := job{done: make(chan struct{}, 1), run: func(s *store) {
		page, err = s.keys(prefix, string(after), max(limit, 1))
	}}
	if failed := e.pool.use(p.ID, func(s *store) error { return s.do(&j) }); failed != nil {
		return resource.Keys{}, errs.Unavailablef(failed, "the key-value store cannot be read")
	}
	if err != nil {
		return resource.Keys{}, fmt.Errorf("list keys: %w", err)
	}
	return page, nil
}

// keyTypes are the names of redka's types.
var keyTypes = [...]string{1: "string", 2: "list", 3: "set", 4: "hash", 5: "zset"}

// keys returns the keys that begin with prefix and come after another one.
func (s *store) keys(prefix, after string, limit int) (resource.Keys, error) {
	s.start()
	defer s.stop()
	stmt, err := s.conn.db.Prepare(`select key, type, etime from rkey
		where key >= ?1 and key < ?2 and (etime is null or etime > ?3)
		order by key limit ?4`)
	if err != nil {
		return resource.Keys{}, err
	}
	defer func() { _ = stmt.Reset() }()
	now := time.Now().UnixMilli()
	stmt.BindText(1, prefix)
	if after != "" {
		stmt.BindText(1, max(prefix, after+"\x00"))
	}
	stmt.BindZeroBlob(2, 0) // after all texts
	if end := prefixEnd(prefix); end != "" {
		stmt.BindText(2, end)
	}
	stmt.BindInt64(3, now)
	stmt.BindInt64(4, int64(limit)+1)
	return readKeys(stmt, now, limit)
}

func readKeys(stmt *sqlite.Stmt, now int64, limit int) (resource.Keys, error) {
	page := resource.Keys{Keys: []resource.Key{}}
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return page, err
		}
		if len(page.Keys) == limit {
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(page.Keys[limit-1].Key))
			return page, nil
		}
		key := resource.Key{Key: stmt.ColumnText(0), Type: keyTypes[stmt.ColumnInt(1)]}
		if !stmt.ColumnIsNull(2) {
			key.TTL = new(stmt.ColumnInt64(2) - now)
		}
		page.Keys = append(page.Keys, key)
	}
}

// prefixEnd returns the first text after all that begin with prefix, or "" if there is none.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
