// Package page owns the parts that all lists and all updates share in their requests and responses.
//
// A list's input embeds Paging. Its store reads one row more than the limit and passes the rows to
// New, which returns a Page; package web writes that as a JSON array, with X-Total-Count and Link
// headers. An update's input embeds IfMatch, which we check against the row's ETag, and its body
// consists of Opt fields.
package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/decode"
	"steward/internal/encode"
	"steward/internal/errs"
)

// MaxLimit is the maximum number of items on a page.
const MaxLimit = 1000

// Paging is the part of a list's query that selects a page.
type Paging struct {
	Limit  int    `query:"limit" default:"100" minimum:"0" maximum:"1000" doc:"Maximum number of items to return"`
	Offset int    `query:"offset" default:"0" minimum:"0" doc:"Number of items to skip"`
	Cursor Cursor `query:"cursor" doc:"Cursor from the next link; as fast for the last page as for the first" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
}

// MaxSkipped is the largest offset for which we still read the rows before a page.
const MaxSkipped = 10_000

// IsDeep reports whether the page has too many rows before it to read them. Then its store skips
// them in an index and reads on after the last of them, as after a cursor.
func (p Paging) IsDeep() bool { return p.Cursor == "" && p.Offset > MaxSkipped }

// Cursor is a position in a list: the sort values of the row just before it. It is opaque to
// clients, and we check it when they send it back.
type Cursor string

// NewCursor returns the cursor after a row with the given sort values, each a string or an int64.
func NewCursor(values ...any) Cursor {
	text, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("page: cursor of %v: %v", values, err)) // strings and numbers can be encoded
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(text))
}

// Scan copies the sort values into dest, pointers to string or int64. It returns Invalid for another
// list's cursor.
func (c Cursor) Scan(dest ...any) error {
	if err := c.scan(dest); err != nil {
		return errs.InvalidField("query.cursor", "expected a cursor from the next link of this list")
	}
	return nil
}

func (c Cursor) scan(dest []any) error {
	text, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil {
		return err
	}
	var values []json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	if len(values) != len(dest) {
		return fmt.Errorf("%d values, want %d", len(values), len(dest))
	}
	for i, value := range values {
		if err := json.Unmarshal(value, dest[i]); err != nil {
			return err
		}
	}
	return nil
}

// Unknown is the Total of a list that is too expensive to count.
const Unknown = -1

// Page is a part of a list. Its JSON is the array of its items; headers carry everything else.
type Page[T any] struct {
	Items []T
	// Total is the number of items in the whole list, or Unknown.
	Total int64
	// Next is the cursor for the next page; it is empty on the last page.
	Next Cursor
	// Paging is the client's request.
	Paging Paging
}

// New returns a page. If there are more rows than the limit, the caller has read one extra, which
// tells New that a next page exists. cursor returns the cursor after a row.
func New[T any](rows []T, total int64, p Paging, cursor func(T) Cursor) Page[T] {
	page := Page[T]{Items: rows, Total: total, Paging: p}
	if len(rows) <= p.Limit {
		return page
	}
	page.Items = rows[:p.Limit]
	if p.Limit > 0 {
		page.Next = cursor(page.Items[p.Limit-1])
	}
	return page
}

// sample is the number of items from which AppendJSON estimates a page's size. Growing the buffer
// once saves the copies that append would make of a long page.
const sample = 16

// AppendJSON appends the array of items.
func (p Page[T]) AppendJSON(to []byte) ([]byte, error) {
	if len(p.Items) == 0 {
		return append(to, "[]"...), nil
	}
	if _, ok := any(&p.Items[0]).(encode.Appender); !ok {
		return encode.Value(to, p.Items)
	}
	to = append(to, '[')
	for i := range p.Items {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		to, err = any(&p.Items[i]).(encode.Appender).AppendJSON(to)
		if err != nil {
			return to, err
		}
		if i == sample {
			to = slices.Grow(to, min(len(to)/sample*(len(p.Items)-sample), MaxBytes))
		}
	}
	return append(to, ']'), nil
}

// MarshalJSON returns the array of items.
func (p Page[T]) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// Schema documents a page as an array.
func (Page[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[[]T](), true, "")
}

// SetHeaders sets X-Total-Count and Link for a list that was requested at path with query, which it
// changes.
func (p Page[T]) SetHeaders(h http.Header, path string, query url.Values) {
	if p.Total != Unknown {
		h.Set("X-Total-Count", strconv.FormatInt(p.Total, 10))
	}
	if links := p.links(path, query); len(links) > 0 {
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

// MaxBytes is one page's budget for large fields: payloads, user data, results, response bodies.
const MaxBytes = 8 << 20

// Budget counts the bytes in a page's large fields. The zero value is ready to use.
type Budget struct{ used int }

// Take reports whether the page is still below MaxBytes, and if so counts a field of n bytes. A row
// that gets false is listed without the field and with `<field>_omitted: true`, and so are all rows
// after it.
func (b *Budget) Take(n int) bool {
	if b.used >= MaxBytes {
		return false
	}
	b.used += n
	return true
}

// MaxCounted limits how many of a filter's matches we count; a longer list has the Total Unknown.
const MaxCounted = 10_000

const (
	countTTL  = time.Minute
	maxCounts = 10_000 // entries; a full cache is emptied
)

// CountCache remembers for a minute that a filter matches more than MaxCounted rows, which takes as
// long to find out as counting MaxCounted rows. Each filter needs its own text. Nothing invalidates
// an entry: we notice a minute later that a list has shrunk. The zero value is ready to use.
type CountCache struct {
	mu    sync.Mutex
	large map[string]time.Time // filter → until when
}

// IsLarge reports whether a filter is known to match more than MaxCounted rows.
func (c *CountCache) IsLarge(filter string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.large[filter])
}

// SetLarge remembers that a filter matches more than MaxCounted rows.
func (c *CountCache) SetLarge(filter string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large == nil || len(c.large) >= maxCounts {
		c.large = map[string]time.Time{}
	}
	c.large[filter] = now.Add(countTTL)
}

// ETag returns the strong entity tag for a row's version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// Versioned is implemented by values whose responses carry an ETag.
type Versioned interface{ ETag() string }

// Moving is implemented by Versioned values that may partly change while their version stays, such
// as the time of their last use. Their ETag is for If-Match only: If-None-Match does not get a 304.
type Moving interface {
	Versioned
	// MovesWithoutVersion does nothing.
	MovesWithoutVersion()
}

// IfMatch makes an update conditional; embed it in the update's input.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"Fail with 412 unless the resource has one of these ETags" example:"\"3\""`
}

