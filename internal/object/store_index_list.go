package object

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/internal/db"
	"steward/internal/errs"
)

const listColumns = `o.bucket_id, o.key, o.size, o.modified_at, o.tier, o.etag, COALESCE(o.content_type, ''), o.checksum`

// scanListed scans an object for a list. The only attribute it reads is the checksum's kind.
func scanListed(r db.Row) (o Object, err error) {
	var checksum *string
	err = r.Scan(&o.BucketID, &o.Key, &o.Size, &o.ModifiedAt, &o.Tier, &o.ETag, &o.ContentType, &checksum)
	if checksum != nil {
		o.Attributes.Checksum = checksumOf(*checksum)
	}
	return o, err
}

const listText = `SELECT ` + listColumns + ` FROM objects o WHERE o.bucket_id = @bucket_id AND o.key >= @from AND o.key < @to
	ORDER BY o.key LIMIT @limit OFFSET @offset`

// window selects limit objects from a range, beginning at offset.
type window struct {
	offset int64
	limit  int
}

func listRows(q db.Querier, b *Bucket, keys keyRange, w window) ([]Object, error) {
	rows, err := db.Collect(q, scanListed, listText,
		db.Args{"bucket_id": b.ID, "from": keys.from, "to": keys.to, "limit": w.limit, "offset": w.offset})
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	return rows, nil
}

// entriesText returns the statement that reads, in no particular order, the first key of each of the next
// entries: objects and common prefixes.
func entriesText(d db.Dialect) string {
	at := `instr(substr(first, @skip + 1), @delimiter)`
	if d == db.Postgres {
		at = `strpos(substr(first, @skip + 1), @delimiter)`
	}
	const next = `(SELECT key FROM objects WHERE bucket_id = @bucket_id AND key < @to AND key >= `
	return `WITH RECURSIVE entries (first, n) AS (
		SELECT ` + next + `@from ORDER BY key LIMIT 1), 1
		UNION ALL
		SELECT ` + next + `CASE ` + at + ` WHEN 0 THEN first || @after ELSE substr(first, 1, @skip + ` + at + ` - 1) || @end END
			ORDER BY key LIMIT 1), n + 1
		FROM entries WHERE first IS NOT NULL AND n < @limit)
	SELECT first FROM entries WHERE first IS NOT NULL`
}

