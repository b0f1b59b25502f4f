package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// lookup is how the items that a placeholder can name are found.
type lookup struct {
	thing  string
	path   string // of the list; its placeholders come before this one
	query  map[string]string
	pick   string
	prefix string // of ids; "" if they cannot be told from names
	id     string // the field with the id
	label  string // the field with the name by which users may refer to an item, or ""
}

// lookups returns the lookup of each placeholder.
func lookups() map[string]lookup {
	return map[string]lookup{
		"apikey":      {thing: "API key", path: "/cli/apikey", prefix: "key_", id: "id", label: "name"},
		"project":     {thing: "project", path: "/cli/project", prefix: "prj_", id: "id", label: "name"},
		"member":      {thing: "member", path: "/oidc/org/members", prefix: "usr_", id: "id", label: "email"},
		"client":      {thing: "OAuth client", path: "/oidc/clients", prefix: "oac_", id: "id", label: "name"},
		"user":        {thing: "user", path: "/oidc/clients/{client}/users", prefix: "usr_", id: "user_id"},
		"consent":     {thing: "consent", path: "/oidc/user/consent", prefix: "oac_", id: "client_id", label: "client_name"},
		"webhook":     {thing: "webhook", path: "/webhook/list", prefix: "wh_", id: "id", label: "name"},
		"destination": {thing: "destination", path: "/webhook/destination-list/{webhook}", prefix: "whds_", id: "id", label: "config.url"},
		"receipt":     {thing: "receipt", path: "/webhook/receipt-list/{webhook}", id: "id"},
		"replay":      {thing: "replay", path: "/webhook/replay/{webhook}", id: "id"},
		"delivery":    {thing: "delivery", path: "/webhook/delivery-list/{webhook}", id: "id"},
		"bucket":      {thing: "bucket", path: "/resource", query: map[string]string{"type": "s3"}, pick: "s3", id: "bucket_name"},
		"database":    {thing: "database", path: "/resource", query: map[string]string{"type": "db"}, pick: "db", id: "name"},
		"store":       {thing: "key-value store", path: "/resource", query: map[string]string{"type": "kv"}, pick: "kv", id: "name"},
		"thread":      {thing: "thread", path: "/thread", id: "id"},
		"session":     {thing: "session", path: "/session", id: "id"},
		"eval":        {thing: "evaluation", path: "/cli/eval", id: "id"},
		"run":         {thing: "evaluation run", path: "/cli/eval-run", id: "id"},
		"region":      {thing: "region", path: "/cli/region", id: "region"},
	}
}

// items returns the items that a placeholder can name.
func (s *session) items(ctx context.Context, l lookup, in input) iter.Seq2[map[string]any, error] {
	query := map[string][]string{}
	for name, value := range l.query {
		query[name] = []string{value}
	}
	return func(yield func(map[string]any, error) bool) {
		for raw, err := range s.api.pages(ctx, in.expand(l.path), query, l.pick) {
			var item map[string]any
			if err == nil {
				err = json.Unmarshal(raw, &item)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// resolve returns the id of what a user named by its id or its name.
func (s *session) resolve(ctx context.Context, placeholder, arg string, in input) (string, error) {
	l, known := lookups()[placeholder]
	if arg == "" {
		return "", usagef("%s must not be empty", strings.ToUpper(placeholder))
	}
	if !known || l.label == "" || l.prefix != "" && strings.HasPrefix(arg, l.prefix) {
		return arg, nil
	}
	var found []string
	for item, err := range s.items(ctx, l, in) {
		if err != nil {
			return "", err
		}
		id, _ := output.Field(item, l.id).(string)
		if id == arg {
			return id, nil
		}
		if name, _ := output.Field(item, l.label).(string); name == arg {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &failure{
			code: ExitNotFound, message: fmt.Sprintf("there is no %s %q", l.thing, arg),
			advice: "List what there is with `steward " + listCommand(placeholder) + "`.",
		}
	}
	return "", usagef("%d %ss are named %q; use an id: %s", len(found), l.thing, arg, strings.Join(found, ", "))
}

// listCommand returns the command that lists what a placeholder with names can be.
func listCommand(placeholder string) string {
	if placeholder == "destination" {
		return "webhook destination list WEBHOOK"
	}
	return placeholder + " list"
}

// onlyRegion returns the region of an installation that has one.
func (s *session) onlyRegion(ctx context.Context) (string, error) {
	var names []string
	for item, err := range s.items(ctx, lookups()["region"], input{}) {
		if err != nil {
			return "", err
		}
		name, _ := item["region"].(string)
		names = append(names, name)
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", usagef("choose a region with --region: %s", strings.Join(names, ", "))
}

const (
	// completionTimeout bounds how long a shell waits for the server.
	completionTimeout = 5 * time.Second
	// maxCandidates bounds how many names a shell is given.
	maxCandidates = 500
)

// completeArgs returns the completion of a verb's arguments with ids and names from the server.
func (e *env) completeArgs(v verb) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		placeholders := v.placeholders()
		if len(args) < len(placeholders) {
			return e.candidatesAfter(placeholders, args), cobra.ShellCompDirectiveNoFileComp
		}
		if i := len(args) - len(placeholders); i < len(v.args) {
			return v.args[i].values, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// candidatesAfter returns what the next placeholder can name, after those that were given.
func (e *env) candidatesAfter(placeholders, args []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	s, err := e.open()
	if err != nil {
		return nil
	}
	in := input{path: map[string]string{}}
	for i, arg := range args {
		id, err := s.resolve(ctx, placeholders[i], arg, in)
		if err != nil {
			return nil
		}
		in.path[placeholders[i]] = id
	}
	return s.candidates(ctx, placeholders[len(args)], in)
}

// candidates returns what a placeholder can name: names, described by their ids, or ids.
func (s *session) candidates(ctx context.Context, placeholder string, in input) (out []string) {
	l, known := lookups()[placeholder]
	if !known {
		return nil
	}
	for item, err := range s.items(ctx, l, in) {
		if err != nil || len(out) >= maxCandidates {
			return out
		}
		id, _ := output.Field(item, l.id).(string)
		name, _ := output.Field(item, l.label).(string)
		if name == "" || strings.ContainsAny(name, " \t\n'\"\\$`") { // would need quotes
			out = append(out, id+"\t"+output.Clean(name))
			continue
		}
		out = append(out, name+"\t"+id)
	}
	return out
}

// candidates is that of a session which it opens, for flags.
func (e *env) candidates(placeholder string, path map[string]string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	s, err := e.open()
	if err != nil {
		return nil
	}
	return s.candidates(ctx, placeholder, input{path: path})
}

// regionNames returns the regions, for completion.
func (e *env) regionNames() []string { return e.candidates("region", nil) }
