// Package cli has the steward commands that use a server.
//
// Commands puts them together: package account's, webhooks' and storage's commands, the runtime's
// nouns (runtime.go), and api for all the rest (api.go). A command opens a session.Session, calls
// routes and prints their responses with package output; most commands come from tables of nouns and
// verbs, through package noun. Failures are an exit.Error.
package cli

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/account"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
	"steward/internal/cli/storage"
	"steward/internal/cli/webhooks"
)

type group struct {
	cobra.Group
	commands []*cobra.Command
}

func groups(e *session.Env) []group {
	data := append(storage.Commands(e), noun.Commands(e, threadNoun(), sessionNoun(), evalNoun(), runNoun(), regionNoun())...)
	return []group{
		{cobra.Group{ID: "account", Title: "Sign-in and access:"}, account.Commands(e)},
		{cobra.Group{ID: "events", Title: "Webhooks:"}, webhooks.Commands(e)},
		{cobra.Group{ID: "data", Title: "Storage, data and evaluations:"}, data},
		{cobra.Group{ID: "any", Title: "Everything else:"}, []*cobra.Command{apiCommand(e)}},
	}
}

// AddCommands adds the commands to the root, in their groups.
func AddCommands(root *cobra.Command, p session.Program) {
	e := &session.Env{Program: p}
	for _, g := range groups(e) {
		root.AddGroup(&g.Group)
		for _, cmd := range g.commands {
			cmd.GroupID = g.ID
			e.AddGlobalFlags(cmd)
			root.AddCommand(cmd)
		}
	}
}
