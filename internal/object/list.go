package object

import (
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
)

// ListRequest selects objects as S3 does.
type ListRequest struct {
	Prefix    string
	Delimiter string
	// After is the key or common prefix to continue after.
	After string
	Limit int
}

// ListPage is one page of a bucket's objects, in byte order. They have neither Attributes nor blobs: call
// Get before you Open one.
type ListPage struct {
	Objects []Object
	Listed
}

// Listed is what pages of objects and pages of uploads have in common.
type Listed struct {
	Prefixes []string
	// Truncated reports whether more follows after Next.
	Truncated bool
	Next      string
}

// CountedPage is one page of a bucket's objects with the exact number of objects under the prefix.
type CountedPage struct {
	Objects []Object
	Total   int64
	More    bool
}

// Folder is a common prefix that ends with `/`.
type Folder struct {
	Prefix      string `json:"prefix" example:"2026/"`
	ObjectCount int64  `json:"object_count" doc:"Number of objects below this prefix" example:"1200"`
	TotalSize   int64  `json:"total_size" doc:"Their size in bytes" example:"57855600"`
}

// FolderPage lists the folders and objects directly below a prefix.
type FolderPage struct {
	Folders []Folder
	Objects []Object
	// Next is the key or prefix to continue after, or "" on the last page.
	Next string
}

// keyRange includes from and excludes to.
type keyRange struct{ from, to string }

// afterAll sorts after every key, because it is longer than the longest.
var afterAll = strings.Repeat(string(utf8.MaxRune), MaxKey/utf8.UTFMax+1)

// withPrefix returns the keys that begin with a prefix.
func withPrefix(prefix string) keyRange { return keyRange{prefix, prefixEnd(prefix)} }

// prefixEnd returns the first text that sorts after every text with the prefix. To get it, we replace the
// last character by the next one: in UTF-8, byte order and code point order agree.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue // increment the character before it
		case last == 0xD7FF:
			return prefix + "\uE000" // UTF-8 has no surrogates
		}
		return prefix + string(last+1)
	}
	return afterAll
}

// after returns the first possible key after another one. Keys have no U+0000.
func after(key string) string { return key + "\x01" }

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

// commonPrefix returns the start of a key, up to the first delimiter after the prefix.
func (r ListRequest) commonPrefix(key string) (string, bool) {
	if r.Delimiter == "" {
		return "", false
	}
	at := strings.Index(key[len(r.Prefix):], r.Delimiter)
	if at < 0 {
		return "", false
	}
	return key[:len(r.Prefix)+at+len(r.Delimiter)], true
}

// lister builds a page from keys in byte order.
type lister struct {
	Listed

	request ListRequest
	keys    keyRange // still to read
	entries int
	prefix  string // the last common prefix
}

func newLister(r ListRequest) (*lister, error) {
	if !isText(r.Prefix) || !isText(r.Delimiter) || !isText(r.After) {
		return nil, errs.InvalidField("prefix", "expected UTF-8 without U+0000")
	}
	return &lister{request: r, keys: r.keys()}, nil
}

// add adds a key, and moves keys to where the next one may be. It reports whether the key is an entry of its
// own, and not below a common prefix or beyond the page.
func (l *lister) add(key string) bool {
	prefix, ok := l.request.commonPrefix(key)
	if ok && prefix == l.prefix || l.Truncated {
		return false
	}
	if l.entries == l.request.Limit {
		l.Truncated = true
		return false
	}
	l.entries++
	if ok {
		l.prefix = prefix
		l.Prefixes = append(l.Prefixes, prefix)
		l.Next = prefix
		l.keys.from = prefixEnd(prefix)
		return false
	}
	l.Next = key
	l.keys.from = after(key)
	return true
}
