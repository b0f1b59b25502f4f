package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

type apiFlags struct {
	fields, raw []string
	input       string
	paginate    bool
}

func apiCommand(e *session.Env) *cobra.Command {
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "api [METHOD] PATH",
		Short: "Call any route of the API",
		Long: `Call any route of the API and print the body of its response, as JSON unless -o says otherwise. Without
METHOD it is a GET. The routes are described at URL/docs.

  steward api /webhook/analytics/org
  steward api /thread --paginate -f projectId=prj_1 --jq '.[].id'
  steward api POST /cli/project -f name=demo
  steward api POST /webhook/destination-create/wh_1 -f type=url -f config.url=https://example.com -f config.max_retries=3
  steward api POST /cli/apikey -f name=ci -f scopes[]=thread:read -f scopes[]=eval:read
  steward api PUT /thread/t1 -f project_id=prj_1 -f user_data=@notes.txt
  steward api PUT /cli/eval/e1 --input eval.json

A field is a parameter of the query for GET, HEAD and DELETE, else a member of the JSON body. There true,
false, null, numbers, and values that begin with { or [ are JSON, @file is the text of a file, @- that of
standard input, and anything else is text. With --raw-field every value is text as it is. Dots and brackets
make objects and arrays: config.url=… or config[url]=…, scopes[]=….`,
		Args: session.Args("[METHOD]", "PATH"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			method := http.MethodGet
			if len(args) == 2 {
				method = strings.ToUpper(args[0])
			}
			return call(ctx, s, method, args[len(args)-1], flags)
		}),
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 && !strings.HasPrefix(typed, "/") {
				return []string{"GET", "POST", "PUT", "DELETE"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringArrayVarP(&flags.fields, "field", "f", nil, "`name=value`; can be repeated")
	cmd.Flags().StringArrayVar(&flags.raw, "raw-field", nil, "`name=value` of a text; can be repeated")
	cmd.Flags().StringVar(&flags.input, "input", "", "`file` with the body; - is standard input")
	cmd.Flags().BoolVar(&flags.paginate, "paginate", false, "print the items of all pages of a list")
	return cmd
}

func call(ctx context.Context, s *session.Session, method, path string, flags apiFlags) error {
	req, err := buildCall(s, method, path, flags)
	if err != nil {
		return err
	}
	if !s.HasFormat() {
		s.Printer.Format = output.JSON
	}
	if flags.paginate {
		if method != http.MethodGet {
			return exit.Usagef("--paginate needs GET")
		}
		return noun.PrintList(ctx, s, nil, s.API.Pages(ctx, req.Path, req.Query, ""), noun.ListFlags{})
	}
	res, err := s.API.Send(ctx, req)
	if err != nil {
		return err
	}
	if !json.Valid(res.Body) {
		_, err := s.Out.Write(res.Body)
		return err
	}
	return s.Printer.Item(res.Body)
}

func buildCall(s *session.Session, method, path string, flags apiFlags) (session.Request, error) {
	address, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") {
		return session.Request{}, exit.Usagef("PATH must be a path that begins with /, such as /webhook/list")
	}
	if flags.input != "" && method == http.MethodGet {
		return session.Request{}, exit.Usagef("--input needs a method that has a body, such as POST")
	}
	req := session.Request{Method: method, Path: address.EscapedPath(), Query: address.Query()}
	fields, err := parseFields(flags, s.In)
	if err != nil {
		return req, err
	}
	if flags.input != "" || method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete {
		for _, f := range fields {
			req.Query.Add(f.name, f.text)
		}
	} else if len(fields) > 0 {
		req.Body, err = body(fields)
	}
	if err != nil || flags.input == "" {
		return req, err
	}
	req.Body, err = readBody(s, flags.input)
	return req, err
}

func readBody(s *session.Session, name string) (json.RawMessage, error) {
	text, err := readText(name, s.In)
	if err != nil {
		return nil, err
	}
	if !json.Valid([]byte(text)) {
		return nil, exit.Usagef("the body in %s is not JSON", name)
	}
	return json.RawMessage(text), nil
}

// apiField is a field in a request: a text, and the JSON value that it stands for.
type apiField struct {
	name, text string
	value      any
}

func parseFields(flags apiFlags, stdin io.Reader) (fields []apiField, err error) {
	for _, text := range flags.fields {
		f, err := cutField(text, "-f")
		if err != nil {
			return nil, err
		}
		f.value = guess(f.text)
		if name, isFile := strings.CutPrefix(f.text, "@"); isFile {
			f.text, err = readText(name, stdin)
			f.value = f.text
		}
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	for _, text := range flags.raw {
		f, err := cutField(text, "--raw-field")
		if err != nil {
			return nil, err
		}
		f.value = f.text
		fields = append(fields, f)
	}
	return fields, nil
}

func cutField(text, flag string) (f apiField, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return f, exit.Usagef("%s must be name=value", flag)
	}
	return apiField{name: name, text: value}, nil
}

// guess returns the JSON value that a text stands for, or the text.
func guess(text string) any {
	isNested := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
	if isNested && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return noun.Scalar(text)
}

// maxInput bounds how much we read from a file. The API accepts less.
const maxInput = 64 << 20

// readText returns the text in a file, or from standard input.
func readText(name string, stdin io.Reader) (string, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", &exit.Error{Code: exit.Usage, Message: err.Error(), Cause: err}
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(text), nil
}

func body(fields []apiField) (any, error) {
	var root any = map[string]any{}
	for _, f := range fields {
		path, err := splitPath(f.name)
		if err != nil {
			return nil, err
		}
		root, err = put(root, path, f.value)
		if err != nil {
			return nil, exit.Usagef("-f %s: %v", f.name, err)
		}
	}
	return root, nil
}

// step matches a step in a path: a name, .name, [name] or [].
var step = regexp.MustCompile(`^(?:\.?([^.\[\]]+)|\[([^\[\]]*)\])`)

// splitPath returns the names in a path. An array's next item is "".
func splitPath(path string) (names []string, err error) {
	for rest := path; rest != ""; {
		m := step.FindStringSubmatch(rest)
		first := len(names) == 0
		if m == nil || first != !strings.ContainsAny(rest[:1], ".[") {
			return nil, exit.Usagef("-f %s: a name is such as a, a.b, a[b] or a[]", path)
		}
		names = append(names, m[1]+m[2])
		rest = rest[len(m[0]):]
	}
	return names, nil
}

// put sets the value at a path below an object or array, and returns that object or array.
func put(into any, path []string, value any) (any, error) {
	if len(path) == 0 {
		if into != nil {
			return nil, fmt.Errorf("the field is given twice")
		}
		return value, nil
	}
	if path[0] == "" {
		list, ok := into.([]any)
		if into != nil && !ok {
			return nil, fmt.Errorf("it is an array here and not elsewhere")
		}
		item, err := put(nil, path[1:], value)
		return append(list, item), err
	}
	members, ok := into.(map[string]any)
	if into == nil {
		members = map[string]any{}
	} else if !ok {
		return nil, fmt.Errorf("it is an object here and not elsewhere")
	}
	var err error
	members[path[0]], err = put(members[path[0]], path[1:], value)
	return members, err
}
