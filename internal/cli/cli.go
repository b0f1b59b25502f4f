// Package cli has the commands of steward that use a server: sign-in, a noun for each area of the API
// with its verbs, transfers of objects, shells, and the tail and replay of webhooks.
//
// Program builds the commands. A command opens a session: the server and credentials of --context,
// else of the environment, else of the current context (session.go), over the public package client.
// The nouns are tables (noun*.go) from which commands, flags, help and completion are made (verb*.go).
// Results are printed by package output. What goes wrong becomes a message that says what to do next,
// and an exit code (failure.go).
package cli

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Program is what the commands get from the process.
type Program struct {
	Environ  []string // as os.Environ returns it
	In       io.Reader
	Out, Err io.Writer
	Version  string
}

// The groups of commands in the help.
const (
	groupAccount = "account"
	groupData    = "data"
	groupEvents  = "events"
	groupAny     = "any"
)

// Groups returns the groups of the commands.
func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: groupAccount, Title: "Sign-in and access:"},
		{ID: groupEvents, Title: "Webhooks:"},
		{ID: groupData, Title: "Storage, data and evaluations:"},
		{ID: groupAny, Title: "Everything else:"},
	}
}

// Commands returns the commands.
func (p Program) Commands() []*cobra.Command {
	e := &env{Program: p}
	commands := []*cobra.Command{
		e.loginCommand(), e.logoutCommand(), e.whoamiCommand(), e.contextCommand(), e.apiCommand(), e.objectCommand(),
	}
	commands = append(commands, e.nounCommands()...)
	for _, c := range commands {
		e.addGlobalFlags(c)
	}
	return commands
}

// env is what the commands share: the process, and the flags that all of them have.
type env struct {
	Program
	format  string
	context string
	yes     bool
	verbose bool
}

// getenv returns an environment variable, or "".
func (e *env) getenv(name string) string {
	for _, line := range e.Environ {
		key, value, _ := strings.Cut(line, "=")
		if key == name {
			return value
		}
	}
	return ""
}

// terminal returns the file descriptor of a stream and whether it is a terminal.
func terminal(stream any) (fd int, ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	_, ok := terminal(stream)
	return ok
}
