// Package noun makes commands from tables. A Noun is an area of the API, and a Verb something that
// you can do there: its route, arguments and flags. Arguments are ids, or names that we look up on
// the server, which also completes them in shells (lookup.go). Lists are printed
// once, or again when they change (list.go).
package noun

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// Noun is an area of the API, with its verbs.
type Noun struct {
	Name    string // on the command line
	Aliases []string
	Thing   string // in sentences
	Short   string
	Columns []output.Column
	Verbs   []Verb
	Nouns   []Noun // below it: webhook destination
	// More has commands that are not in the table.
	More []func(e *session.Env) *cobra.Command
}

// Verb is something that you can do. Its route decides how: GET on a list prints a table, GET on an
// item its fields, DELETE asks first.
type Verb struct {
	Name    string
	Aliases []string
	Short   string
	// Route is a method and a path. Each placeholder such as {webhook} is an argument, in order, and
	// may be an id or a name (lookups); we fill in {org} and {region}.
	Route string
	// Args are further arguments, each a field in the body.
	Args []Field
	// Fields are flags: in the query for a GET, else in the body.
	Fields []Field
	List   bool // the response is a list
	// Pick is the response's member that has the list, or "" if the response is the list.
	Pick string
	// Items reads a list that is not a route's response.
	Items func(ctx context.Context, s *session.Session, in Input) iter.Seq2[json.RawMessage, error]
	// Columns replaces the noun's columns for this list.
	Columns []output.Column
	// Apart selects the items that tables show below the others, if there are any.
	Apart *output.Group
	// Ask begins the question before something is destroyed, such as "Replacing the secret of".
	// Without it, a DELETE asks "Deleting". With names other things that go too.
	Ask  string
	With string
	// New refuses to replace a thing that exists, where the route would.
	New bool
	// Note is printed after success.
	Note string
	// Fixed has fixed members for the query or the body.
	Fixed map[string]any
	// Base returns the body that the fields change, if the route replaces it as a whole.
	Base func(ctx context.Context, s *session.Session, in Input) (map[string]any, error)
	// Wrap turns the fields into the request's body.
	Wrap func(body map[string]any) any
	// Show selects the part of the response to print.
	Show func(in Input, body json.RawMessage) (json.RawMessage, error)
	// Run replaces all of the above.
	Run func(ctx context.Context, s *session.Session, in Input) error
}

// Input is a parsed command line: each placeholder's value, resolved to an id, the name under which
// the user knows it, and the fields.
type Input struct {
	Path   map[string]string
	Labels map[string]string
	Fields map[string]any
	last   string // the last placeholder
}

// Check returns an error if a noun's table lacks something.
func (n Noun) Check() error {
	for _, v := range n.Verbs {
		if v.Short == "" || v.Route == "" || v.List && v.Columns == nil && n.Columns == nil {
			return fmt.Errorf("%s %s is not complete", n.Name, v.Name)
		}
		for _, p := range v.placeholders() {
			if _, ok := lookups()[p]; !ok {
				return fmt.Errorf("%s %s has no lookup of %s", n.Name, v.Name, p)
			}
		}
	}
	for _, below := range n.Nouns {
		if err := below.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Commands returns a command for each noun.
func Commands(e *session.Env, nouns ...Noun) []*cobra.Command {
	commands := make([]*cobra.Command, len(nouns))
	for i, n := range nouns {
		commands[i] = command(e, n)
	}
	return commands
}

// FromList returns the run function for a `get` verb whose item only the list has.
func FromList(placeholder string) func(ctx context.Context, s *session.Session, in Input) error {
	return func(ctx context.Context, s *session.Session, in Input) error {
		raw, err := Find(ctx, s, placeholder, in)
		if err != nil {
			return err
		}
		return s.Printer.Item(raw)
	}
}

// Find returns the item that a placeholder names, from its list.
func Find(ctx context.Context, s *session.Session, placeholder string, in Input) (json.RawMessage, error) {
	l := lookups()[placeholder]
	region := in.Path["region"]
	for raw, err := range l.items(ctx, s, in) {
		if err != nil {
			return nil, err
		}
		var item map[string]any
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, fmt.Errorf("the server's response is not a list of objects: %w", err)
		}
		elsewhere := region != "" && item["cloud_region"] != nil && item["cloud_region"] != region
		if item[l.id] == in.Path[placeholder] && !elsewhere {
			return raw, nil
		}
	}
	return nil, &exit.Error{Code: exit.NotFound, Message: fmt.Sprintf("%s %s not found", l.thing, in.Path[placeholder])}
}

// Current returns a base with the item's current values for some members.
func Current(path string, members ...string) func(ctx context.Context, s *session.Session, in Input) (map[string]any, error) {
	return func(ctx context.Context, s *session.Session, in Input) (map[string]any, error) {
		raw, err := s.API.Get(ctx, in.Expand(path), nil)
		if err != nil {
			return nil, err
		}
		return Only(raw, members...)
	}
}

// Only returns some of an object's members.
func Only(raw json.RawMessage, members ...string) (map[string]any, error) {
	var item map[string]any
	if err := json.Unmarshal(raw, &item); err != nil {
		return nil, fmt.Errorf("the server's response is not a JSON object: %w", err)
	}
	body := map[string]any{}
	for _, name := range members {
		if value, ok := item[name]; ok {
			body[name] = value
		}
	}
	return body, nil
}

// Column returns a text column.
func Column(title, path string) output.Column { return output.Column{Title: title, Path: path} }

// CountColumn returns a column for counts.
func CountColumn(title, path string) output.Column {
	return output.Column{Title: title, Path: path, Kind: output.Count}
}

// TimeColumn returns a column for times.
func TimeColumn(title, path string) output.Column {
	return output.Column{Title: title, Path: path, Kind: output.Time}
}

// Wide marks columns that only the format wide has.
func Wide(columns ...output.Column) []output.Column {
	for i := range columns {
		columns[i].Wide = true
	}
	return columns
}
