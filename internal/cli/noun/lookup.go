package noun

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// lookup finds the items that a placeholder can name.
type lookup struct {
	thing  string
	path   string // the list's; its placeholders come before this one
	query  map[string]string
	pick   string
	prefix string // the ids' prefix; "" if they look like names
	id     string // the field with the id
	label  string // the field with the name by which users may refer to an item, or ""
}

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
		"alert":       {thing: "alert", path: "/alert", prefix: "alr_", id: "id", label: "name"},
		"upstream":    {thing: "sign-in provider", path: "/oidc/upstream", prefix: "ups_", id: "id", label: "name"},

		"registration": {thing: "registration token", path: "/oidc/registration-token", prefix: "rgt_", id: "id", label: "name"},
		"organization": {thing: "organization", path: "/cli/organization", prefix: "org_", id: "id", label: "name"},
	}
}

// items returns the list of items that a placeholder can name.
func (l lookup) items(ctx context.Context, s *session.Session, in Input) iter.Seq2[json.RawMessage, error] {
	query := url.Values{}
	for name, value := range l.query {
		query.Set(name, value)
	}
	return s.API.Pages(ctx, in.Expand(l.path), query, l.pick)
}

func (l lookup) objects(ctx context.Context, s *session.Session, in Input) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		for raw, err := range l.items(ctx, s, in) {
			var item map[string]any
			if err == nil {
				err = session.Decode(raw, &item)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Resolve returns the id of a thing that a user named by its id or its name.
func Resolve(ctx context.Context, s *session.Session, placeholder, arg string, in Input) (string, error) {
	l, known := lookups()[placeholder]
	if arg == "" {
		return "", exit.Usagef("%s must not be empty", strings.ToUpper(placeholder))
	}
	if !known || l.label == "" || l.prefix != "" && strings.HasPrefix(arg, l.prefix) {
		return arg, nil
	}
	var found []string
	for item, err := range l.objects(ctx, s, in) {
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
		return "", &exit.Error{
			Code: exit.NotFound, Message: fmt.Sprintf("there is no %s %q", l.thing, arg),
			Advice: "List what there is with `steward " + listCommand(placeholder) + "`.",
		}
	}
	return "", exit.Usagef("%d %ss are named %q; use an id: %s", len(found), l.thing, arg, strings.Join(found, ", "))
}

// listCommand returns the command that lists a placeholder's possible names.
func listCommand(placeholder string) string {
	switch placeholder {
	case "destination":
		return "webhook destination list WEBHOOK"
	case "organization":
		return "org list"
	}
	return placeholder + " list"
}

// Locate returns the region of the resource that a placeholder names.
func Locate(ctx context.Context, s *session.Session, placeholder, name string) (string, error) {
	l := lookups()[placeholder]
	var regions []string
	for item, err := range l.objects(ctx, s, Input{}) {
		if err != nil {
			return "", err
		}
		if region, _ := item["cloud_region"].(string); item[l.id] == name {
			regions = append(regions, region)
		}
	}
	switch len(regions) {
	case 0:
		return "", &exit.Error{Code: exit.NotFound, Message: fmt.Sprintf("there is no %s %q", l.thing, name)}
	case 1:
		return regions[0], nil
	}
	return "", exit.Usagef("%d regions have a %s %q; choose one with --region: %s", len(regions), l.thing, name, strings.Join(regions, ", "))
}

// onlyRegion returns the region of an installation that has only one.
func onlyRegion(ctx context.Context, s *session.Session) (string, error) {
	var names []string
	for item, err := range lookups()["region"].objects(ctx, s, Input{}) {
		if err != nil {
			return "", err
		}
		name, _ := item["region"].(string)
		names = append(names, name)
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", exit.Usagef("choose a region with --region: %s", strings.Join(names, ", "))
}

const (
	// completionTimeout bounds how long a shell waits for the server.
	completionTimeout = 5 * time.Second
	// maxCandidates caps the names that we give a shell.
	maxCandidates = 500
)

// CompleteArgs completes a verb's arguments with ids and names from the server.
func CompleteArgs(e *session.Env, v Verb) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		placeholders := v.placeholders()
		if len(args) < len(placeholders) {
			return v.candidates(e, placeholders[len(args)], args), cobra.ShellCompDirectiveNoFileComp
		}
		if i := len(args) - len(placeholders); i < len(v.Args) {
			if v.Args[i].Noun != "" {
				return v.candidates(e, v.Args[i].Noun, args), cobra.ShellCompDirectiveNoFileComp
			}
			return v.Args[i].Values, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// candidates returns the items that a placeholder can name, after the arguments given so far.
func (v Verb) candidates(e *session.Env, placeholder string, args []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	s, err := e.Open()
	if err != nil {
		return nil
	}
	in := Input{Path: map[string]string{}}
	for i, name := range v.placeholders() {
		if i == len(args) {
			break
		}
		id, err := Resolve(ctx, s, name, args[i], in)
		if err != nil {
			return nil
		}
		in.Path[name] = id
	}
	return candidates(ctx, s, placeholder, in)
}

// candidates returns the items that a placeholder can name: names, described by their ids, or ids.
func candidates(ctx context.Context, s *session.Session, placeholder string, in Input) (out []string) {
	l, known := lookups()[placeholder]
	if !known {
		return nil
	}
	for item, err := range l.objects(ctx, s, in) {
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

// Candidates returns the items that a placeholder can name, for shell completion.
func Candidates(e *session.Env, placeholder string) []string {
	return Verb{}.candidates(e, placeholder, nil)
}