// entryRows returns the first row of each of the next entries. It has only a key where it is below a common
// prefix.
func entryRows(q db.Querier, b *Bucket, l *lister, limit int) ([]Object, error) {
	keys, err := db.Collect(q, db.Value[string], entriesText(q.Dialect()), db.Args{
		"bucket_id": b.ID, "from": l.keys.from, "to": l.keys.to, "limit": limit,
		"skip": utf8.RuneCountInString(l.request.Prefix), "delimiter": l.request.Delimiter,
		"after": after(""), "end": prefixEnd(l.request.Delimiter),
	})
	if err != nil {
		return nil, fmt.Errorf("list entries: %w", err)
	}
	var own db.Bulk[rowKey]
	var rows []Object
	for _, key := range keys {
		if _, below := l.request.commonPrefix(key); below {
			rows = append(rows, Object{Key: key})
		} else {
			own = append(own, rowKey{b.ID, key})
		}
	}
	objects, err := db.CollectBulk(q, own, scanListed, `SELECT `+listColumns+` FROM {v}
		JOIN objects o ON o.bucket_id = v.bucket_id AND o.key = v.key`)
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	rows = append(rows, objects...)
	slices.SortFunc(rows, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return rows, nil
}

// List returns objects and common prefixes in byte order, as S3 does. It returns NotFound if the bucket is
// gone.
func (s *Index) List(ctx context.Context, b *Bucket, r ListRequest) (p ListPage, err error) {
	err = b.snapshot(ctx, s.DB, func(q db.Querier) error {
		p, err = list(q, b, r)
		return err
	})
	return p, err
}

// A list with a delimiter reads sampleRows first, to see how many of them are below common prefixes.
const sampleRows = 32

func list(q db.Querier, b *Bucket, r ListRequest) (p ListPage, err error) {
	l, err := newLister(r)
	if err != nil || r.Limit <= 0 {
		return p, err
	}
	limit := r.Limit + 1
	if r.Delimiter != "" {
		limit = min(limit, sampleRows)
	}
	for byEntry, more := false, true; more; {
		var rows []Object
		if byEntry {
			rows, err = entryRows(q, b, l, limit)
		} else {
			rows, err = listRows(q, b, l.keys, window{limit: limit})
		}
		if err != nil {
			return p, err
		}
		before := l.entries
		for _, o := range rows {
			if l.add(o.Key) {
				p.Objects = append(p.Objects, o)
			}
		}
		more = len(rows) == limit && !l.Truncated
		byEntry = l.entries-before < len(rows)/2
		limit = r.Limit - l.entries + 1
	}
	p.Listed = l.Listed
	return p, nil
}

// Page returns objects with a prefix by their position in byte order, and the exact number of all. It
// returns NotFound if the bucket is gone.
func (s *Index) Page(ctx context.Context, b *Bucket, prefix string, offset int64, limit int) (p CountedPage, err error) {
	if !isText(prefix) {
		return CountedPage{}, errs.InvalidField("query.prefix", "expected UTF-8 without U+0000")
	}
	err = b.snapshot(ctx, s.DB, func(q db.Querier) error {
		p, err = s.page(q, b, withPrefix(prefix), window{offset, limit})
		return err
	})
	return p, err
}

// PageAfter is like Page, but begins after a key.
func (s *Index) PageAfter(ctx context.Context, b *Bucket, prefix, key string, limit int) (p CountedPage, err error) {
	if !isText(prefix) || !isText(key) {
		return CountedPage{}, errs.InvalidField("query.prefix", "expected UTF-8 without U+0000")
	}
	keys := withPrefix(prefix)
	err = b.snapshot(ctx, s.DB, func(q db.Querier) error {
		if p.Total, err = countObjects(q, b, keys); err != nil {
			return err
		}
		keys.from = max(keys.from, after(key))
		p.Objects, err = listRows(q, b, keys, window{limit: limit + 1})
		return err
	})
	p.cut(limit)
	return p, err
}

func (s *Index) page(q db.Querier, b *Bucket, keys keyRange, w window) (p CountedPage, err error) {
	if p.Total, err = countObjects(q, b, keys); err != nil {
		return p, err
	}
	if w.offset >= p.Total || w.limit == 0 {
		return p, nil
	}
	from, skip, err := s.seek(q, b.ID, keys, w.offset)
	if err != nil {
		return p, err
	}
	p.Objects, err = listRows(q, b, keyRange{from, keys.to}, window{skip, w.limit + 1})
	p.cut(w.limit)
	return p, err
}

// cut drops the extra object that we read to find out whether more follow.
func (p *CountedPage) cut(limit int) {
	p.More = len(p.Objects) > limit
	if p.More {
		p.Objects = p.Objects[:limit]
	}
}

// countObjects counts the objects in a range that begins with a prefix.
func countObjects(q db.Querier, b *Bucket, keys keyRange) (int64, error) {
	if keys.from == "" {
		held, err := totals.Sum(q, b.OrgID, b.ID)
		if err != nil {
			return 0, err
		}
		return held[0], nil
	}
	sum, err := countRange(q, b.ID, keys)
	return sum.objects, err
}

// Folders returns the objects and folders directly below a prefix, from the first one after a given key or
// folder. Folders have the exact number and size of the objects below them. It returns NotFound if the
// bucket is gone.
func (s *Index) Folders(ctx context.Context, b *Bucket, prefix, after string, limit int) (p FolderPage, err error) {
	err = b.snapshot(ctx, s.DB, func(q db.Querier) error {
		listed, err := list(q, b, ListRequest{Prefix: prefix, Delimiter: "/", After: after, Limit: limit})
		if err != nil {
			return err
		}
		p = FolderPage{Objects: listed.Objects}
		if listed.Truncated {
			p.Next = listed.Next
		}
		for _, name := range listed.Prefixes {
			sum, err := countRange(q, b.ID, withPrefix(name))
			if err != nil {
				return err
			}
			p.Folders = append(p.Folders, Folder{Prefix: name, ObjectCount: sum.objects, TotalSize: sum.bytes})
		}
		return nil
	})
	return p, err
}
