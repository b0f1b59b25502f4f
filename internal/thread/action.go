package thread

import (
	"context"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/decode"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/thread/state"
	"steward/internal/web"
)

// frame is a message that a runtime sends after its key.
type frame struct {
	ID            json.RawMessage `json:"id"`
	Action        string          `json:"action"`
	Authorization json.RawMessage `json:"authorization"`
	Data          frameData       `json:"data"`
}

// frameData is an action's data. For save and merge, a field that is not sent stays as it is,
// and null clears it.
type frameData struct {
	ThreadID   string             `json:"thread_id"`
	UserData   page.Opt[string]   `json:"user_data"`
	Metadata   page.Opt[Metadata] `json:"metadata"`
	Operations []state.Operation  `json:"operations"`
}

type response struct {
	ID      json.RawMessage `json:"id,omitempty"`
	Success bool            `json:"success"`
	Data    *string         `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// wrongForm is the error for JSON with another form, such as a user_data that is not text.
const wrongForm = `the frame does not have the form {"id", "action", "data": {"thread_id": "…", ` +
	`"user_data": "JSON as text", "metadata": {…}, "operations": […]}}`

// maxID is the longest id that is echoed.
const maxID = 256

type action struct {
	frame
	// wrongForm is true if the frame is JSON with another form.
	wrongForm bool
	// charge is the memory of the frame, of which it held as much when it was read.
	charge *budget.Charge
	held   int64
	// previous is closed when the preceding action on the same thread and socket is answered; it is
	// nil if there is none. done is closed when this action is.
	previous chan struct{}
	done     chan struct{}
}

// parseAction reads a frame. If it returns a status other than 0, the message is not a frame and
// the socket is closed with it.
func parseAction(kind websocket.MessageType, text []byte) (*action, websocket.StatusCode) {
	if kind != websocket.MessageText {
		return nil, websocket.StatusUnsupportedData
	}
	f, err := parseFrame(text)
	if errors.Is(err, errNotJSON) || !utf8.Valid(text) || len(f.ID) > maxID {
		return nil, websocket.StatusInvalidFramePayloadData
	}
	if f.ID == nil {
		f.ID = json.RawMessage(`""`)
	}
	return &action{frame: f, wrongForm: err != nil, done: make(chan struct{})}, 0
}

// parseFrame reads a frame. If the text has another form, it returns the error together with the
// frame's id, if there is one.
func parseFrame(text []byte) (frame, error) {
	if !json.Valid(text) {
		return frame{}, errNotJSON
	}
	var f frame
	if err := decode.JSON(text, &f); err != nil {
		return frame{ID: f.ID}, err
	}
	return f, nil
}

var errNotJSON = errors.New("not JSON")

// actions has the actions that a frame may name.
var actions = map[string]struct {
	permission auth.Permission
	saves      bool
	run        func(*Store, context.Context, *auth.Caller, frameData) (*string, error)
}{
	"save":    {auth.WriteThreads, true, (*Store).save},
	"merge":   {auth.WriteThreads, true, (*Store).merge},
	"restore": {auth.ReadThreads, false, (*Store).restore},
	"delete":  {auth.WriteThreads, false, (*Store).deleteIfExists},
}

// respond runs an action and returns its response. If it returns a status other than 0, the socket
// is to be closed with it.
func (s *Socket) respond(c *conn, a *action) (response, websocket.StatusCode) {
	if a.wrongForm {
		return response{ID: a.ID, Error: wrongForm}, 0
	}
	ctx, cancel := context.WithTimeout(c.ctx, actionTimeout)
	defer cancel()
	data, err := s.run(ctx, c.key, a.frame)
	if err == nil {
		return response{ID: a.ID, Success: true, Data: data}, 0
	}
	status := websocket.StatusCode(0)
	if errs.KindOf(err) == errs.Unauthorized {
		status = websocket.StatusPolicyViolation
	}
	return response{ID: a.ID, Error: visibleError(ctx, err)}, status
}

// run authenticates the key anew and runs an action. It returns Unauthorized, Forbidden, Invalid,
// or an error of Store.
func (s *Socket) run(ctx context.Context, key string, f frame) (*string, error) {
	caller, err := s.Authenticate(ctx, key)
	if err != nil {
		return nil, err
	}
	if f.Authorization != nil {
		return nil, errs.New(errs.Forbidden, "this socket has its key; open another one for another key")
	}
	action, known := actions[f.Action]
	if !known {
		return nil, errs.InvalidField("action", "expected save, merge, restore or delete")
	}
	if err := caller.Require(action.permission); err != nil {
		return nil, err
	}
	if err := checkID("data.thread_id", f.Data.ThreadID); err != nil {
		return nil, err
	}
	if action.saves {
		if err := s.Disk.Room(); err != nil {
			return nil, err
		}
	}
	return action.run(s.Store, auth.With(ctx, caller), caller, f.Data)
}

// visibleError returns the text that a client may see for an error.
func visibleError(ctx context.Context, err error) string {
	visible := *web.Visible(ctx, err)
	visible.Cause = nil
	return visible.Error()
}
