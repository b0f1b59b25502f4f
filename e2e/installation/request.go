package installation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Response is a response whose body we have read.
type Response struct {
	T      testing.TB
	What   string // the request's method and path
	Status int
	Header http.Header
	Body   []byte
}

// Call sends a request with the installation's key. It sends a string unchanged, no body if it is nil,
// and anything else as JSON. Headers come in pairs.
func (s *Steward) Call(method, path string, body any, headers ...string) *Response {
	s.T.Helper()
	r, err := s.Try(method, path, body, headers...)
	s.Must(err)
	return r
}

// Try is Call for requests that may get no response, for example because the test kills the process.
func (s *Steward) Try(method, path string, body any, headers ...string) (*Response, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		s.Must(err)
		content = bytes.NewReader(text)
	}
	if s.Key != "" {
		headers = append([]string{"Authorization", "Bearer " + s.Key}, headers...)
	}
	return s.Send(method, path, content, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// Send sends a request without a key. Headers come in pairs; a repeated name is sent twice.
func (s *Steward) Send(method, path string, body io.Reader, headers ...string) (*Response, error) {
	req, err := http.NewRequest(method, s.URL+path, body)
	s.Must(err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := Client.Do(req)
	if err != nil {
		return nil, err
	}
	return ReadResponse(s.T, res)
}

// ReadResponse reads a response to its end.
func ReadResponse(t testing.TB, res *http.Response) (*Response, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	what := res.Request.Method + " " + res.Request.URL.Path
	return &Response{T: t, What: what, Status: res.StatusCode, Header: res.Header, Body: body}, err
}

// Raw writes a request to a connection, closes its own side, and returns the response's status and body.
// The status is 0 if there is no response.
func (s *Steward) Raw(format string, args ...any) (status int, body string) {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.Must(err)
	defer conn.Close()
	s.Must(conn.SetDeadline(time.Now().Add(RequestTimeout)))
	_, err = fmt.Fprintf(conn, format, args...)
	s.Must(err)
	_ = conn.(*net.TCPConn).CloseWrite() // fails if the server has responded and closed the connection
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.Must(err)
	return res.StatusCode, string(text)
}

// Want fails the test unless the response has this status.
func (r *Response) Want(status int) *Response {
	r.T.Helper()
	if r.Status != status {
		r.T.Fatalf("%s: got %d, want %d: %s", r.What, r.Status, status, r.Body)
	}
	return r
}

// Decode reads the body as JSON.
func (r *Response) Decode(v any) *Response {
	r.T.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		r.T.Fatalf("%s: %v: %s", r.What, err, r.Body)
	}
	return r
}

// Code returns an error's code.
func (r *Response) Code() string {
	r.T.Helper()
	var problem struct{ Code string }
	r.Decode(&problem)
	return problem.Code
}

// Get returns the value at a path in the body, such as "client.id", or nil.
func (r *Response) Get(path string) any {
	r.T.Helper()
	var value any
	r.Decode(&value)
	for _, key := range strings.Split(path, ".") {
		members, _ := value.(map[string]any)
		value = members[key]
	}
	return value
}

// Text returns the string at a path in the body. It fails the test if there is none.
func (r *Response) Text(path string) string {
	r.T.Helper()
	s, ok := r.Get(path).(string)
	if !ok {
		r.T.Fatalf("%s: no string at %s: %s", r.What, path, r.Body)
	}
	return s
}

// IDs returns the ids in a list, separated by spaces.
func (r *Response) IDs() string {
	r.T.Helper()
	var rows []struct{ ID string }
	r.Want(200).Decode(&rows)
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return strings.Join(ids, " ")
}

// Next returns the path of the next page, or "" on the last one.
func (r *Response) Next() string {
	for _, link := range strings.Split(r.Header.Get("Link"), ", ") {
		address, found := strings.CutSuffix(link, `>; rel="next"`)
		if found {
			return strings.TrimPrefix(address, "<")
		}
	}
	return ""
}

// Pages follows a list's next links and returns the ids of all entries. After each page it calls
// meanwhile, unless that is nil.
func (s *Steward) Pages(path string, meanwhile func()) (ids []string) {
	s.T.Helper()
	for path != "" {
		page := s.Call("GET", path, nil)
		ids = append(ids, strings.Fields(page.IDs())...)
		path = page.Next()
		if meanwhile != nil {
			meanwhile()
		}
	}
	return ids
}

// Total returns a list's X-Total-Count.
func (s *Steward) Total(path string) string {
	s.T.Helper()
	return s.Call("GET", path, nil).Want(200).Header.Get("X-Total-Count")
}

// SessionRequest returns the request that starts a session.
func SessionRequest(s *Steward, id, thread, project string) map[string]any {
	return map[string]any{
		"id": id, "threadId": thread, "orgId": s.OrgID, "projectId": project, "routeId": "r",
		"environment": "production", "devmode": false, "url": "/x?y=1", "method": "POST", "trigger": "api",
		"metadata": map[string]any{"k": 1}, "timestamp": "2026-01-02T03:04:05+01:00",
	}
}

// EvalRun is an eval's run, with the eval's agent.
type EvalRun struct{ ID, SessionID, EvalID, ProjectID, AgentIdentifier string }

// Body returns the request that starts the run.
func (r EvalRun) Body(orgID string, at int) map[string]any {
	return map[string]any{
		"id": r.ID, "sessionId": r.SessionID, "evalId": r.EvalID, "evalIdentifier": "stable",
		"orgId": orgID, "projectId": r.ProjectID, "devmode": false, "timestamp": 1763200000000 + at,
	}
}
