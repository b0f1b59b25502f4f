// Package shell has the commands that open a prompt on a resource, with editing and history on a
// terminal: SQL on databases and Redis commands on key-value stores. They read scripts from standard
// input as well.
package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

type databaseShell struct {
	*session.Session
	database database
	path     string // the database's, in the API
}

// database is a connection to a database, with its own credentials.
type database interface {
	// query runs a statement. A transaction that it begins goes on until another statement ends it.
	query(ctx context.Context, statement string) (result, error)
	close()
}

const shellHelp = `Statements end with ; and run one by one. BEGIN begins a transaction.

  .tables   list tables and views
  .help     show this help
  .quit     leave, as Ctrl-D does`

// Database returns the command that runs statements on a database.
func Database(e *session.Env) *cobra.Command {
	var region, statement string
	v := noun.Verb{Route: "GET /resource/{org}/{region}/{database}"}
	shell := &cobra.Command{
		Use:   "shell DATABASE",
		Short: "Run SQL statements on a database",
		Long: `Run SQL statements on a database, with its own credentials and protocol (libSQL or PostgreSQL): those of
--command, else those that are typed or piped into standard input. ` + shellHelp + `

  steward db shell orders
  steward db shell orders -c 'SELECT count(*) FROM invoices'
  steward db shell orders < schema.sql`,
		Args: session.Args("DATABASE"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			in, err := noun.NewInput(ctx, s, v, args, region)
			if err != nil {
				return err
			}
			database, err := openDatabase(ctx, s, in)
			if err != nil {
				return err
			}
			defer database.close()
			d := &databaseShell{s, database, in.Expand("/resource/{org}/{region}/{database}")}
			if statement != "" {
				return d.runAll(ctx, statement)
			}
			return d.loop(ctx, args[0])
		}),
		ValidArgsFunction: noun.CompleteArgs(e, v),
	}
	shell.Flags().StringVarP(&statement, "command", "c", "", "run this `statement` and leave")
	noun.AddRegion(e, shell, &region, v)
	return shell
}

// entry has the credentials that a client needs for a database or a key-value store.
type entry struct {
	Engine string
	Env    map[string]string
}

// findEntry returns the entry for the resource that a placeholder names.
func findEntry(ctx context.Context, s *session.Session, placeholder, variable string, in noun.Input) (e entry, err error) {
	raw, err := noun.Find(ctx, s, placeholder, in)
	if err != nil {
		return e, err
	}
	if err := session.Decode(raw, &e); err != nil {
		return e, err
	}
	if e.Env[variable] == "" {
		return e, &exit.Error{
			Code: exit.Denied, Message: "you may not see the credentials of " + in.Path[placeholder],
			Advice: "The role member is required; see `steward whoami`.",
		}
	}
	return e, nil
}

func openDatabase(ctx context.Context, s *session.Session, in noun.Input) (database, error) {
	e, err := findEntry(ctx, s, "database", "DATABASE_URL", in)
	if err != nil {
		return nil, err
	}
	if e.Engine == "postgres" {
		conn, err := pgconn.Connect(ctx, e.Env["DATABASE_URL"])
		if err != nil {
			return nil, session.Unreachable(errors.New(withoutURL(err)), "the database")
		}
		return &postgres{conn}, nil
	}
	return &libsql{url: e.Env["DATABASE_URL"], token: e.Env["DATABASE_AUTH_TOKEN"]}, nil
}

func (d *databaseShell) loop(ctx context.Context, name string) error {
	p := newPrompt(d.Env)
	if p.interactive() {
		d.Note("%s\n", shellHelp)
	}
	err := p.each(ctx, name, splitSQL, func(statement string) error { return d.run(ctx, statement) })
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (d *databaseShell) runAll(ctx context.Context, text string) error {
	statements, rest := splitSQL(text)
	for _, statement := range append(statements, rest) {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := d.run(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// run runs a statement or one of the shell's commands.
func (d *databaseShell) run(ctx context.Context, statement string) error {
	switch strings.TrimSuffix(strings.TrimSpace(statement), ";") {
	case ".tables":
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
	case ".help":
		return d.Printer.Text("%s", shellHelp)
	case ".quit", ".exit":
		return errQuit
	}
	if strings.HasPrefix(strings.TrimSpace(statement), ".") {
		return exit.Usagef("unknown command %s; see .help", strings.Fields(statement)[0])
	}
	r, err := d.database.query(ctx, statement)
	if err != nil {
		return err
	}
	return r.print(d.Session)
}

// sqlError returns the error for a statement that the database refuses.
func sqlError(message string) *exit.Error {
	return &exit.Error{Code: exit.Invalid, Message: "SQL error: " + message}
}

// result is a statement's result: columns and rows of JSON values, or how many rows it changed.
type result struct {
	columns []string
	rows    [][]json.RawMessage
	changed int64
}

// print prints a result, or for people how many rows were changed.
func (r result) print(s *session.Session) error {
	if len(r.columns) == 0 {
		if s.Printer.Tabular() {
			s.Note("OK, %s changed", output.Plural(r.changed, "row"))
		}
		return nil
	}
	columns := make([]output.Column, len(r.columns))
	for i, name := range r.columns {
		columns[i] = output.Column{Title: output.Clean(name), Path: strconv.Itoa(i), Kind: output.SQL}
	}
	list := s.Printer.List(columns)
	for _, row := range r.rows {
		if err := list.Add(r.object(row, s.Printer.Tabular())); err != nil {
			return err
		}
	}
	if err := list.Close(); err != nil {
		return err
	}
	if list.Count() == 0 && s.Printer.Tabular() {
		s.Note("No rows.")
	}
	return nil
}

// object returns a row as an object, whose members are the columns: by number for a table, where two
// may have the same name.
func (r result) object(row []json.RawMessage, numbered bool) json.RawMessage {
	var b strings.Builder
	for i, value := range row {
		name := strconv.Itoa(i)
		if !numbered {
			name = r.columns[i]
		}
		key, err := json.Marshal(name)
		if err != nil {
			panic(err) // strings can be encoded
		}
		fmt.Fprintf(&b, ",%s:%s", key, value)
	}
	return json.RawMessage("{" + strings.TrimPrefix(b.String(), ",") + "}")
}

// TableColumns returns the columns for a list of tables.
func TableColumns() []output.Column {
	return []output.Column{
		output.Name("NAME", "name"), noun.Column("TYPE", "type"), {Title: "COLUMNS", Value: columnNames}, {Title: "SCHEMA", Path: "schema", Wide: true},
	}
}

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
