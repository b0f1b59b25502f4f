package installation

import (
	"time"

	"steward/internal/waittest"
)

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
