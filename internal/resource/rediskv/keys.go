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
	// scanCount is how many keys of the server one SCAN looks at.
	scanCount = 1000
	// maxScans is how many SCANs one page may take. The keys of all stores are scanned, so that a page
	// of a small store may be incomplete, or even empty, before the last one.
	maxScans = 2000
)

// Keys returns a page of keys. Their prefix is with or without one of the store's own. Keys are shown
// with that, since clients use it.
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

// literal escapes the characters that are special in a glob pattern.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// keyFilter finds keys of a store.
type keyFilter struct {
	match    string   // glob pattern that matches all of them, and some others
	prefixes []string // one of which a key has
}

// ownKeys returns the filter for the keys of a store that begin with a prefix, which is with or without
// one of the store's own.
func ownKeys(id, begin string) keyFilter {
	own := []string{prefix(id), taggedPrefix(id)}
	for _, p := range own {
		if strings.HasPrefix(begin, p) {
			return keyFilter{match: literal(begin) + "*", prefixes: []string{begin}}
		}
	}
	return keyFilter{match: "*" + literal(id) + "*:" + literal(begin) + "*", prefixes: []string{own[0] + begin, own[1] + begin}}
}

// filter returns the keys that match, in the same array.
func (f keyFilter) filter(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		return !slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
}

// scanner collects a page of keys from one server after another. SCAN returns the keys after a cursor, and
// the same ones again for the same cursor, but not exactly as many as asked for: a batch that does not fit
// into the page is left to the next one, after asking for fewer.
type scanner struct {
	servers []*redis.Client
	own     keyFilter
	kind    string // type of the values, or "" for all
	limit   int
	server  int    // where the next batch is
	cursor  uint64 // where it begins there
	skip    int    // how many keys of that batch were on the page before
	done    bool
	keys    []string
	seen    map[string]bool // SCAN may return a key twice
}

// parse reads the cursor that next returned.
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

// next returns the cursor of the next page, or "" after the last one.
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

// run scans until the page is full and another key is known to follow, or until the end.
func (s *scanner) run(ctx context.Context) error {
	count := int64(scanCount)
	if s.skip > 0 {
		count = 1
	}
	s.done = s.server >= len(s.servers) // there were more
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

// scan returns the next batch, and where that after it begins.
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

// details returns keys with their types and times to live. Keys that are gone are left out.
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

// gone is what PTTL returns for a key that does not exist.
const gone = -2

// sizeCommands return the number of elements of a value, by type.
var sizeCommands = map[string]string{
	"string": "STRLEN", "list": "LLEN", "set": "SCARD", "hash": "HLEN", "zset": "ZCARD", "stream": "XLEN",
}

// values sets the values and sizes of keys. A key whose type is not known, or has changed meanwhile, has
// none.
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

// setValue sets value and size of a key from the answers to its commands, which are nil if there
// were none.
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
