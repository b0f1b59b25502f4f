package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// pageSize is the limit that iterators put on each page unless told otherwise. The server omits large
// values from pages of more than 8 MiB, and with this limit pages of receipts stay below that.
const pageSize = "100"

// pages returns an iterator over a list's items that follows the next links.
func pages[T any](ctx context.Context, c *Client, r request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		r := r
		r.query = maps.Clone(r.query)
		if r.query["limit"] == nil {
			r.query["limit"] = []string{pageSize}
		}
		for r.query != nil {
			res, err := c.send(ctx, r)
			items, err := decode[[]T](res, err)
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if r.query, err = nextQuery(res); err != nil {
				yield(zero, err)
				return
			}
		}
	}
}

// nextQuery returns the next page's query, or nil after the last page. It ignores the rest of the link,
// so that we send the key to no other server.
func nextQuery(res *Response) (query, error) {
	for link := range strings.SplitSeq(strings.Join(res.Header.Values("Link"), ","), ",") {
		target, rel, _ := strings.Cut(link, ";")
		if strings.TrimSpace(rel) != `rel="next"` {
			continue
		}
		u, err := url.Parse(strings.Trim(strings.TrimSpace(target), "<>"))
		if err != nil || u.RawQuery == "" {
			return nil, errors.New("the server's link to the next page is malformed")
		}
		return query(u.Query()), nil
	}
	return nil, nil
}

// Items returns an iterator over the items in any list whose pages have next links. The path may have a
// query.
func Items[T any](ctx context.Context, c *Client, path string) iter.Seq2[T, error] {
	path, rawQuery, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return func(yield func(T, error) bool) {
			var zero T
			yield(zero, err)
		}
	}
	return pages[T](ctx, c, request{method: http.MethodGet, path: path, query: query(values)})
}

// AllObjects lists the objects in a bucket whose keys have a prefix, in byte order, from all pages.
func (c *Client) AllObjects(ctx context.Context, bucket, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		params := &ListObjectsParams{Prefix: prefix, Limit: 1000}
		for {
			page, err := c.ListObjects(ctx, bucket, params)
			if err != nil {
				yield(Object{}, err)
				return
			}
			for _, object := range page.Objects {
				if !yield(object, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			params.Cursor = *page.Next
		}
	}
}
