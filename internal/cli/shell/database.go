// Package shell has the commands that open a prompt on a resource, with editing and history on a
// terminal: SQL on databases and Redis commands on key-value stores. They read scripts from standard input
// as well.
package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// databaseShell is a prompt for statements on a database.
type databaseShell struct {
	*session.Session
	path string // of the database in the API
}

const shellHelp = `Statements end with ; and run one by one, each in a transaction of its own.

  .tables   list tables and views
  .help     show this help
  .quit     leave, as Ctrl-D does`

// Database returns the command that runs statements on a database.
func Database(e *session.Env) *cobra.Command {
	var region, statement string
	shell := &cobra.Command{
		Use:   "shell DATABASE",
		Short: "Run SQL statements on a database",
		Long: `Run SQL statements on a database: those of --command, else those that are typed or piped into standard
input. ` + shellHelp + `

  steward db shell orders
  steward db shell orders -c 'SELECT count(*) FROM invoices'
  steward db shell orders < schema.sql`,
		Args: session.Args("DATABASE"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			in, err := noun.NewInput(ctx, s, noun.Verb{Route: "GET /resource/{org}/{region}/{database}"}, args, region)
			if err != nil {
				return err
			}
			d := &databaseShell{s, in.Expand("/resource/{org}/{region}/{database}")}
			if statement != "" {
				return d.run(ctx, statement)
			}
			return d.loop(ctx, args[0])
		}),
		ValidArgsFunction: noun.CompleteArgs(e, noun.Verb{Route: "GET /{database}"}),
	}
	shell.Flags().StringVarP(&statement, "command", "c", "", "run this `statement` and leave")
	shell.Flags().StringVar(&region, "region", "", "`region` (default: the only one)")
	session.Complete(shell, "region", func() []string { return noun.RegionNames(e) })
	return shell
}

func (d *databaseShell) loop(ctx context.Context, name string) error {
	p := newPrompt(d.Env)
	if p.interactive() {
		d.Note("%s\n", shellHelp)
	}
	err := p.each(ctx, name, completeStatement, func(statement string) error { return d.run(ctx, statement) })
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// completeStatement reports whether a statement ends here.
func completeStatement(statement string) bool {
	trimmed := strings.TrimSpace(statement)
	return strings.HasPrefix(trimmed, ".") || strings.HasSuffix(trimmed, ";") && !insideQuotes(trimmed)
}

// insideQuotes reports whether a statement ends within a text or a quoted name.
func insideQuotes(statement string) bool {
	return strings.Count(statement, "'")%2 == 1 || strings.Count(statement, `"`)%2 == 1
}

// run runs a statement or a command of the shell.
func (d *databaseShell) run(ctx context.Context, statement string) error {
	switch strings.TrimSuffix(strings.TrimSpace(statement), ";") {
	case ".tables":
		return d.printTables(ctx)
	case ".help":
		return d.Printer.Text("%s", shellHelp)
	case ".quit", ".exit":
		return errQuit
	}
	if strings.HasPrefix(strings.TrimSpace(statement), ".") {
		return exit.Usagef("unknown command %s; see .help", strings.Fields(statement)[0])
	}
	res, err := d.API.Send(ctx, session.Request{Method: "POST", Path: d.path + "/query", Body: map[string]any{"query": statement}})
	if err != nil {
		return err
	}
	return d.printResult(res.Body)
}

// result is the response to a statement.
type result struct {
	Columns   []string
	Rows      [][]json.RawMessage
	Truncated bool
}

func (d *databaseShell) printResult(body json.RawMessage) error {
	var r result
	if err := session.Decode(body, &r); err != nil {
		return err
	}
	if len(r.Columns) == 0 {
		if d.Printer.Tabular() {
			d.Note("OK")
		}
		return nil
	}
	columns := make([]output.Column, len(r.Columns))
	for i, name := range r.Columns {
		columns[i] = output.Column{Title: output.Clean(name), Path: strconv.Itoa(i)}
	}
	list := d.Printer.List(columns)
	for _, row := range r.Rows {
		if err := list.Add(r.object(row, d.Printer.Tabular())); err != nil {
			return err
		}
	}
	if err := list.Close(); err != nil {
		return err
	}
	if list.Count() == 0 && d.Printer.Tabular() {
		d.Note("No rows.")
	}
	if r.Truncated {
		d.Note("There are more rows; only the first %d are shown.", len(r.Rows))
	}
	return nil
}

// object returns a row as an object, whose members are the columns: by number for a table, where two may
// have the same name.
func (r result) object(row []json.RawMessage, numbered bool) json.RawMessage {
	var b strings.Builder
	for i, value := range row {
		name := strconv.Itoa(i)
		if !numbered {
			name = r.Columns[i]
		}
		key, err := json.Marshal(name)
		if err != nil {
			panic(err) // strings can be encoded
		}
		fmt.Fprintf(&b, ",%s:%s", key, value)
	}
	return json.RawMessage("{" + strings.TrimPrefix(b.String(), ",") + "}")
}

func (d *databaseShell) printTables(ctx context.Context) error {
	list := d.Printer.List(TableColumns())
	for raw, err := range d.API.Pages(ctx, d.path+"/tables", nil, "") {
		if err != nil {
			return err
		}
		if err := list.Add(raw); err != nil {
			return err
		}
	}
	if list.Count() == 0 && d.Printer.Tabular() {
		d.Note("There are no tables.")
	}
	return list.Close()
}

// TableColumns returns the columns of a list of tables.
func TableColumns() []output.Column {
	return []output.Column{
		output.ID("NAME", "name"), noun.Column("TYPE", "type"), {Title: "COLUMNS", Value: columnNames}, {Title: "SCHEMA", Path: "schema", Wide: true},
	}
}

// columnNames returns the columns of a table, with their types.
func columnNames(table map[string]any) any {
	var names []any
	columns, _ := table["columns"].([]any)
	for _, c := range columns {
		if c, ok := c.(map[string]any); ok {
			names = append(names, strings.TrimSpace(fmt.Sprintf("%v %v", c["name"], c["type"])))
		}
	}
	return names
}
