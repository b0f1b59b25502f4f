package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

func apiCommand(e *session.Env) *cobra.Command {
	var fields []string
	var input string
	cmd := &cobra.Command{
		Use:   "api METHOD PATH",
		Short: "Call any route of the API",
		Long: `Call any route of the API and print the body of its response. The routes are described at URL/docs.

  steward api GET /webhook/analytics/org
  steward api GET /thread -f limit=5
  steward api POST /cli/project -f name=demo
  steward api PUT /cli/eval/e1 --input eval.json

A field is a parameter of the query for GET, HEAD and DELETE, else a member of the JSON body. There true,
false, null, numbers, and values that begin with { or [ are JSON; anything else is text, also after :=
as in name:=5. Dots make objects: config.url=https://example.com.`,
		Args: session.Args("METHOD", "PATH"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			return call(ctx, s, strings.ToUpper(args[0]), args[1], fields, input)
		}),
	}
	cmd.Flags().StringArrayVarP(&fields, "field", "f", nil, "`name=value`; can be repeated")
	cmd.Flags().StringVar(&input, "input", "", "`file` with the body; - is standard input")
	return cmd
}

func call(ctx context.Context, s *session.Session, method, path string, fields []string, input string) error {
	req, err := buildCall(s, method, path, fields, input)
	if err != nil {
		return err
	}
	res, err := s.API.Send(ctx, req)
	if err != nil {
		return err
	}
	if !json.Valid(res.Body) {
		_, err := s.Out.Write(res.Body)
		return err
	}
	if s.Printer.Tabular() {
		s.Printer.Format = "json"
	}
	return s.Printer.Item(res.Body)
}

func buildCall(s *session.Session, method, path string, fields []string, input string) (session.Request, error) {
	if !strings.HasPrefix(path, "/") {
		return session.Request{}, exit.Usagef("PATH must begin with /, such as /webhook/list")
	}
	address, err := url.Parse(path)
	if err != nil {
		return session.Request{}, exit.Usagef("PATH must be a path, such as /webhook/list")
	}
	req := session.Request{Method: method, Path: address.EscapedPath(), Query: address.Query()}
	inQuery := input != "" || method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete
	body := map[string]any{}
	for _, f := range fields {
		if err := addField(req.Query, body, f, inQuery); err != nil {
			return session.Request{}, err
		}
	}
	if len(body) > 0 {
		req.Body = body
	}
	if input == "" {
		return req, nil
	}
	req.Body, err = readBody(s, input)
	return req, err
}

// addField adds name=value to a query or a body.
func addField(query url.Values, body map[string]any, text string, inQuery bool) error {
	name, value, ok := strings.Cut(text, "=")
	literal := strings.HasSuffix(name, ":")
	name = strings.TrimSuffix(name, ":")
	if !ok || name == "" {
		return exit.Usagef("-f must be name=value")
	}
	if inQuery {
		query.Add(name, value)
		return nil
	}
	parsed := any(value)
	if !literal {
		parsed = guess(value)
	}
	noun.SetMember(body, name, parsed)
	return nil
}

// guess returns the JSON value that a text stands for, or the text.
func guess(text string) any {
	if _, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
		return json.Number(text)
	}
	switch {
	case text == "true", text == "false", text == "null", strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		var value any
		if err := json.Unmarshal([]byte(text), &value); err == nil {
			return value
		}
	}
	return text
}

// maxInput bounds the body that a user sends. The API accepts less.
const maxInput = 64 << 20

func readBody(s *session.Session, name string) (json.RawMessage, error) {
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, &exit.Error{Code: exit.Usage, Message: fmt.Sprintf("--input: %v", err)}
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if !json.Valid(text) {
		return nil, &exit.Error{Code: exit.Usage, Message: "the body is not JSON", Cause: errors.New("invalid JSON")}
	}
	return text, nil
}
