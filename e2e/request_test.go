package e2e

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

// response is a response whose body has been read.
type response struct {
	t      testing.TB
	what   string // method and path of the request
	status int
	header http.Header
	body   []byte
}

// call sends a request with the installation's key. A string is sent as it is, any other body but nil
// as JSON. Headers come in pairs.
func (s *steward) call(method, path string, body any, headers ...string) *response {
	s.t.Helper()
	r, err := s.try(method, path, body, headers...)
	s.must(err)
	return r
}

// try is call for requests that may get no response, for example because the process is killed.
func (s *steward) try(method, path string, body any, headers ...string) (*response, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		s.must(err)
		content = bytes.NewReader(text)
	}
	if s.key != "" {
		headers = append([]string{"Authorization", "Bearer " + s.key}, headers...)
	}
	return s.send(method, path, content, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// send sends a request without a key. Headers come in pairs; a repeated name is sent twice.
func (s *steward) send(method, path string, body io.Reader, headers ...string) (*response, error) {
	req, err := http.NewRequest(method, s.URL+path, body)
	s.must(err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	return read(s.t, res)
}

// read reads a response to its end.
func read(t testing.TB, res *http.Response) (*response, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	what := res.Request.Method + " " + res.Request.URL.Path
	return &response{t: t, what: what, status: res.StatusCode, header: res.Header, body: body}, err
}

// raw writes a request to a connection, closes its own side, and returns the status and the body of
// the response. The status is 0 if there is no response.
func (s *steward) raw(format string, args ...any) (status int, body string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.must(err)
	defer conn.Close()
	s.must(conn.SetDeadline(time.Now().Add(requestTimeout)))
	_, err = fmt.Fprintf(conn, format, args...)
	s.must(err)
	s.must(conn.(*net.TCPConn).CloseWrite())
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.must(err)
	return res.StatusCode, string(text)
}

// want fails the test unless the response has that status.
func (r *response) want(status int) *response {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: got %d, want %d: %s", r.what, r.status, status, r.body)
	}
	return r
}

// decode reads the body as JSON.
func (r *response) decode(v any) *response {
	r.t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
	return r
}

// code returns the code of an error.
func (r *response) code() string {
	r.t.Helper()
	var problem struct{ Code string }
	r.decode(&problem)
	return problem.Code
}

// get returns the value at a path of the body, such as "client.id", or nil.
func (r *response) get(path string) any {
	r.t.Helper()
	var value any
	r.decode(&value)
	for _, key := range strings.Split(path, ".") {
		members, _ := value.(object)
		value = members[key]
	}
	return value
}

// text returns the string at a path of the body. It fails the test if there is none.
func (r *response) text(path string) string {
	r.t.Helper()
	s, ok := r.get(path).(string)
	if !ok {
		r.t.Fatalf("%s: no string at %s: %s", r.what, path, r.body)
	}
	return s
}

// ids returns the ids of a list, separated by spaces.
func (r *response) ids() string {
	r.t.Helper()
	var rows []struct{ ID string }
	r.want(200).decode(&rows)
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return strings.Join(ids, " ")
}

// next returns the path of the next page, or "" on the last one.
func (r *response) next() string {
	for _, link := range strings.Split(r.header.Get("Link"), ", ") {
		address, found := strings.CutSuffix(link, `>; rel="next"`)
		if found {
			return strings.TrimPrefix(address, "<")
		}
	}
	return ""
}

// pages follows the next links of a list and returns the ids of all entries. It calls meanwhile after
// each page, unless that is nil.
func (s *steward) pages(path string, meanwhile func()) (ids []string) {
	s.t.Helper()
	for path != "" {
		page := s.call("GET", path, nil)
		ids = append(ids, strings.Fields(page.ids())...)
		path = page.next()
		if meanwhile != nil {
			meanwhile()
		}
	}
	return ids
}

// total returns the X-Total-Count of a list.
func (s *steward) total(path string) string {
	s.t.Helper()
	return s.call("GET", path, nil).want(200).header.Get("X-Total-Count")
}
