package object

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
)

const listColumns = `key, size, modified_at, tier, etag, content_type, checksum`

// scanListed scans an object for a list. The only attribute it reads is the checksum's kind.
func scanListed(r db.Row) (o Object, err error) {
	var contentType, checksum *string
	err = r.Scan(&o.Key, &o.Size, &o.ModifiedAt, &o.Tier, &o.ETag, &contentType, &checksum)
	if contentType != nil {
		o.ContentType = *contentType
	}
	if checksum != nil {
		o.Attributes.Checksum = checksumOf(*checksum)
	}
	return o, err
}

const listText = `SELECT ` + listColumns + ` FROM objects WHERE bucket_id = @bucket_id AND key >= @from AND key < @to
	ORDER BY key LIMIT @limit OFFSET @offset`

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
	for i := range rows {
		rows[i].BucketID = b.ID
	}
	return rows, nil
}

// List returns objects and common prefixes in byte order, as S3 does. It returns NotFound if the bucket is
// gone.
func (s *Index) List(ctx context.Context, b *Bucket, r ListRequest) (p ListPage, err error) {
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if err := exists(q, b); err != nil {
			return err
		}
		p, err = list(q, b, r)
		return err
	})
	return p, err
}

func list(q db.Querier, b *Bucket, r ListRequest) (ListPage, error) {
	if !isText(r.Prefix) || !isText(r.Delimiter) || !isText(r.After) {
		return ListPage{}, errs.InvalidField("prefix", "expected UTF-8 without U+0000")
	}
	l := &lister{request: r, keys: r.keys()}
	if r.Limit <= 0 {
		return l.page, nil
	}
	for chunk := r.Limit + 1; ; {
		rows, err := listRows(q, b, l.keys, window{limit: chunk})
		if err != nil {
			return ListPage{}, err
		}
		before := l.len()
		if l.add(rows) || len(rows) < chunk {
			return l.page, nil
		}
		// Where most rows are below common prefixes, short chunks that begin after each prefix read fewer
		// rows than long ones.
		chunk = min(max(2*(l.len()-before), 2), r.Limit-l.len()+1)
	}
}

// lister builds a page from rows in byte order.
type lister struct {
	request ListRequest
	keys    keyRange // still to read
	page    ListPage
	prefix  string // the last common prefix
}

func (l *lister) len() int { return len(l.page.Objects) + len(l.page.Prefixes) }

// add adds rows and moves keys to where the next rows begin. It reports whether the page is full and more
// follows.
func (l *lister) add(rows []Object) (truncated bool) {
	for _, o := range rows {
		prefix, ok := l.request.commonPrefix(o.Key)
		if ok && prefix == l.prefix {
			continue
		}
		if l.len() == l.request.Limit {
			l.page.Truncated = true
			return true
		}
		if ok {
			l.prefix = prefix
			l.page.Prefixes = append(l.page.Prefixes, prefix)
			l.page.Next = prefix
			l.keys.from = prefixEnd(prefix)
			continue
		}
		l.page.Objects = append(l.page.Objects, o)
		l.page.Next = o.Key
		l.keys.from = after(o.Key)
	}
	return false
}

// keys returns the range that a list reads. If After is a common prefix, it skips all keys below it.
func (r ListRequest) keys() keyRange {
	keys := withPrefix(r.Prefix)
	if r.After < r.Prefix {
		return keys
	}
	keys.from = max(keys.from, after(r.After))
	if strings.HasPrefix(r.After, r.Prefix) {
		if prefix, ok := r.commonPrefix(r.After); ok && prefix == r.After {
			keys.from = prefixEnd(prefix)
		}
	}
	return keys
}

// after returns the first possible key after another one. Keys have no U+0000.
func after(key string) string { return key + "\x01" }

// Page returns objects with a prefix by their position in byte order, and the exact number of all. It
// returns NotFound if the bucket is gone.
func (s *Index) Page(ctx context.Context, b *Bucket, prefix string, offset int64, limit int) (p CountedPage, err error) {
	if !isText(prefix) {
		return CountedPage{}, errs.InvalidField("query.prefix", "expected UTF-8 without U+0000")
	}
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if err := exists(q, b); err != nil {
			return err
		}
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
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if err := exists(q, b); err != nil {
			return err
		}
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
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if err := exists(q, b); err != nil {
			return err
		}
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
