package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

// Query returns the command that runs one statement on a database over the API.
func Query(e *session.Env) *cobra.Command {
	var region string
	v := noun.Verb{Route: "POST /resource/{org}/{region}/{database}/query"}
	cmd := &cobra.Command{
		Use:   "query DATABASE [SQL] [VALUE …]",
		Short: "Run one SQL statement on a database and print its rows",
		Long: `Run one SQL statement on a database over the API and print its rows, 1,000 at most. - or no SQL reads the
statement from standard input. The values are those of the parameters, in their order (? for SQLite, $1 for
PostgreSQL): null, true, false, numbers, and what is in double quotes are JSON, anything else is text. Values
that begin with - come after --. For scripts with several statements, or for more rows, use steward db shell.

  steward db query orders 'SELECT * FROM invoices WHERE id = ?' 7
  steward db query orders 'UPDATE invoices SET paid = ? WHERE who = ?' true ada
  steward db query orders --jq '.[].who' < report.sql`,
		Args: session.Args("DATABASE", "[SQL]", "[VALUE …]"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			statement, err := readStatement(s, args[1:])
			if err != nil {
				return err
			}
			in, err := noun.NewInput(ctx, s, v, args[:1], region)
			if err != nil {
				return err
			}
			return query(ctx, s, in, statement, args[min(2, len(args)):])
		}),
		ValidArgsFunction: noun.CompleteArgs(e, v),
	}
	noun.AddRegion(e, cmd, &region, v)
	return cmd
}

// maxStatement bounds a statement that we read. The API accepts less.
const maxStatement = 16 << 20

// readStatement returns the statement from the arguments, or from standard input.
func readStatement(s *session.Session, args []string) (string, error) {
	var statement string
	switch {
	case len(args) > 0 && args[0] != "-":
		statement = args[0]
	case len(args) == 0 && session.IsTerminal(s.In):
		return "", exit.Usagef("name the statement, such as `steward db query orders 'SELECT 1'`, or write it to standard input")
	default:
		text, err := io.ReadAll(io.LimitReader(s.In, maxStatement))
		if err != nil {
			return "", fmt.Errorf("read the statement: %w", err)
		}
		statement = string(text)
	}
	if strings.TrimSpace(statement) == "" {
		return "", exit.Usagef("the statement is empty")
	}
	return statement, nil
}

// query runs a statement and prints its rows, or how many rows it changed.
func query(ctx context.Context, s *session.Session, in noun.Input, statement string, values []string) error {
	args := make([]any, len(values))
	for i, text := range values {
		args[i] = parameter(text)
	}
	res, err := s.API.Send(ctx, session.Request{
		Method: http.MethodPost, Path: in.Expand("/resource/{org}/{region}/{database}/query"),
		Query: url.Values{"type": {"db"}}, Body: client.NewQuery{Query: statement, Args: args},
	})
	if err != nil {
		return queryFailure(err)
	}
	var answer client.QueryResult
	if err := session.Decode(res.Body, &answer); err != nil {
		return err
	}
	if len(answer.Columns) == 0 {
		// Some servers do not count the changed rows.
		if !s.Printer.Tabular() {
			text, err := json.Marshal(map[string]*int64{"rows_affected": answer.RowsAffected})
			if err != nil {
				return err
			}
			return s.Printer.Item(text)
		}
		if answer.RowsAffected == nil {
			s.Note("OK")
			return nil
		}
		return result{changed: *answer.RowsAffected}.print(s)
	}
	if err := (result{columns: answer.Columns, rows: answer.Rows}).print(s); err != nil {
		return err
	}
	if answer.Truncated {
		s.Note("Only the first %d rows are shown; `steward db shell` shows all.", len(answer.Rows))
	}
	return nil
}

// parameter returns a parameter's value: a text in double quotes is JSON, so that "7" can be a text.
func parameter(text string) any {
	var quoted string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &quoted) == nil {
		return quoted
	}
	return noun.Scalar(text)
}

// queryFailure returns a statement's failure. If the server refuses it without naming a field, the
// database returned the error.
func queryFailure(err error) error {
	var e *exit.Error
	var refused *client.Error
	if errors.As(err, &e) && errors.As(err, &refused) && e.Code == exit.Invalid && len(refused.Fields) == 0 {
		failed := sqlError(e.Message)
		failed.RequestID, failed.Cause = e.RequestID, err
		return failed
	}
	return err
}

// splitSQL returns the statements in a text that end with a semicolon, and the rest. A line that
// begins with a dot is one of the shell's commands. Quotes, comments, dollar quotes and trigger
// bodies may contain semicolons.
func splitSQL(text string) (statements []string, rest string) {
	rest = text
	for i := 0; i < len(rest); {
		if i == 0 && strings.HasPrefix(strings.TrimSpace(rest), ".") {
			command, below, _ := strings.Cut(strings.TrimLeft(rest, " \t\r\n"), "\n")
			statements = append(statements, command)
			rest = below
			continue
		}
		size := tokenSize(rest[i:])
		i += size
		if statement := rest[:i]; rest[i-1] == ';' && size == 1 && !openTrigger(statement) {
			statements = append(statements, statement)
			rest = rest[i:]
			i = 0
		}
	}
	return statements, rest
}

// dollarQuote matches the beginning of a PostgreSQL text such as $$…$$ or $body$…$body$.
var dollarQuote = regexp.MustCompile(`^\$([A-Za-z_]\w*)?\$`)

// tokenSize returns the size of the quoted text or comment that a text begins with, or 1. If that
// does not end, it includes everything.
func tokenSize(text string) int {
	switch {
	case text[0] == '\'', text[0] == '"', text[0] == '`':
		return endOf(text, 1, text[:1])
	case strings.HasPrefix(text, "--"):
		return endOf(text, 2, "\n")
	case strings.HasPrefix(text, "/*"):
		return endOf(text, 2, "*/")
	}
	if tag := dollarQuote.FindString(text); tag != "" {
		return endOf(text, len(tag), tag)
	}
	return 1
}

// endOf returns the index after the first end in a text, searched from an index, or the text's
// length.
func endOf(text string, from int, end string) int {
	i := strings.Index(text[from:], end)
	if i < 0 {
		return len(text)
	}
	return from + i + len(end)
}

var (
	triggerBody = regexp.MustCompile(`(?is)^(\s|--[^\n]*\n|/\*.*?\*/)*create\s+(temp\w*\s+)?trigger\b.*\bbegin\b`)
	triggerEnd  = regexp.MustCompile(`(?is)\bend\s*;$`)
)

// openTrigger reports whether a text is a SQLite trigger whose body has not ended.
func openTrigger(statement string) bool {
	return triggerBody.MatchString(statement) && !triggerEnd.MatchString(statement)
}
