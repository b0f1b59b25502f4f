package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// databaseShell is a prompt for statements on a database.
type databaseShell struct {
	*session
	path string // of the database in the API
}

const shellHelp = `Statements end with ; and run one by one, each in a transaction of its own.

  .tables   list tables and views
  .help     show this help
  .quit     leave, as Ctrl-D does`

func (e *env) databaseCommands() []*cobra.Command {
	var region, statement string
	shell := &cobra.Command{
		Use:   "shell DATABASE",
		Short: "Run SQL statements on a database",
		Long: `Run SQL statements on a database: those of --command, else those that are typed or piped into standard
input. ` + shellHelp + `

  steward db shell orders
  steward db shell orders -c 'SELECT count(*) FROM invoices'
  steward db shell orders < schema.sql`,
		Args: exactly("DATABASE"),
		RunE: e.command(func(ctx context.Context, s *session, args []string) error {
			in, err := s.input(ctx, verb{route: "GET /resource/{org}/{region}/{database}"}, args, region)
			if err != nil {
				return err
			}
			d := &databaseShell{s, in.expand("/resource/{org}/{region}/{database}")}
			if statement != "" {
				return d.run(ctx, statement)
			}
			return d.loop(ctx, args[0])
		}),
		ValidArgsFunction: e.completeArgs(verb{route: "GET /{database}"}),
	}
	shell.Flags().StringVarP(&statement, "command", "c", "", "run this `statement` and leave")
	shell.Flags().StringVar(&region, "region", "", "`region` (default: the only one)")
	complete(shell, "region", e.regionNames)
	return []*cobra.Command{shell}
}

func (d *databaseShell) loop(ctx context.Context, name string) error {
	p := d.newPrompt()
	if p.interactive() {
		d.note("%s\n", shellHelp)
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
		return d.out.Text("%s", shellHelp)
	case ".quit", ".exit":
		return errQuit
	}
	if strings.HasPrefix(strings.TrimSpace(statement), ".") {
		return usagef("unknown command %s; see .help", strings.Fields(statement)[0])
	}
	res, err := d.api.send(ctx, request{method: "POST", path: d.path + "/query", body: map[string]any{"query": statement}})
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
	if err := decodeInto(body, &r); err != nil {
		return err
	}
	if len(r.Columns) == 0 {
		if d.out.Tabular() {
			d.note("OK")
		}
		return nil
	}
	columns := make([]output.Column, len(r.Columns))
	for i, name := range r.Columns {
		columns[i] = output.Column{Title: output.Clean(name), Path: strconv.Itoa(i)}
	}
	list := d.out.List(columns)
	for _, row := range r.Rows {
		if err := list.Add(r.object(row, d.out.Tabular())); err != nil {
			return err
		}
	}
	if err := list.Close(); err != nil {
		return err
	}
	if list.Count() == 0 && d.out.Tabular() {
		d.note("No rows.")
	}
	if r.Truncated {
		d.note("There are more rows; only the first %d are shown.", len(r.Rows))
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
	list := d.out.List(tableColumns())
	for raw, err := range d.api.pages(ctx, d.path+"/tables", nil, "") {
		if err != nil {
			return err
		}
		if err := list.Add(raw); err != nil {
			return err
		}
	}
	if list.Count() == 0 && d.out.Tabular() {
		d.note("There are no tables.")
	}
	return list.Close()
}
