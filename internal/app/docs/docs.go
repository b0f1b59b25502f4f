// Package docs generates the commands' documentation: man pages, and the reference as Markdown.
package docs

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"steward/internal/app/config"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
)

// Command returns the parent of the commands that generate documentation for their own root command.
func Command(p session.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Generate the documentation of the commands",
		Args:  config.NoArguments,
		RunE:  session.ShowHelp,
	}
	cmd.AddCommand(manCommand(p), markdownCommand(p), settingsCommand(p))
	return cmd
}

func manCommand(p session.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write a man page for each command into a directory",
		Args:  config.OneArgument("directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the directory: %w", err)
			}
			header := &doc.GenManHeader{Title: "STEWARD", Section: "1", Source: "Steward " + p.Version, Manual: "Steward"}
			return doc.GenManTree(documented(cmd.Root()), header, args[0])
		},
	}
}

func markdownCommand(p session.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "markdown",
		Short: "Print the reference of all commands as Markdown",
		Args:  config.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := reference(cmd.Root())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(p.Out, text)
			return err
		},
	}
}

func settingsCommand(p session.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "settings",
		Short: "Print the reference of all settings as Markdown",
		Args:  config.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(p.Out, config.Reference())
			return err
		},
	}
}

// documented returns the commands without the parts that vary between days and machines.
func documented(root *cobra.Command) *cobra.Command {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	return root
}

const referenceHead = `# Commands

One binary is the server and its client. This page is generated from the commands themselves
(` + "`make docs`" + `); ` + "`steward help COMMAND`" + ` prints the same, and ` + "`steward docs man DIRECTORY`" + ` writes man pages.

## Servers and credentials

` + "`steward login URL`" + ` signs in and stores the credentials as a *context*, in the file
` + "`steward/contexts.json`" + ` of the user's configuration directory (` + "`$XDG_CONFIG_HOME`" + `), which only the user can
read. A command uses the context of ` + "`--context`" + `, else ` + "`STEWARD_URL`" + ` and ` + "`STEWARD_KEY`" + ` of the environment, else the
current context. The commands of the server ignore these two variables.

## Output

Tables (` + "`-o table`" + `, the default) are cut to the width of the terminal: ids shrink first, names last, and without a terminal
nothing is cut. ` + "`-o wide`" + ` shows all columns in full. ` + "`-o json`" + ` prints the body of the API, lists as arrays, ` + "`-o yaml`" + ` the
same as YAML, and ` + "`-o ndjson`" + ` one line for each item. Tables have times relative to now, and sizes and durations with the
units of the console (1 kB is 1,000 bytes); the other formats have them exact.

` + "`--jq`" + ` prints what a [jq](https://jqlang.org/manual/) expression selects of the JSON, one result on each line: texts as they
are, anything else as JSON. jq need not be installed. A list is one array, or with ` + "`-o ndjson`" + ` one item after the other:

` + "```" + `sh
steward webhook list --jq '.[].id'
steward webhook delivery list orders --limit 0 -o ndjson --jq 'select(.status == "failed") | .error'
` + "```" + `

Colours are used on a terminal only, and never if ` + "`NO_COLOR`" + ` is set. Results go to standard output; everything else goes
to standard error.

All client commands have these flags:

` + "```" + `
      --context context   use the server of this context
      --jq expression     print what this jq expression selects of the JSON
  -o, --output format     output format: table, wide, json, yaml or ndjson (default table)
  -v, --verbose           print each request to standard error
  -y, --yes               do not ask before something is deleted
` + "```" + `

## Completion

` + "`steward completion bash|zsh|fish`" + ` prints a script that completes commands, flags, and the names and ids of what the
server has:

| shell | line for its configuration | in |
|---|---|---|
| bash, with the package bash-completion | ` + "`source <(steward completion bash)`" + ` | ` + "`~/.bashrc`" + ` |
| zsh | ` + "`autoload -U compinit && compinit && source <(steward completion zsh)`" + ` | ` + "`~/.zshrc`" + ` |
| fish | ` + "`steward completion fish \\| source`" + ` | ` + "`~/.config/fish/config.fish`" + ` |

## Exit codes

| code | meaning |
|---|---|
`

// reference returns the reference of all commands as Markdown.
func reference(root *cobra.Command) (string, error) {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, c := range exit.Codes() {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	b.WriteString("\n")
	err := writeReference(&b, documented(root))
	return strings.TrimRight(b.String(), "\n") + "\n", err
}

// writeReference writes the section for a command and for those below it.
func writeReference(b *strings.Builder, cmd *cobra.Command) error {
	if !cmd.IsAvailableCommand() && cmd.HasParent() || cmd.Name() == "help" || cmd.Name() == "completion" {
		return nil
	}
	if cmd.Runnable() && !cmd.HasSubCommands() {
		if err := writeCommand(b, cmd); err != nil {
			return err
		}
	}
	for _, below := range cmd.Commands() {
		if err := writeReference(b, below); err != nil {
			return err
		}
	}
	return nil
}

// writeCommand writes one command's section.
func writeCommand(b *strings.Builder, cmd *cobra.Command) error {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(b, "## %s\n\n%s\n\n", cmd.CommandPath(), fenced(sentence(text)))
	var usage bytes.Buffer
	fmt.Fprintf(&usage, "%s\n", cmd.UseLine())
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&usage, "\nAliases: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if flags := cmd.LocalNonPersistentFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(&usage, "\n%s", flags)
	}
	_, err := fmt.Fprintf(b, "```\n%s```\n\n", usage.String())
	return err
}

// fenced returns a text in which indented paragraphs have become code blocks.
func fenced(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, "  ") {
			paragraphs[i] = "```\n" + strings.ReplaceAll(p[2:], "\n  ", "\n") + "\n```"
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// sentence returns a text that ends with a period.
func sentence(text string) string {
	if strings.ContainsAny(text[len(text)-1:], ".:`'") || strings.Contains(text, "\n  ") {
		return text
	}
	return text + "."
}
