// Package page has the parts of a request and of a response that lists and conditional updates share: Paging and Cursor,
// Page, Opt, IfMatch and ETag. Stores and handlers use it; package web turns a Page into a body and headers.
package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/encode"
	"steward/internal/errs"
)

// MaxLimit is the most that one page may hold.
const MaxLimit = 1000

// Paging is the part of a list's query that all paged lists share.
type Paging struct {
	Limit  int    `query:"limit" default:"100" minimum:"0" maximum:"1000" doc:"How many to give at most"`
	Offset int    `query:"offset" default:"0" minimum:"0" doc:"How many to pass over"`
	Cursor Cursor `query:"cursor" doc:"Opaque place to go on from, as the next link gives it; pages in constant time at any depth"`
}

// Cursor is a place in a list: the sort values of the last row that was seen. It is opaque to callers and checked on return.
type Cursor string

// NewCursor makes a cursor from sort values (strings and int64s).
func NewCursor(values ...any) Cursor {
	text, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("cursor of %v: %v", values, err)) // only strings and numbers are given
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(text))
}

// Scan reads the sort values back into pointers to string or int64. A cursor that this list did not make is Invalid.
func (c Cursor) Scan(dest ...any) error {
	text, err := base64.RawURLEncoding.DecodeString(string(c))
	var parts []json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	if err == nil && len(parts) != len(dest) {
		err = fmt.Errorf("%d parts", len(parts))
	}
	for i := range dest {
		if err == nil {
			err = json.Unmarshal(parts[i], dest[i])
		}
	}
	if err != nil {
		return errs.Wrong("query.cursor", "expected a cursor from the next link of this list")
	}
	return nil
}

// Unknown is the Total of a list whose size is too dear to count exactly.
const Unknown = -1

// Page is a part of a list. It is sent as a plain array; the rest is told in headers.
type Page[T any] struct {
	Items []T
	// Total is the size of the whole list, or Unknown.
	Total int64
	// Next is where the next page starts; empty on the last page.
	Next Cursor
	// Paging is what was asked for.
	Paging Paging
}

// Room is for how many rows to make room, of a list with so many or an Unknown number, before they are read for New.
func (p Paging) Room(total int64) int {
	if total < 0 {
		return p.Limit + 1
	}
	return int(min(int64(p.Limit)+1, total))
}

// New makes a page of rows of which one more than asked for was read, to learn whether there are more. `at` gives a row's cursor.
func New[T any](rows []T, total int64, p Paging, at func(T) Cursor) Page[T] {
	page := Page[T]{Items: rows, Total: total, Paging: p}
	if len(rows) > p.Limit {
		page.Items = rows[:p.Limit]
		if p.Limit > 0 {
			page.Next = at(page.Items[p.Limit-1])
		}
	}
	return page
}

// AppendJSON writes the items alone.
func (p Page[T]) AppendJSON(to []byte) (_ []byte, err error) {
	if len(p.Items) == 0 {
		return append(to, "[]"...), nil
	}
	if _, own := any(&p.Items[0]).(encode.Appender); !own {
		return encode.Value(to, p.Items)
	}
	for i := range p.Items {
		to = append(to, "[,"[min(i, 1)])
		if to, err = any(&p.Items[i]).(encode.Appender).AppendJSON(to); err != nil {
			return to, err
		}
	}
	return append(to, ']'), nil
}

// MarshalJSON writes the items alone.
func (p Page[T]) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// Schema documents a page as an array.
func (Page[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[[]T](), true, "")
}

// SetHeaders sets X-Total-Count and Link for a list that was requested at path with query.
func (p Page[T]) SetHeaders(h http.Header, path string, query url.Values) {
	if p.Total != Unknown {
		h.Set("X-Total-Count", strconv.FormatInt(p.Total, 10))
	}
	links := p.links(path, query)
	if len(links) > 0 {
		h.Set("Link", strings.Join(links, ", "))
	}
}

func (p Page[T]) links(path string, query url.Values) []string {
	limit, offset := p.Paging.Limit, p.Paging.Offset
	if limit == 0 {
		return nil
	}
	link := func(rel, key, value string) string {
		query.Del("offset")
		query.Del("cursor")
		query.Set("limit", strconv.Itoa(limit))
		query.Set(key, value)
		return fmt.Sprintf(`<%s?%s>; rel="%s"`, path, query.Encode(), rel)
	}
	links := []string{link("first", "offset", "0")}
	if p.Paging.Cursor == "" && offset > 0 {
		links = append(links, link("prev", "offset", strconv.Itoa(max(0, offset-limit))))
	}
	if p.Next != "" {
		links = append(links, link("next", "cursor", string(p.Next)))
	}
	if p.Total > 0 {
		last := (p.Total - 1) / int64(limit) * int64(limit)
		links = append(links, link("last", "offset", strconv.FormatInt(last, 10)))
	}
	return links
}
