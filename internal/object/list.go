package object

import (
	"strings"
	"unicode/utf8"
)

// ListRequest selects objects as S3 does.
type ListRequest struct {
	Prefix    string
	Delimiter string
	// After is the key or common prefix after which the list continues.
	After string
	Limit int
}

// ListPage is a part of a bucket's list, in byte order. Objects have neither Attributes nor
// references to their bytes: Open needs one of Get.
type ListPage struct {
	Objects  []Object
	Prefixes []string
	// Truncated reports whether more follows after Next.
	Truncated bool
	Next      string
}

// CountedPage is a part of a bucket's list with the exact number of all objects with the prefix.
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

// FolderPage is what stands directly below a prefix.
type FolderPage struct {
	Folders []Folder
	Objects []Object
	// Next is the key or prefix to continue after; "" on the last page.
	Next string
}

// keyRange are the keys from from on and before to.
type keyRange struct{ from, to string }

// afterAll sorts after every key: it is longer than the longest.
var afterAll = strings.Repeat(string(utf8.MaxRune), MaxKey/utf8.UTFMax+1)

// withPrefix returns the range of keys that begin with a prefix.
func withPrefix(prefix string) keyRange { return keyRange{prefix, prefixEnd(prefix)} }

// prefixEnd returns the first text after all texts with a prefix, in byte order, which for UTF-8 is
// that of code points: the prefix with its last character replaced by the next one.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue // the character before it
		case last == 0xD7FF:
			return prefix + "\uE000" // there are no surrogates in UTF-8
		}
		return prefix + string(last+1)
	}
	return afterAll
}

// commonPrefix returns the part of a key up to the first delimiter after the prefix.
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
