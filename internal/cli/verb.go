package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// noun is an area of the API, with what can be done there.
type noun struct {
	name    string // on the command line
	aliases []string
	thing   string // in sentences
	group   string
	short   string
	columns []output.Column
	verbs   []verb
	nouns   []noun // below it: webhook destination
	// more returns commands that are not in the table.
	more func(e *env) []*cobra.Command
}

// verb is something that can be done. Its route decides how: GET of a list prints a table, GET of an
// item its fields, DELETE asks first.
type verb struct {
	name    string
	aliases []string
	short   string
	// route is a method and a path. A placeholder such as {webhook} is an argument, in its order, and
	// may be an id or a name (lookups); {org} and {region} are filled in.
	route string
	// args are further arguments, each of them a field of the body.
	args []field
	// fields are flags: of the query for a GET, else of the body.
	fields []field
	list   bool // the response is a list
	pick   string
	// columns are those of this list, if they are not those of the noun.
	columns []output.Column
	// with is what else is destroyed, for the question before a DELETE.
	with string
	// note is printed after success.
	note string
	// fixed are members of the query or the body.
	fixed map[string]any
	// base returns the body that the fields change, if the route replaces it as a whole.
	base func(ctx context.Context, s *session, in input) (map[string]any, error)
	// wrap returns the body of the request from the fields.
	wrap func(body map[string]any) any
	// show returns what is printed of the response.
	show func(in input, body json.RawMessage) (json.RawMessage, error)
	// run replaces all of the above.
	run func(ctx context.Context, s *session, in input) error
}

// input is a parsed command line: the value of each placeholder, resolved to an id, the name under which
// the user knows it, and the fields.
type input struct {
	path   map[string]string
	labels map[string]string
	fields map[string]any
	last   string // the last placeholder
}

// nounCommands returns a command for each noun.
func (e *env) nounCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, n := range nouns() {
		commands = append(commands, e.nounCommand(n))
	}
	return commands
}

func (e *env) nounCommand(n noun) *cobra.Command {
	cmd := &cobra.Command{
		Use: n.name, Aliases: n.aliases, Short: n.short, GroupID: n.group, Args: exactly(), RunE: showHelp,
	}
	for _, v := range n.verbs {
		cmd.AddCommand(e.verbCommand(n, v))
	}
	for _, below := range n.nouns {
		cmd.AddCommand(e.nounCommand(below))
	}
	if n.more != nil {
		cmd.AddCommand(n.more(e)...)
	}
	return cmd
}

func (e *env) verbCommand(n noun, v verb) *cobra.Command {
	names := v.argNames()
	cmd := &cobra.Command{
		Use:     strings.Join(append([]string{v.name}, names...), " "),
		Aliases: v.aliases,
		Short:   v.short,
		Args:    exactly(names...),
	}
	cmd.ValidArgsFunction = e.completeArgs(v)
	read := addFields(e, cmd, v.fields)
	region := ""
	if strings.Contains(v.route, "{region}") {
		cmd.Flags().StringVar(&region, "region", "", "`region` (default: the only one)")
		complete(cmd, "region", e.regionNames)
	}
	var page listFlags
	if v.list {
		page.add(cmd)
	}
	cmd.RunE = e.command(func(ctx context.Context, s *session, args []string) error {
		in, err := s.input(ctx, v, args, region)
		if err != nil {
			return err
		}
		if err := read(in.fields); err != nil {
			return err
		}
		switch {
		case v.run != nil:
			return v.run(ctx, s, in)
		case v.list:
			return s.printList(ctx, n, v, in, page)
		case v.method() == http.MethodDelete:
			return s.remove(ctx, n, v, in)
		}
		return s.change(ctx, v, in)
	})
	return cmd
}

func (v verb) method() string { method, _, _ := strings.Cut(v.route, " "); return method }

func (v verb) pattern() string { _, path, _ := strings.Cut(v.route, " "); return path }

// placeholders returns the names in braces of the route that users give.
func (v verb) placeholders() (names []string) {
	for part := range strings.SplitSeq(v.pattern(), "/") {
		name, isName := strings.CutPrefix(part, "{")
		name = strings.TrimSuffix(name, "}")
		if isName && name != "org" && name != "region" {
			names = append(names, name)
		}
	}
	return names
}

