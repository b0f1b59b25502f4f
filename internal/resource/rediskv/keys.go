package rediskv

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
	"steward/internal/resource"
)

const (
	// scanCount is how many keys one SCAN examines.
	scanCount = 1000
	// maxScans caps the SCANs for one page. They go through all stores' keys, so a small store's page may
	// be incomplete, or even empty, before the last one.
	maxScans = 2000
)

// Keys returns a page of keys. The query's prefix may omit the store's own prefix. The keys in the page
// include it, since clients use it.
func (e *Engine) Keys(ctx context.Context, p *resource.Provisioned, q resource.KeyQuery) (resource.Keys, error) {
	s := &scanner{own: ownKeys(p.ID, q.Prefix), kind: q.Type, limit: q.Limit, seen: map[string]bool{}}
	if err := s.parse(q.Cursor); err != nil {
		return resource.Keys{}, err
	}
	page := resource.Keys{Keys: []resource.Key{}}
	err := e.do(ctx, "list keys", func(ctx context.Context) error {
		var err error
		if s.servers, err = e.masters(ctx); err != nil {
			return err
		}
		if err := s.run(ctx); err != nil {
			return err
		}
		page.Keys, err = e.details(ctx, s.keys)
		if err == nil && q.Values {
			err = e.values(ctx, page.Keys)
		}
		return err
	})
	page.Next = s.next()
	return page, err
}

// literal escapes the special characters in a glob pattern.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// keyFilter selects a store's keys.
type keyFilter struct {
	match    string   // glob pattern that matches all of them, and some others
	prefixes []string // a key must have one of these
}

// ownKeys returns the filter for a store's keys that begin with a prefix, given with or without the
// store's own.
func ownKeys(id, begin string) keyFilter {
	own := []string{prefix(id), taggedPrefix(id)}
	for _, p := range own {
		if strings.HasPrefix(begin, p) {
			return keyFilter{match: literal(begin) + "*", prefixes: []string{begin}}
		}
	}
	return keyFilter{match: "*" + literal(id) + "*:" + literal(begin) + "*", prefixes: []string{own[0] + begin, own[1] + begin}}
}

// filter returns the matching keys. It reuses the slice.
func (f keyFilter) filter(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		return !slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
}

// scanner collects a page of keys from one server after another. SCAN returns the keys after a cursor,
// and the same keys again for the same cursor, but not exactly as many as we ask for. If a batch does not
// fit into the page, the scanner asks for fewer, and finally leaves the batch to the next page.
type scanner struct {
	servers []*redis.Client
	own     keyFilter
	kind    string // the values' type, or "" for all
	limit   int
	server  int    // index of the server with the next batch
	cursor  uint64 // the batch's start on that server
	skip    int    // how many of its keys the previous page has shown
	done    bool
	keys    []string
	seen    map[string]bool // SCAN may return a key twice
}

// parse reads a cursor from next.
func (s *scanner) parse(cursor string) error {
	if cursor == "" {
		return nil
	}
	var err error
	server, rest, found := strings.Cut(cursor, "@")
	if !found {
		server, rest = "0", cursor
	}
	at, skip, _ := strings.Cut(rest, "-")
	if s.server, err = strconv.Atoi(server); err == nil {
		s.cursor, err = strconv.ParseUint(at, 10, 64)
	}
	if err == nil && skip != "" {
		s.skip, err = strconv.Atoi(skip)
	}
	if err != nil || s.skip < 0 || s.server < 0 {
		return errs.InvalidField("query.cursor", "expected a cursor that the page before returned")
	}
	return nil
}

// next returns the next page's cursor, or "" after the last page.
func (s *scanner) next() string {
	if s.done {
		return ""
	}
	cursor := strconv.FormatUint(s.cursor, 10)
	if s.skip > 0 {
		cursor += "-" + strconv.Itoa(s.skip)
	}
	if s.server > 0 {
		cursor = strconv.Itoa(s.server) + "@" + cursor
	}
	return cursor
}

