package noun

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

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
