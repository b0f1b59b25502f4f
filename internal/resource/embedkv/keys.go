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

// Keys returns a page of the keys of a store, by key.
func (e *Engine) Keys(_ context.Context, p *resource.Provisioned, q resource.KeyQuery) (resource.Keys, error) {
	if err := e.mine(p); err != nil {
		return resource.Keys{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return resource.Keys{}, errs.InvalidField("query.cursor", "must be the next of another page")
	}
	page := resource.Keys{Keys: []resource.Key{}}
	j := job{done: make(chan struct{}, 1), run: func(s *store) {
		page, err = s.keys(q, string(after), time.Now().UnixMilli())
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

// keysOnly and keysWithValues select a page of keys. A string has its value and no length.
const (
	keysOnly = `select key, type, etime from rkey
		where key >= ?1 and key < ?2 and (etime is null or etime > ?3) order by key limit ?4`
	keysWithValues = `select key, type, etime, coalesce(length(value), len), substr(value, 1, ?5)
		from rkey left join rstring on kid = id and type = 1
		where key >= ?1 and key < ?2 and (etime is null or etime > ?3) order by key limit ?4`
)

// keys returns the keys that come after another one and have not expired.
func (s *store) keys(q resource.KeyQuery, after string, now int64) (resource.Keys, error) {
	s.start()
	defer s.stop()
	text := keysOnly
	if q.Values {
		text = keysWithValues
	}
	stmt, err := s.conn.db.Prepare(text)
	if err != nil {
		return resource.Keys{}, err
	}
	defer func() { _ = stmt.Reset() }()
	stmt.BindText(1, q.Prefix)
	if after != "" {
		stmt.BindText(1, max(q.Prefix, after+"\x00"))
	}
	stmt.BindZeroBlob(2, 0) // after all texts
	if end := prefixEnd(q.Prefix); end != "" {
		stmt.BindText(2, end)
	}
	stmt.BindInt64(3, now)
	stmt.BindInt64(4, int64(max(q.Limit, 1))+1)
	if q.Values {
		stmt.BindInt64(5, resource.MaxPreview)
	}
	return readKeys(stmt, now, q)
}

func readKeys(stmt *sqlite.Stmt, now int64, q resource.KeyQuery) (resource.Keys, error) {
	page := resource.Keys{Keys: []resource.Key{}}
	limit := max(q.Limit, 1)
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
		if q.Values {
			readValue(stmt, &key)
		}
		page.Keys = append(page.Keys, key)
	}
}

func readValue(stmt *sqlite.Stmt, key *resource.Key) {
	size := stmt.ColumnInt64(3)
	if key.Type != "string" {
		key.Size = &size
		return
	}
	first := make([]byte, stmt.ColumnLen(4))
	stmt.ColumnBytes(4, first)
	key.SetString(first, size)
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
