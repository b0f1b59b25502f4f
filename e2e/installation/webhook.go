package installation

import (
	"fmt"
	"net/url"
	"strings"
)

// Hook is a webhook. Its ingest path survives a restart. Its URL does not, because the process gets
// another port.
type Hook struct {
	ID, URL string
	Path    string `json:"-"`
}

// NewHook creates a webhook.
func (s *Steward) NewHook(name string) Hook {
	s.T.Helper()
	var h Hook
	s.Call("POST", "/webhook/create", map[string]any{"name": name}).Want(201).Decode(&h)
	u, err := url.Parse(h.URL)
	s.Must(err)
	h.Path = u.Path
	return h
}

// NewDestination creates a destination and returns its id and secret. Fields for its config come in
// pairs.
func (s *Steward) NewDestination(h Hook, to string, fields ...any) (id, secret string) {
	s.T.Helper()
	config := map[string]any{"url": to}
	for i := 0; i < len(fields); i += 2 {
		config[fields[i].(string)] = fields[i+1]
	}
	made := s.Call("POST", "/webhook/destination-create/"+h.ID, map[string]any{"type": "url", "config": config}).Want(201)
	return made.Text("id"), made.Text("secret")
}

// Ingest sends an event to a webhook and returns its receipt's id.
func (s *Steward) Ingest(h Hook, body string, headers ...string) string {
	s.T.Helper()
	r, err := s.Send("POST", h.Path, strings.NewReader(body), headers...)
	s.Must(err)
	return r.Want(200).Text("id")
}

// HeaderFields returns n header fields with different names.
func HeaderFields(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%04x:%s\r\n", i, value)
	}
	return b.String()
}

// RawEvent sends an event with these header fields, plus Host and Content-Length.
func (s *Steward) RawEvent(h Hook, fields string) (status int, body string) {
	s.T.Helper()
	return s.Raw("POST %s HTTP/1.1\r\nHost: example.com\r\nContent-Length: 2\r\n%s\r\nhi", h.Path, fields)
}