// run scans to the end, or until the page is full and we know that another key follows.
func (s *scanner) run(ctx context.Context) error {
	count := int64(scanCount)
	if s.skip > 0 {
		count = 1
	}
	s.done = s.server >= len(s.servers) // some servers may have left
	for range maxScans {
		if s.done {
			return nil
		}
		found, next, err := s.scan(ctx, count)
		if err != nil {
			return err
		}
		batch := s.own.filter(found)
		free := s.limit - len(s.keys)
		switch {
		case len(batch) == 0 || s.skip == 0 && len(batch) <= free:
			s.take(batch)
			s.advance(next)
			count = min(2*count, scanCount)
		case free == 0:
			return nil
		case count > 1:
			count = min(count/2, int64(free))
		case len(s.keys) > 0 && s.skip == 0:
			return nil
		default:
			s.takePart(batch, next)
		}
	}
	return nil
}

// scan returns the next batch, and the start of the one after it.
func (s *scanner) scan(ctx context.Context, count int64) ([]string, uint64, error) {
	server := s.servers[s.server]
	if s.kind == "" {
		return server.Scan(ctx, s.cursor, s.own.match, count).Result()
	}
	return server.ScanType(ctx, s.cursor, s.own.match, count, s.kind).Result()
}

func (s *scanner) take(batch []string) {
	for _, key := range batch {
		if !s.seen[key] {
			s.seen[key] = true
			s.keys = append(s.keys, key)
		}
	}
}

// takePart takes as much of the smallest batch as the page has room for.
func (s *scanner) takePart(batch []string, next uint64) {
	rest := batch[min(s.skip, len(batch)):]
	free := s.limit - len(s.keys)
	if len(rest) <= free {
		s.take(rest)
		s.advance(next)
		return
	}
	s.take(rest[:free])
	s.skip += free
}

func (s *scanner) advance(next uint64) {
	s.cursor = next
	s.skip = 0
	if next == 0 {
		s.server++
		s.done = s.server == len(s.servers)
	}
}

// details returns the keys with their types and times to live. It leaves out keys that are gone.
func (e *Engine) details(ctx context.Context, names []string) ([]resource.Key, error) {
	keys := []resource.Key{}
	if len(names) == 0 {
		return keys, nil
	}
	pipe := e.admin.Pipeline()
	types := make([]*redis.StatusCmd, len(names))
	ttls := make([]*redis.Cmd, len(names))
	for i, name := range names {
		types[i] = pipe.Type(ctx, name)
		ttls[i] = pipe.Do(ctx, "PTTL", name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, name := range names {
		key := resource.Key{Key: name, Type: types[i].Val()}
		ttl, err := ttls[i].Int64()
		if err != nil {
			return nil, err
		}
		if ttl >= 0 {
			key.TTL = &ttl
		}
		if ttl != gone {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// gone is PTTL's reply for a key that does not exist.
const gone = -2

// sizeCommands maps each type to the command that returns a value's size.
var sizeCommands = map[string]string{
	"string": "STRLEN", "list": "LLEN", "set": "SCARD", "hash": "HLEN", "zset": "ZCARD", "stream": "XLEN",
}

// values sets the keys' values and sizes. It skips a key whose type is unknown, or has changed meanwhile.
func (e *Engine) values(ctx context.Context, keys []resource.Key) error {
	pipe := e.admin.Pipeline()
	sizes := make([]*redis.Cmd, len(keys))
	firsts := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		if command := sizeCommands[key.Type]; command != "" {
			sizes[i] = pipe.Do(ctx, command, key.Key)
		}
		if key.Type == "string" {
			firsts[i] = pipe.GetRange(ctx, key.Key, 0, resource.MaxPreview-1)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	for i := range keys {
		setValue(&keys[i], sizes[i], firsts[i])
	}
	return nil
}

// setValue sets a key's value and size from the replies. A reply is nil if its command was not sent.
func setValue(key *resource.Key, size *redis.Cmd, first *redis.StringCmd) {
	if size == nil {
		return
	}
	n, err := size.Int64()
	switch {
	case err != nil:
	case first == nil:
		key.Size = &n
	default:
		if text, err := first.Bytes(); err == nil {
			key.SetString(text, max(n, int64(len(text))))
		}
	}
}
