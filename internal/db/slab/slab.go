// Package slab keeps the texts of many rows in few pieces of memory: a page of rows has thousands of them, and to make each by itself costs
// more than to read it.
//
// A piece lives as long as anything that was cut from it. Pieces begin small and grow with what is read, so that a single row keeps hardly
// more than its own; whoever keeps one text of a long list for long should copy it.
package slab

import "unsafe"

const (
	leastBytes = 64
	mostBytes  = 32 << 10
	mostTexts  = 512
)

// Slab is for the rows of one statement, and for one goroutine. The zero value is ready.
type Slab struct {
	bytes []byte
	size  int // of the last piece
	texts []string
}

// Bytes gives a copy, never nil, that can be appended to without harm to others. What is large beside a piece gets memory of its own.
func (s *Slab) Bytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	if len(b) > cap(s.bytes)-len(s.bytes) {
		s.size = min(max(2*s.size, leastBytes), mostBytes)
		if len(b) > s.size/4 {
			return append([]byte(nil), b...)
		}
		s.bytes = make([]byte, 0, s.size)
	}
	from := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	return s.bytes[from:len(s.bytes):len(s.bytes)]
}

// Set makes a text of bytes. One that is equal already stays as it is: in a list, many a column says the same again and again.
func (s *Slab) Set(to *string, b []byte) {
	if *to != string(b) {
		*to = s.text(b)
	}
}

// SetOptional is Set for a text that may be nil. The one it points to is never changed.
func (s *Slab) SetOptional(to **string, b []byte) {
	if *to == nil || **to != string(b) {
		*to = s.Optional(b)
	}
}

// Optional gives a text.
func (s *Slab) Optional(b []byte) *string {
	if len(s.texts) == cap(s.texts) {
		s.texts = make([]string, 0, min(max(2*cap(s.texts), 1), mostTexts))
	}
	s.texts = append(s.texts, s.text(b))
	return &s.texts[len(s.texts)-1]
}

// text is safe since nobody else has these bytes, and a piece is only written to behind them.
func (s *Slab) text(b []byte) string {
	kept := s.Bytes(b)
	return unsafe.String(unsafe.SliceData(kept), len(kept))
}
