package libsql

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"zombiezen.com/go/sqlite"
)

// raw is a part of a request's body that is decoded later. It is not a copy: encoding/json passes us
// slices of its input, and nobody changes the body.
type raw []byte

// UnmarshalJSON implements json.Unmarshaler.
func (r *raw) UnmarshalJSON(text []byte) error {
	*r = text
	return nil
}

// list is an array in a request. We decode its elements one at a time, because decoding many small ones
// at once would take many times their size.
type list []byte

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if text[0] != '[' {
		return errors.New("expected an array")
	}
	*l = text
	return nil
}

// all yields the elements. They are valid, since the whole body is.
func (l list) all(yield func(element []byte) bool) {
	depth := 0
	quoted := false
	start := 1
	for i := 1; i < len(l); i++ {
		switch c := l[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
		case depth == 0 && (c == ',' || c == ']'):
			element := bytes.TrimSpace(l[start:i])
			if len(element) == 0 || !yield(element) {
				return
			}
			start = i + 1
		case c == ']' || c == '}':
			depth--
		}
	}
}

// word is a short string, such as a request's type.
type word string

// UnmarshalJSON implements json.Unmarshaler.
func (w *word) UnmarshalJSON(text []byte) error {
	if len(text) > 100 {
		return errors.New("expected a shorter text")
	}
	if plain := text[0] == '"' && bytes.IndexByte(text, '\\') < 0; plain {
		*w = word(text[1 : len(text)-1])
		return nil
	}
	return json.Unmarshal(text, (*string)(w))
}

// pipeline is the body for v2/pipeline or v3/pipeline.
type pipeline struct {
	Baton    *word `json:"baton"`
	Requests list  `json:"requests"`

	// few holds the requests if there are at most maxFew, as in most pipelines. Otherwise it is empty.
	few []request
}

// maxFew is the length of a short pipeline: a statement, and the end of its stream.
const maxFew = 2

// decodeFew decodes a short pipeline's requests, so that we do it only once.
func (p *pipeline) decodeFew() {
	for text := range p.Requests.all {
		if len(p.few) == maxFew {
			p.few = nil
			return
		}
		p.few = append(p.few, decodeRequest(text))
	}
}

// all yields the requests.
func (p *pipeline) all(yield func(r request) bool) {
	if len(p.few) > 0 {
		slices.Values(p.few)(yield)
		return
	}
	for text := range p.Requests.all {
		if !yield(decodeRequest(text)) {
			return
		}
	}
}

// single returns the statement if the pipeline only executes it and closes the stream; otherwise nil.
func (p *pipeline) single() []byte {
	if p.Baton != nil || len(p.few) != 2 || !p.few[0].is("execute") || !p.few[1].is("close") {
		return nil
	}
	return p.few[0].Stmt
}

// closes reports whether the last request closes the stream, so that we need not keep one.
func (p *pipeline) closes() bool {
	if len(p.few) > 0 {
		return p.few[len(p.few)-1].is("close")
	}
	var last []byte
	for text := range p.Requests.all {
		last = text
	}
	return last != nil && decodeRequest(last).is("close")
}

// request is a request on a stream. Its type decides which fields it has.
type request struct {
	Type  word `json:"type"`
	Stmt  raw  `json:"stmt"`
	Batch raw  `json:"batch"`

	text []byte // the whole request
	stmt *stmt  // decoded from Stmt, if that has happened already
	err  error  // from decoding
}

// is reports whether the request has a type.
func (r request) is(kind word) bool { return r.err == nil && r.Type == kind }

func decodeRequest(text []byte) (r request) {
	r.err = json.Unmarshal(text, &r)
	r.text = text
	return r
}

// stmt is a statement with its arguments, or another request with SQL.
type stmt struct {
	SQL       *string `json:"sql"`
	SQLID     *int32  `json:"sql_id"`
	Args      list    `json:"args"`
	NamedArgs list    `json:"named_args"`
	WantRows  *bool   `json:"want_rows"`
}

// wanted returns a sink that drops the rows if the client does not want them.
func (s *stmt) wanted(to sink) sink {
	if s.WantRows != nil && !*s.WantRows {
		to.row = func(*sqlite.Stmt, int) error { return nil }
	}
	return to
}

// sink returns a sink that appends a StmtResult's columns and rows.
func (s *stmt) sink(out *response) sink {
	first := true
	return s.wanted(sink{
		columns: func(columns []column) error {
			out.raw(`{"cols":`)
			out.columns(columns)
			out.raw(`,"rows":[`)
			return nil
		},
		row: func(stmt *sqlite.Stmt, columns int) error {
			if !first {
				out.raw(",")
			}
			first = false
			return out.row(stmt, columns)
		},
	})
}

