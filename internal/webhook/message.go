package webhook

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// message is a delivery as it is sent. A wire writes it by itself; net/http's transport gets it as a request.
type message struct {
	method, url string
	fields      []field // by their names in lower case
	body        []byte
}

// dropped tells whether a header of the original request is not passed on: those of its connection, and those that were meant for us alone.
func dropped(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
		"upgrade", "host", "content-length", "cookie", "authorization", "expect":
		return true
	}
	return false
}

// newMessage gives what an attempt sends at a time, in Unix seconds.
func newMessage(a Attempt, at int64) message {
	m := message{method: a.Receipt.Method, url: a.Destination.Config.URL, body: a.Body}
	received := storedHeaders(a.Receipt.headerText)
	m.fields = make([]field, 0, len(received)+len(a.Destination.Config.Headers)+6)
	hop := strings.ToLower(valueOf(received, "connection"))
	m.set("user-agent", "Steward/1") // unless the original has one
	for _, f := range received {
		if !dropped(f.name) && !listed(hop, f.name) && sendable(f.name, f.value) {
			m.set(f.name, f.value)
		}
	}
	for name, value := range a.Destination.Config.Headers {
		m.set(strings.ToLower(name), value)
	}
	timestamp := strconv.FormatInt(at, 10)
	m.set("webhook-id", a.Receipt.ID)
	m.set("webhook-timestamp", timestamp)
	m.set("webhook-signature", a.Signer.sign(a.Receipt.ID, timestamp, a.Body))
	m.set("steward-delivery", a.Delivery.ID)
	m.set("steward-attempt", strconv.Itoa(a.Delivery.Retries))
	return m
}

// set gives a header its value, in the place of an earlier one.
func (m *message) set(name, value string) {
	for i := range m.fields {
		if m.fields[i].name == name {
			m.fields[i].value = value
			return
		}
	}
	m.fields = append(m.fields, field{name, value})
}

// listed tells whether a Connection header names another header as its own.
func listed(connection, name string) bool {
	if connection == "" {
		return false
	}
	return slices.ContainsFunc(strings.Split(connection, ","), func(s string) bool { return strings.TrimSpace(s) == name })
}

// request is the message for net/http's transport.
func (m message) request(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, m.method, m.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	for _, f := range m.fields {
		req.Header.Set(f.name, f.value)
	}
	return req, nil
}

// simple tells whether write can write the message: a usual method, and a body that fits into the buffers of a connection, so that it can
// be written whole before anything is read.
func (m message) simple() bool {
	switch m.method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return len(m.body) <= smallBody
	}
	return false
}

// write is what Request.Write does, for messages that are simple.
func (m message) write(to *bufio.Writer, host, uri string) error {
	for _, text := range [...]string{m.method, " ", uri, " HTTP/1.1\r\nHost: ", host, "\r\n"} {
		to.WriteString(text) // an error stays until Flush
	}
	if len(m.body) > 0 || m.method == http.MethodPost || m.method == http.MethodPut || m.method == http.MethodPatch {
		to.WriteString("Content-Length: ")
		to.Write(strconv.AppendInt(to.AvailableBuffer(), int64(len(m.body)), 10))
		to.WriteString("\r\n")
	}
	for _, f := range m.fields {
		if f.name == "user-agent" && f.value == "" {
			continue // as net/http does it
		}
		writeName(to, f.name)
		to.WriteString(": ")
		to.WriteString(textproto.TrimString(f.value))
		to.WriteString("\r\n")
	}
	to.WriteString("\r\n")
	to.Write(m.body)
	return to.Flush()
}

// writeName writes the name of a header in its canonical form.
func writeName(to *bufio.Writer, name string) {
	first := true
	for i := range len(name) {
		c := name[i]
		if first && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		to.WriteByte(c)
		first = c == '-'
	}
}
