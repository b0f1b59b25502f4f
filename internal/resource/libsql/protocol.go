package libsql

import (
	"encoding/json"

	"zombiezen.com/go/sqlite"
)

// pipeline is the body of a request to v2/pipeline or v3/pipeline. Its requests are decoded one after
// the other, so that a body of many small ones does not take many times its size.
type pipeline struct {
	Baton    *string           `json:"baton"`
	Requests []json.RawMessage `json:"requests"`
}

// closes reports whether the last request closes the stream, so that none has to be kept.
func (p *pipeline) closes() bool {
	if len(p.Requests) == 0 {
		return false
	}
	var last struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(p.Requests[len(p.Requests)-1], &last) // fails again when it is executed
	return last.Type == "close"
}

// request is a request on a stream.
type request struct {
	Type  string  `json:"type"`
	Stmt  stmt    `json:"stmt"`
	Batch batch   `json:"batch"`
	SQL   *string `json:"sql"`
	SQLID *int32  `json:"sql_id"`
}

// stmt is a statement with its arguments.
type stmt struct {
	SQL       *string    `json:"sql"`
	SQLID     *int32     `json:"sql_id"`
	Args      []argument `json:"args"`
	NamedArgs []struct {
		Name  string   `json:"name"`
		Value argument `json:"value"`
	} `json:"named_args"`
	WantRows *bool `json:"want_rows"`
}

func (s *stmt) wantRows() bool { return s.WantRows == nil || *s.WantRows }

// arguments returns the values of a statement's parameters. A named argument without a prefix fits any
// prefix, and takes precedence over a positional one.
func (s *stmt) arguments(to *sqlite.Stmt) ([]value, error) {
	count := to.BindParamCount()
	if len(s.Args) > count {
		return nil, failf("ARGS_INVALID", "%d arguments for %d parameters", len(s.Args), count)
	}
	values := make([]value, count)
	given := make([]bool, count)
	for i, arg := range s.Args {
		v, err := arg.value()
		if err != nil {
			return nil, err
		}
		values[i] = v
		given[i] = true
	}
	byName := parameters(to, len(s.NamedArgs) > 0)
	for _, arg := range s.NamedArgs {
		i, ok := byName[arg.Name]
		if !ok {
			return nil, failf("ARGS_INVALID", "the statement has no parameter %.100s", arg.Name)
		}
		v, err := arg.Value.value()
		if err != nil {
			return nil, err
		}
		values[i] = v
		given[i] = true
	}
	for i, ok := range given {
		if !ok {
			return nil, failf("ARGS_INVALID", "no argument for parameter %d %.100s", i+1, to.BindParamName(i+1))
		}
	}
	return values, nil
}

// parameters returns the indices of parameters, from 0, by their names with and without prefix.
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
	Steps []json.RawMessage `json:"steps"`
}

// step is a statement of a batch. It runs if its condition is nil or true.
type step struct {
	Condition *condition `json:"condition"`
	Stmt      stmt       `json:"stmt"`
}

// condition decides whether a step runs.
type condition struct {
	Type  string      `json:"type"`
	Step  int         `json:"step"`
	Cond  *condition  `json:"cond"`
	Conds []condition `json:"conds"`
}

// outcome is what became of a step.
type outcome int

const (
	skipped outcome = iota
	succeeded
	failed
)

// holds reports whether a condition is true after the steps with the given outcomes.
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