// bind binds the arguments to a prepared statement's parameters. A named argument without a prefix fits
// any prefix, and takes precedence over a positional one.
func (s *stmt) bind(to *sqlite.Stmt) error {
	given := make([]bool, to.BindParamCount())
	n := 0
	for text := range s.Args.all {
		n++
		if n > len(given) {
			return failf("ARGS_INVALID", "more arguments than the %d parameters", len(given))
		}
		var arg argument
		if err := json.Unmarshal(text, &arg); err != nil {
			return invalidJSON(err)
		}
		if err := arg.bind(to, n); err != nil {
			return err
		}
		given[n-1] = true
	}
	if err := s.bindNamed(to, given); err != nil {
		return err
	}
	for i, ok := range given {
		if !ok {
			return failf("ARGS_INVALID", "no argument for parameter %d %.100s", i+1, to.BindParamName(i+1))
		}
	}
	return nil
}

func (s *stmt) bindNamed(to *sqlite.Stmt, given []bool) error {
	byName := parameters(to, len(s.NamedArgs) > 0)
	for text := range s.NamedArgs.all {
		var arg struct {
			Name  string   `json:"name"`
			Value argument `json:"value"`
		}
		if err := json.Unmarshal(text, &arg); err != nil {
			return invalidJSON(err)
		}
		i, ok := byName[arg.Name]
		if !ok {
			return failf("ARGS_INVALID", "the statement has no parameter %.100s", arg.Name)
		}
		if err := arg.Value.bind(to, i+1); err != nil {
			return err
		}
		given[i] = true
	}
	return nil
}

// parameters returns the parameters' indexes, from 0, by name with and without prefix.
func parameters(of *sqlite.Stmt, needed bool) map[string]int {
	byName := map[string]int{}
	for i := 0; needed && i < of.BindParamCount(); i++ {
		name := of.BindParamName(i + 1)
		if name == "" {
			continue
		}
		byName[name] = i
		if _, taken := byName[name[1:]]; !taken && name[0] != '?' {
			byName[name[1:]] = i
		}
	}
	return byName
}

// batch is a list of statements, each with a condition.
type batch struct {
	Steps list `json:"steps"`
}

// step is a statement in a batch. It runs if its condition is nil or true.
type step struct {
	Condition raw `json:"condition"`
	Stmt      raw `json:"stmt"`
}

// maxCondition caps a condition, in bytes.
const maxCondition = 64 << 10

// runs reports whether the step's condition is absent or true.
func (s *step) runs(before []outcome, autocommit bool) (bool, error) {
	if s.Condition == nil || string(s.Condition) == "null" {
		return true, nil
	}
	if len(s.Condition) > maxCondition {
		return false, failf("BATCH_COND_INVALID", "a condition is longer than %d bytes", maxCondition)
	}
	var c condition
	if err := json.Unmarshal(s.Condition, &c); err != nil {
		return false, invalidJSON(err)
	}
	return c.holds(before, autocommit)
}

// condition decides whether a step runs.
type condition struct {
	Type  string      `json:"type"`
	Step  int         `json:"step"`
	Cond  *condition  `json:"cond"`
	Conds []condition `json:"conds"`
}

// outcome is a step's outcome.
type outcome uint8

const (
	skipped outcome = iota
	succeeded
	failed
)

// holds reports whether the condition is true after steps with these outcomes.
func (c *condition) holds(steps []outcome, autocommit bool) (bool, error) {
	switch c.Type {
	case "ok", "error":
		if c.Step < 0 || c.Step >= len(steps) {
			return false, failf("BATCH_COND_INVALID", "a condition refers to step %d, which is not before its own", c.Step)
		}
		return c.Type == "ok" && steps[c.Step] == succeeded || c.Type == "error" && steps[c.Step] == failed, nil
	case "not":
		if c.Cond == nil {
			return false, failf("BATCH_COND_INVALID", "a condition of type not has no cond")
		}
		holds, err := c.Cond.holds(steps, autocommit)
		return !holds, err
	case "and", "or":
		for i := range c.Conds {
			holds, err := c.Conds[i].holds(steps, autocommit)
			if err != nil || holds == (c.Type == "or") {
				return holds, err
			}
		}
		return c.Type == "and", nil
	case "is_autocommit":
		return autocommit, nil
	}
	return false, failf("BATCH_COND_INVALID", "expected a condition of type ok, error, not, and, or or is_autocommit")
}
