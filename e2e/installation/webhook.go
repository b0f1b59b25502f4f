package installation

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"steward/internal/waittest"
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

// Replay is a replay as the API returns it.
type Replay struct {
	ID                  string
	WebhookID           string `json:"webhook_id"`
	State               string
	Total, Done, Failed int
	FinishedAt          *time.Time `json:"finished_at"`
}

// CreateReplay creates a replay of everything accepted so far. Fields come in pairs.
func (s *Steward) CreateReplay(h Hook, fields ...any) (r Replay) {
	s.T.Helper()
	body := map[string]any{"since": "2026-01-01T00:00:00Z"}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i].(string)] = fields[i+1]
	}
	s.Call("POST", "/webhook/replay/"+h.ID, body).Want(201).Decode(&r)
	return r
}

// Replayed returns a replay's present state.
func (s *Steward) Replayed(h Hook, id string) (r Replay) {
	s.T.Helper()
	s.Call("GET", "/webhook/replay/"+h.ID+"/"+id, nil).Want(200).Decode(&r)
	return r
}

// WaitReplay waits until a replay is done.
func (s *Steward) WaitReplay(h Hook, id string) (r Replay) {
	s.T.Helper()
	waittest.Until(s.T, "the end of "+id, func() (int, bool) {
		r = s.Replayed(h, id)
		return r.Done, r.State == "done"
	})
	return r
}
