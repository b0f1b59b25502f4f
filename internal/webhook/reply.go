package webhook

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// reply is what a destination answers: its head, and the body, which must be closed.
type reply struct {
	status  int
	headers []field
	body    io.ReadCloser
}

func replyOf(resp *http.Response) reply {
	return reply{resp.StatusCode, flatten(resp.Header), resp.Body}
}

// plainHead is the head of a reply of the usual kind.
type plainHead struct {
	status  int
	headers []field
	length  int64 // of the body
	size    int   // of the head itself
}

// readPlain understands a head that lies in memory whole, and says nothing but a status, the length of the body, and headers of ASCII that
// are none of HTTP's business. Everything else is left to net/http, which takes three times as long for what is nearly always the same.
func readPlain(b []byte) (h plainHead, plain bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	first, rest, _ := bytes.Cut(b[:max(0, end+2)], []byte("\r\n"))
	if h.status = plainStatus(first); h.status == 0 {
		return h, false
	}
	var text strings.Builder // of all headers, which are cut from it
	text.Grow(len(rest))
	h.headers, h.size, h.length = make([]field, 0, bytes.Count(rest, []byte("\r\n"))), end+4, -1
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if value = bytes.Trim(value, " \t"); !found || len(name) == 0 || !isASCII(value) {
			return h, false
		}
		from := text.Len()
		for _, c := range name {
			if c = lowerToken[c]; c == 0 {
				return h, false
			}
			text.WriteByte(c)
		}
		text.Write(value)
		all := text.String()
		f := field{all[from : from+len(name)], all[from+len(name):]}
		switch f.name {
		case "content-length":
			if h.length = plainLength(f.value); h.length < 0 {
				return h, false
			}
		case "connection", "transfer-encoding", "trailer", "pragma":
			return h, false
		}
		h.headers = append(h.headers, f)
	}
	slices.SortFunc(h.headers, field.compare)
	for i := 1; i < len(h.headers); i++ {
		if sameName(h.headers[i-1], h.headers[i]) {
			return h, false
		}
	}
	return h, h.length >= 0
}

// plainStatus reads a first line, if an answer with a body follows; else it is 0.
func plainStatus(line []byte) int {
	const before = "HTTP/1.1 "
	if len(line) < len(before)+4 || string(line[:len(before)]) != before || line[len(before)+3] != ' ' || !isASCII(line) {
		return 0
	}
	status, err := strconv.Atoi(string(line[len(before) : len(before)+3]))
	if err != nil || status < 200 || status == http.StatusNoContent || status == http.StatusNotModified {
		return 0
	}
	return status
}

// plainLength reads a length of digits alone; else it is negative.
func plainLength(text string) int64 {
	if text == "" || len(text) > 15 || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	n, _ := strconv.ParseInt(text, 10, 64) // it is a number
	return n
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// plainBody is a body of a given length.
type plainBody struct {
	from io.Reader
	left int64
}

func (b *plainBody) Read(to []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.from.Read(to[:min(int64(len(to)), b.left)])
	if b.left -= int64(n); err == io.EOF && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *plainBody) Close() error { return nil }
