package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"steward/internal/cli/output"
)

// nouns returns the table of nouns.
func nouns() []noun {
	return []noun{
		apikeyNoun(), memberNoun(), projectNoun(), clientNoun(), consentNoun(),
		webhookNoun(),
		bucketNoun(), resourceNoun(), databaseNoun(), storeNoun(), threadNoun(), sessionNoun(), evalNoun(),
		runNoun(), regionNoun(), auditNoun(),
	}
}

// fromList returns the run of a verb `get` of an item that only the list has.
func fromList(placeholder string) func(ctx context.Context, s *session, in input) error {
	return func(ctx context.Context, s *session, in input) error {
		raw, err := s.find(ctx, placeholder, in)
		if err != nil {
			return err
		}
		return s.out.Item(raw)
	}
}

// find returns the item that a placeholder names, from its list.
func (s *session) find(ctx context.Context, placeholder string, in input) (json.RawMessage, error) {
	l := lookups()[placeholder]
	query := map[string][]string{}
	for name, value := range l.query {
		query[name] = []string{value}
	}
	for raw, err := range s.api.pages(ctx, in.expand(l.path), query, l.pick) {
		if err != nil {
			return nil, err
		}
		var item map[string]any
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, fmt.Errorf("the server's response is not a list of objects: %w", err)
		}
		if output.Field(item, l.id) == in.path[placeholder] {
			return raw, nil
		}
	}
	return nil, &failure{code: ExitNotFound, message: fmt.Sprintf("%s %s not found", l.thing, in.path[placeholder])}
}

// current returns a base that has some members of the item as it is.
func current(path string, members ...string) func(ctx context.Context, s *session, in input) (map[string]any, error) {
	return func(ctx context.Context, s *session, in input) (map[string]any, error) {
		raw, err := s.api.get(ctx, in.expand(path), nil)
		if err != nil {
			return nil, err
		}
		return only(raw, members...)
	}
}

// only returns some members of an object.
func only(raw json.RawMessage, members ...string) (map[string]any, error) {
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

// column returns a column of text.
func column(title, path string) output.Column { return output.Column{Title: title, Path: path} }

// timeColumn returns a column of times.
func timeColumn(title, path string) output.Column {
	return output.Column{Title: title, Path: path, Kind: output.Time}
}

// wide returns columns that only the format wide has.
func wide(columns ...output.Column) []output.Column {
	for i := range columns {
		columns[i].Wide = true
	}
	return columns
}
