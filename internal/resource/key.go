package resource

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// KeyQuery selects a page of a store's keys.
type KeyQuery struct {
	Prefix string
	// Cursor is the previous page's Next; empty for the first page.
	Cursor string
	Limit  int
	// Type selects keys whose values have this type; empty selects all.
	Type string
	// Values requests each value's beginning and size.
	Values bool
}

// Key is a key in a store.
type Key struct {
	_ struct{} `goName:"StoreKey"`

	Key string `json:"key" doc:"The key; if it is not UTF-8, what can be shown of it" example:"session:1"`
	// Base64 is set by the handler.
	Base64 string `json:"key_base64,omitempty" doc:"The key in base64, if it is not UTF-8 or has a character U+0000" example:"//4="`
	Type   string `json:"type" doc:"Type of the value as Redis names it" example:"string"`
	// TTL is in milliseconds.
	TTL *int64 `json:"ttl_ms,omitempty" doc:"Milliseconds until the key expires; absent if it does not" example:"60000"`
	// Value is a string, or a map with the bytes in base64.
	Value     any    `json:"value,omitempty" doc:"With values=true, the first 1,024 bytes of a string: text, or {\"base64\": …} if it is not UTF-8"`
	Truncated bool   `json:"truncated,omitempty" doc:"Whether the string is longer than shown"`
	Size      *int64 `json:"size,omitempty" doc:"With values=true, the number of bytes of a string, or of elements of another type" example:"31"`
}

// Keys is a page of keys.
type Keys struct {
	_ struct{} `goName:"StoreKeys"`

	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one" example:"1042"`
}

// MaxPreview caps how much of a string a list of keys shows, in bytes.
const MaxPreview = 1024

// SetString sets a string value, given its first MaxPreview bytes and its size.
func (k *Key) SetString(first []byte, size int64) {
	k.Size = &size
	k.Truncated = size > int64(len(first))
	if k.Truncated {
		first = first[:len(first)-partialRune(first)]
	}
	if utf8.Valid(first) {
		k.Value = string(first)
		return
	}
	k.Value = map[string]string{"base64": base64.StdEncoding.EncodeToString(first)}
}

// setBase64 sets Base64 if the key cannot be a query parameter as it is.
func (k *Key) setBase64() {
	if !utf8.ValidString(k.Key) || strings.Contains(k.Key, "\x00") {
		k.Base64 = base64.StdEncoding.EncodeToString([]byte(k.Key))
	}
}

// partialRune returns the length of an incomplete rune at the end of text.
func partialRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		end := text[len(text)-n:]
		if utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
