package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"steward/internal/cli/exit"
	"steward/internal/cli/session"
)

// libsql is a database over the libSQL protocol, Hrana over HTTP. Between a transaction's statements
// the server keeps its stream, which the baton names.
type libsql struct {
	url, token string
	baton      *string
}

// libsqlTimeout bounds a statement. The server ends it earlier.
const libsqlTimeout = 2 * time.Minute

// maxLibsqlResponse bounds a response. The server's limit is smaller.
const maxLibsqlResponse = 64 << 20

type libsqlRequest struct {
	Type string      `json:"type"`
	Stmt *libsqlStmt `json:"stmt,omitempty"`
}

type libsqlStmt struct {
	SQL string `json:"sql"`
}

type libsqlResponse struct {
	Baton   *string
	Results []struct {
		Error    *libsqlError
		Response struct {
			Result       libsqlResult
			IsAutocommit bool `json:"is_autocommit"`
		}
	}
}

type libsqlError struct{ Message, Code string }

type libsqlResult struct {
	Cols     []struct{ Name string }
	Rows     [][]libsqlValue
	Affected int64 `json:"affected_row_count"`
}

// libsqlValue is a value in a row. Integers are texts.
type libsqlValue struct {
	Type   string
	Value  json.RawMessage
	Base64 string
}

// query implements database.
func (l *libsql) query(ctx context.Context, statement string) (result, error) {
	res, err := l.pipeline(ctx,
		libsqlRequest{Type: "execute", Stmt: &libsqlStmt{strings.TrimSuffix(strings.TrimSpace(statement), ";")}},
		libsqlRequest{Type: "get_autocommit"})
	if err != nil {
		return result{}, err
	}
	if len(res.Results) != 2 {
		return result{}, fmt.Errorf("the database responds with %d results", len(res.Results))
	}
	if res.Results[1].Response.IsAutocommit { // no transaction is open
		l.close()
	}
	if failed := res.Results[0].Error; failed != nil {
		return result{}, sqlError(failed.Message)
	}
	return res.Results[0].Response.Result.decode(), nil
}

func (l *libsql) pipeline(ctx context.Context, requests ...libsqlRequest) (res libsqlResponse, err error) {
	body, err := json.Marshal(map[string]any{"baton": l.baton, "requests": requests})
	if err != nil {
		return res, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(l.url, "/")+"/v3/pipeline", bytes.NewReader(body))
	if err != nil {
		return res, err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	req.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: libsqlTimeout}).Do(req)
	if err != nil {
		return res, session.Unreachable(err, "the database")
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLibsqlResponse))
	if err != nil {
		return res, session.Unreachable(err, "the database")
	}
	l.baton = nil
	if answer.StatusCode != http.StatusOK {
		return res, libsqlFailure(answer.StatusCode, text)
	}
	if err := session.Decode(text, &res); err != nil {
		return res, err
	}
	l.baton = res.Baton
	return res, nil
}

// libsqlFailure returns the error for a pipeline that was refused as a whole.
func libsqlFailure(status int, body []byte) error {
	var failed libsqlError
	if err := json.Unmarshal(body, &failed); err != nil || failed.Message == "" {
		failed.Message = http.StatusText(status)
	}
	e := &exit.Error{Code: exit.OfStatus(status), Message: failed.Message}
	if failed.Code == "STREAM_EXPIRED" {
		e.Message = "the transaction took too long and was rolled back"
	}
	return e
}

func (r libsqlResult) decode() (out result) {
	out.changed = r.Affected
	for _, c := range r.Cols {
		out.columns = append(out.columns, c.Name)
	}
	for _, row := range r.Rows {
		values := make([]json.RawMessage, len(row))
		for i, v := range row {
			values[i] = v.decode()
		}
		out.rows = append(out.rows, values)
	}
	return out
}

func (v libsqlValue) decode() json.RawMessage {
	switch v.Type {
	case "integer":
		return json.RawMessage(strings.Trim(string(v.Value), `"`))
	case "blob":
		return quoted(v.Base64)
	case "null":
		return json.RawMessage("null")
	}
	return v.Value
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return raw
}

// close implements database. It ignores errors, since the server ends a stream that falls silent.
func (l *libsql) close() {
	if l.baton == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = l.pipeline(ctx, libsqlRequest{Type: "close"})
	l.baton = nil
}