// argNames returns the names of the arguments as the help shows them.
func (v verb) argNames() (names []string) {
	for _, p := range v.placeholders() {
		names = append(names, strings.ToUpper(strings.ReplaceAll(p, "-", "_")))
	}
	for _, a := range v.args {
		name := strings.ToUpper(a.name)
		if a.optional {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return names
}

// input resolves the arguments of a verb.
func (s *session) input(ctx context.Context, v verb, args []string, region string) (input, error) {
	in := input{path: map[string]string{}, labels: map[string]string{}, fields: map[string]any{}}
	if strings.Contains(v.route, "{region}") {
		if err := s.place(ctx, in, region); err != nil {
			return in, err
		}
	}
	for i, name := range v.placeholders() {
		id, err := s.resolve(ctx, name, args[i], in)
		if err != nil {
			return in, err
		}
		in.path[name] = id
		in.labels[name] = args[i]
		in.last = name
	}
	for i, text := range args[len(v.placeholders()):] {
		if err := v.args[i].set(in.fields, []string{text}); err != nil {
			return in, err
		}
	}
	return in, nil
}

// place fills in the organization and the region.
func (s *session) place(ctx context.Context, in input, region string) (err error) {
	in.path["org"], err = s.orgID(ctx)
	if err != nil {
		return err
	}
	in.path["region"] = region
	if region == "" {
		in.path["region"], err = s.onlyRegion(ctx)
	}
	return err
}

// expand returns a path with its placeholders filled in.
func (in input) expand(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if name, isName := strings.CutPrefix(part, "{"); isName {
			parts[i] = url.PathEscape(in.path[strings.TrimSuffix(name, "}")])
		}
	}
	return strings.Join(parts, "/")
}

// query returns the fields as a query.
func (v verb) query(in input) url.Values {
	query := url.Values{}
	for _, members := range []map[string]any{v.fixed, in.fields} {
		for name, value := range members {
			query.Set(name, fmt.Sprint(value))
		}
	}
	return query
}

// body returns the body of the request.
func (v verb) body(ctx context.Context, s *session, in input) (any, error) {
	body := map[string]any{}
	if v.base != nil {
		var err error
		body, err = v.base(ctx, s, in)
		if err != nil {
			return nil, err
		}
	}
	for name, value := range v.fixed {
		body[name] = value
	}
	merge(body, in.fields)
	if v.wrap != nil {
		return v.wrap(body), nil
	}
	return body, nil
}

// merge copies members, and those of objects in them, into a body.
func merge(body, members map[string]any) {
	for name, value := range members {
		below, isObject := value.(map[string]any)
		into, exists := body[name].(map[string]any)
		if isObject && exists {
			merge(into, below)
			continue
		}
		body[name] = value
	}
}

// change runs a verb whose response is an item or nothing.
func (s *session) change(ctx context.Context, v verb, in input) error {
	if v.name == "update" && len(in.fields) == 0 {
		return usagef("nothing to change; the flags say what, see --help")
	}
	req := request{method: v.method(), path: in.expand(v.pattern())}
	if v.method() == http.MethodGet {
		req.query = v.query(in)
	} else {
		body, err := v.body(ctx, s, in)
		if err != nil {
			return err
		}
		req.body = body
	}
	res, err := s.api.send(ctx, req)
	if err != nil {
		return err
	}
	if err := s.print(v, in, res.Body); err != nil {
		return err
	}
	if v.note != "" && s.out.Tabular() {
		s.note("%s", v.note)
	}
	return nil
}

// print prints the body of a response, unless it is empty.
func (s *session) print(v verb, in input, body json.RawMessage) (err error) {
	if len(body) == 0 {
		return nil
	}
	if v.show != nil {
		body, err = v.show(in, body)
		if err != nil {
			return err
		}
	}
	return s.out.Item(body)
}

// remove runs a DELETE after the user has confirmed it.
func (s *session) remove(ctx context.Context, n noun, v verb, in input) error {
	label, id := in.labels[in.last], in.path[in.last]
	what := n.thing + " " + label
	if label != id {
		what += " (" + id + ")"
	}
	if err := s.confirm(ctx, "Deleting "+what+v.with); err != nil {
		return err
	}
	req := request{method: http.MethodDelete, path: in.expand(v.pattern())}
	if v.wrap != nil {
		body, err := v.body(ctx, s, in)
		if err != nil {
			return err
		}
		req.body = body
	}
	res, err := s.api.send(ctx, req)
	if err != nil {
		return err
	}
	if !s.out.Tabular() && len(res.Body) > 0 {
		return s.out.Item(res.Body)
	}
	return s.out.Text("Deleted %s.", what)
}
