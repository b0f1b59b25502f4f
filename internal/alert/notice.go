package alert

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

// Event is what a notice tells.
type Event string

// The events.
const (
	EventFiring    Event = "firing"
	EventRepeated  Event = "repeated" // still firing
	EventRecovered Event = "recovered"
	EventTest      Event = "test"
)

// NoticeState says how the sending of a notice went.
type NoticeState string

// The states of a notice. The worker moves pending ones on.
const (
	Pending NoticeState = "pending"
	Sent    NoticeState = "sent"   // the receiver accepted it, or it is in the queue of mail
	Failed  NoticeState = "failed" // given up
)

// Notice is a message about an alert.
type Notice struct {
	_ struct{} `goName:"AlertNotice"`

	ID    string      `json:"id" doc:"Repeated attempts to send it have the same id" example:"alrn_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Event Event       `json:"event" enum:"firing,repeated,recovered"`
	At    stamp.Time  `json:"at" format:"date-time"`
	State NoticeState `json:"state" enum:"pending,sent,failed" doc:"sent also means that a mail is in the queue"`
	Error string      `json:"error,omitempty" doc:"Why the last attempt to send it failed" example:"the destination answered 503"`
}

// message is a notice with all that it tells, as we store it until it is sent.
type message struct {
	ID      string     `json:"id"`
	Event   Event      `json:"event"`
	At      stamp.Time `json:"at"`
	AlertID string     `json:"alert_id"`
	OrgID   string     `json:"org_id"`
	Name    string     `json:"name"`
	Kind    Kind       `json:"kind"`
	// Began is since when the alert is firing, or was.
	Began   stamp.Time `json:"began"`
	Summary string     `json:"summary"`
}

// newMessage returns the message about an alert's event. before is the alert as it was.
func newMessage(event Event, before, after Alert, now time.Time) message {
	m := message{
		ID: id.At(id.AlertNotice, now), Event: event, At: stamp.Of(now), AlertID: after.ID, OrgID: after.orgID,
		Name: after.Name, Kind: after.Kind, Began: after.Since, Summary: after.Summary,
	}
	switch event {
	case EventRecovered:
		m.Began = before.Since
		m.Summary = before.Summary
	case EventTest:
		m.Summary = "This is a test. Nothing is wrong."
	}
	return m
}

func (m message) notice() Notice {
	return Notice{ID: m.ID, Event: m.Event, At: m.At, State: Pending}
}

// title and text say what a message tells, for people.
func (m message) title() string {
	word := map[Event]string{
		EventFiring: "Firing", EventRepeated: "Still firing", EventRecovered: "Recovered", EventTest: "Test",
	}[m.Event]
	return word + ": " + m.Name
}

func (m message) text() string {
	switch m.Event {
	case EventRepeated:
		return m.Summary + " The alert has been firing since " + moment(m.Began) + "."
	case EventRecovered:
		return fmt.Sprintf("The alert was firing since %s, for %s.", moment(m.Began), m.At.Sub(m.Began).Round(time.Minute))
	}
	return m.Summary
}

// moment formats a time for people.
func moment(at stamp.Time) string { return at.Std().Format("2 January 2006, 15:04 UTC") }

// payload is a message's form for webhooks.
type payload struct {
	Type      string     `json:"type"`
	Timestamp stamp.Time `json:"timestamp"`
	Data      struct {
		NoticeID string     `json:"notice_id"`
		AlertID  string     `json:"alert_id"`
		OrgID    string     `json:"organization_id"`
		Name     string     `json:"name"`
		Kind     Kind       `json:"kind"`
		Since    stamp.Time `json:"firing_since"`
		Summary  string     `json:"summary"`
	} `json:"data"`
}

// slackEscapes escapes the characters that control Slack's markup.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// sendTimeout bounds an attempt to send a message.
const sendTimeout = 10 * time.Second

// request returns the request that sends a message to a target with a URL.
func (m message) request(to Target) (send.Request, error) {
	var body any = map[string]string{"text": slackEscapes.Replace(m.title() + "\n" + m.text())}
	if to.Type == Webhook {
		p := payload{Type: "alert." + string(m.Event), Timestamp: m.At}
		p.Data.NoticeID = m.ID
		p.Data.AlertID = m.AlertID
		p.Data.OrgID = m.OrgID
		p.Data.Name = m.Name
		p.Data.Kind = m.Kind
		p.Data.Since = m.Began
		p.Data.Summary = m.Summary
		body = p
	}
	text, err := json.Marshal(body)
	if err != nil {
		return send.Request{}, fmt.Errorf("encode notice: %w", err)
	}
	return send.Request{
		Method: http.MethodPost, URL: to.URL, Body: text, Timeout: sendTimeout,
		Headers: map[string]string{"Content-Type": "application/json", "Webhook-Id": m.ID},
	}, nil
}