// Check returns PreconditionFailed if the request has an If-Match header that does not name the
// row's ETag.
func (m IfMatch) Check(row Versioned) error {
	if m.IfMatch == "" || names(m.IfMatch, row.ETag()) {
		return nil
	}
	return errs.New(errs.PreconditionFailed, "the resource has changed since it was read")
}

// NoneMatch reports whether an If-None-Match header names the ETag: the client has the current
// version already. The weak form matches too, since a proxy that compresses a response weakens its
// ETag.
func NoneMatch(header, tag string) bool {
	return header != "" && (names(header, tag) || names(header, "W/"+tag))
}

// names reports whether a header, either `*` or a list of ETags, names a tag. Our own tags contain
// no commas.
func names(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for t := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(t) == tag {
			return true
		}
	}
	return false
}

// Opt is a field in a partial update, or a query parameter. It may be absent, null, or have a value.
type Opt[T any] struct {
	Sent  bool
	Null  bool
	Value T
}

// Some returns an Opt that was sent with a value.
func Some[T any](v T) Opt[T] { return Opt[T]{Sent: true, Value: v} }

// FromPtr returns an Opt that was sent with a value, or with null if value is nil.
func FromPtr[T any](value *T) Opt[T] {
	if value == nil {
		return Opt[T]{Sent: true, Null: true}
	}
	return Some(*value)
}

// UnmarshalJSON is called for fields that are present, including null.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	o.Sent = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return decode.JSON(b, &o.Value)
}

// Parameter is called for query parameters that are present, and returns the value to set.
func (o *Opt[T]) Parameter() reflect.Value {
	o.Sent = true
	return reflect.ValueOf(&o.Value).Elem()
}

// Schema documents the field as a T that may be null.
func (o Opt[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

// Ptr returns a pointer to the value, or nil if the field is absent or null.
func (o Opt[T]) Ptr() *T {
	if !o.Sent || o.Null {
		return nil
	}
	return &o.Value
}

// Set sets dst to the value unless the field is absent; null sets the zero value.
func (o Opt[T]) Set(dst *T) {
	if o.Sent {
		*dst = o.Value
	}
}

// SetPtr sets dst to Ptr unless the field is absent.
func (o Opt[T]) SetPtr(dst **T) {
	if o.Sent {
		*dst = o.Ptr()
	}
}
