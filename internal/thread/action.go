package thread

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

// frame is what a runtime sends after its key.
type frame struct {
	ID            json.RawMessage `json:"id"`
	Action        string          `json:"action"`
	Authorization json.RawMessage `json:"authorization"`
	Data          frameData       `json:"data"`
}

// frameData is what an action is done with. For save and merge, what is not sent stays as it is, and null clears.
type frameData struct {
	ThreadID   string             `json:"thread_id"`
	UserData   page.Opt[string]   `json:"user_data"`
	Metadata   page.Opt[Metadata] `json:"metadata"`
	Operations []Operation        `json:"operations"`
}

// answer is what a runtime gets back.
type answer struct {
	ID      json.RawMessage `json:"id,omitempty"`
	Success bool            `json:"success"`
	Data    *string         `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// appendJSON writes what encoding/json would.
func (a answer) appendJSON(to []byte) []byte {
	to = append(to, '{')
	if len(a.ID) > 0 {
		to = append(append(append(to, `"id":`...), a.ID...), ',')
	}
	to = strconv.AppendBool(append(to, `"success":`...), a.Success)
	if a.Data != nil {
		to = encode.String(append(to, `,"data":`...), *a.Data)
	}
	if a.Error != "" {
		to = encode.String(append(to, `,"error":`...), a.Error)
	}
	return append(to, '}')
}

// formText tells what a frame looks like to who sent JSON of another form, such as a user_data that is not text.
const formText = `the frame does not have the form {"id", "action", "data": {"thread_id": "…", "user_data": "JSON as text", ` +
	`"metadata": {…}, "operations": […]}}`

// maxID bounds what is echoed.
const maxID = 256

// action is a frame in hand.
type action struct {
	frame
	fault error // it has another form
	// before and after are closed when the action before, on the same thread and socket, is done, and when this one is.
	before, after chan struct{}
}

// newAction reads a frame. A status tells that it is none, and that the socket is to be closed with it.
func newAction(kind websocket.MessageType, text []byte) (*action, websocket.StatusCode) {
	if kind != websocket.MessageText {
		return nil, websocket.StatusUnsupportedData
	}
	f, err := parseFrame(text)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || !utf8.Valid(text) || len(f.ID) > maxID {
		return nil, websocket.StatusInvalidFramePayloadData
	}
	if f.ID == nil {
		f.ID = json.RawMessage(`""`)
	}
	return &action{frame: f, fault: err}, 0
}

// admit waits for the key and answers it. It gives false when the socket is over.
func (s *Socket) admit(l *link) bool {
	l.conn.SetReadLimit(maxFirst)
	late := time.AfterFunc(firstWithin, func() { l.conn.Close(websocket.StatusPolicyViolation, "no key came") })
	defer late.Stop()
	kind, text, err := l.conn.Read(l.ctx)
	if err != nil {
		return false
	}
	late.Stop()
	var first struct {
		Authorization string `json:"authorization"`
	}
	if kind != websocket.MessageText || json.Unmarshal(text, &first) != nil || first.Authorization == "" {
		l.say(answer{Error: `the first frame must be {"authorization": "<API key>"}`})
		l.end(websocket.StatusPolicyViolation)
		return false
	}
	l.key = strings.TrimPrefix(first.Authorization, "Bearer ")
	ctx, cancel := context.WithTimeout(l.ctx, actionWithin)
	defer cancel()
	caller, err := s.Authenticate(ctx, l.key)
	if err == nil {
		err = permit(caller, auth.ReadThreads)
	}
	if err != nil {
		l.say(answer{Error: told(ctx, err)})
		l.end(websocket.StatusPolicyViolation)
		return false
	}
	return l.say(answer{Success: true}) == nil
}

func permit(caller *auth.Caller, p auth.Permission) error {
	if !caller.May(p) {
		return errs.New(errs.Forbidden, "this caller may not %s", p.Name)
	}
	return nil
}

// told is the text of an error that the other side may read.
func told(ctx context.Context, err error) string {
	e := *web.Visible(ctx, err)
	e.Cause = nil
	return e.Error()
}

// act does what a frame says. A status tells that the socket is to be closed with it.
func (s *Socket) act(l *link, a *action) (answer, websocket.StatusCode) {
	if a.fault != nil {
		return answer{ID: a.ID, Error: formText}, 0
	}
	ctx, cancel := context.WithTimeout(l.ctx, actionWithin)
	defer cancel()
	data, err := s.do(ctx, l.key, a.frame)
	if err == nil {
		return answer{ID: a.ID, Success: true, Data: data}, 0
	}
	status := websocket.StatusCode(0)
	if errs.KindOf(err) == errs.Unauthorized {
		status = websocket.StatusPolicyViolation
	}
	return answer{ID: a.ID, Error: told(ctx, err)}, status
}

// parseFrame reads a frame. Of one that has another form, the id is given all the same, if there is one.
func parseFrame(text []byte) (f frame, err error) {
	if err = json.Unmarshal(text, &f); err == nil {
		return f, nil
	}
	var only struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(text, &only) // the error that counts is the first one
	return frame{ID: only.ID}, err
}

// do checks the key as it is now, and does the action. Errors are those of Store, and Unauthorized, Forbidden, Invalid.
func (s *Socket) do(ctx context.Context, key string, f frame) (*string, error) {
	caller, err := s.Authenticate(ctx, key)
	if err != nil {
		return nil, err
	}
	if f.Authorization != nil {
		return nil, errs.New(errs.Forbidden, "this socket has its key; open another one for another key")
	}
	action, known := actions[f.Action]
	if !known {
		return nil, errs.Wrong("action", "expected save, merge, restore or delete")
	}
	if err := permit(caller, action.permission); err != nil {
		return nil, err
	}
	if err := checkID("data.thread_id", f.Data.ThreadID); err != nil {
		return nil, err
	}
	return action.do(s.Store, auth.With(ctx, caller), caller, f.Data)
}

// actions are what a frame may ask for.
var actions = map[string]struct {
	permission auth.Permission
	do         func(*Store, context.Context, *auth.Caller, frameData) (*string, error)
}{
	"save":    {auth.WriteThreads, (*Store).save},
	"merge":   {auth.WriteThreads, (*Store).merge},
	"restore": {auth.ReadThreads, (*Store).restore},
	"delete":  {auth.WriteThreads, (*Store).forget},
}

func (s *Store) save(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	e, err := s.editOf(d)
	if err != nil {
		return nil, err
	}
	return nil, s.write(ctx, caller, e)
}

func (s *Store) merge(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	if err := checkOperations(d.Operations); err != nil {
		return nil, err
	}
	sent := d.Metadata.Sent
	e, err := s.editOf(frameData{ThreadID: d.ThreadID, Metadata: d.Metadata})
	if err != nil {
		return nil, err
	}
	e.merge = func(userData *string) (string, error) {
		if !sent {
			return merge(userData, d.Operations, nil, false)
		}
		return merge(userData, d.Operations, e.metadata.text, true)
	}
	return nil, s.writeMerge(ctx, caller, e, sizeOf(d.Operations))
}

const (
	// smallMerge is up to which size a merge is computed while the row is locked, and on SQLite while every other writer waits.
	smallMerge = 64 << 10
	// maxAheads is how often a larger one is computed before, in the hope that nobody changes the thread meanwhile.
	maxAheads = 3
)

func sizeOf(ops []Operation) (n int) {
	for _, op := range ops {
		n += len(op.Value)
	}
	return n
}

// writeMerge merges a small state under the lock, where no merge waits for another's commit. A large one is computed before and written
// if the thread is still the same; after some tries in vain it is done under the lock as well.
func (s *Store) writeMerge(ctx context.Context, caller *auth.Caller, e edit, size int) error {
	for range maxAheads {
		ahead, err := s.ahead(ctx, caller, e, size)
		if err != nil {
			return err
		}
		if ahead == nil {
			break
		}
		if err := s.write(ctx, caller, *ahead); !errors.Is(err, errStale) {
			return err
		}
	}
	return s.write(ctx, caller, e)
}

// ahead computes a large merge from what is committed; it gives nil for a small one.
func (s *Store) ahead(ctx context.Context, caller *auth.Caller, e edit, size int) (*edit, error) {
	version, sealed, err := s.largeData(ctx, caller, e.id, smallMerge-size)
	if err != nil || sealed == nil && size <= smallMerge {
		return nil, err
	}
	before, err := s.open(threadData, sealed)
	if err != nil {
		return nil, err
	}
	after, err := e.merge(before)
	if err != nil {
		return nil, err
	}
	e.userData, e.merge, e.version = sealText(s.Ring, threadData, &after), nil, &version
	return &e, nil
}

// editOf checks what was sent and prepares it.
func (s *Store) editOf(d frameData) (edit, error) {
	var faults errs.Faults
	e := edit{id: d.ThreadID}
	if text := d.UserData.Ptr(); text != nil {
		checkUserData(&faults, "data.user_data", *text)
	}
	if d.Metadata.Sent {
		text, keys := checkMetadata(&faults, "data.metadata", d.Metadata.Value)
		e.metadata = &indexed{text: text, facets: keys}
	}
	if err := faults.Err(); err != nil {
		return e, err
	}
	if d.UserData.Sent {
		e.userData = sealText(s.Ring, threadData, d.UserData.Ptr())
	}
	return e, nil
}

// restore gives the user_data, or nil: also for a thread that is not there yet.
func (s *Store) restore(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	t, err := s.Get(ctx, caller, d.ThreadID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	return t.UserData, err
}

// forget deletes a thread. One that is gone already is no error: a runtime that missed the answer asks again.
func (s *Store) forget(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	err := s.Delete(ctx, caller, d.ThreadID, page.IfMatch{})
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	return nil, err
}
