package noun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/session"
)

func command(e *session.Env, n Noun) *cobra.Command {
	cmd := &cobra.Command{
		Use: n.Name, Aliases: n.Aliases, Short: n.Short, Args: session.Args(), RunE: session.ShowHelp,
	}
	for _, v := range n.Verbs {
		cmd.AddCommand(VerbCommand(e, n, v))
	}
	for _, below := range n.Nouns {
		cmd.AddCommand(command(e, below))
	}
	for _, more := range n.More {
		cmd.AddCommand(more(e))
	}
	return cmd
}

// VerbCommand returns a verb's command.
func VerbCommand(e *session.Env, n Noun, v Verb) *cobra.Command {
	names := v.argNames()
	cmd := &cobra.Command{
		Use:     strings.Join(append([]string{v.Name}, names...), " "),
		Aliases: v.Aliases,
		Short:   v.Short,
		Args:    session.Args(names...),
	}
	cmd.ValidArgsFunction = CompleteArgs(e, v)
	read := AddFields(e, cmd, v)
	region := ""
	if strings.Contains(v.Route, "{region}") {
		AddRegion(e, cmd, &region, v)
	}
	var page ListFlags
	if v.List {
		page.Add(cmd)
	}
	run := func(ctx context.Context, s *session.Session, args []string) error {
		in, err := NewInput(ctx, s, v, args, region)
		if err != nil {
			return err
		}
		if err := read(ctx, s, in); err != nil {
			return err
		}
		return v.run(ctx, s, n, in, page)
	}
	cmd.RunE = e.Command(func(ctx context.Context, s *session.Session, args []string) error {
		return advise(run(ctx, s, args), cmd)
	})
	return cmd
}

// AddRegion adds the flag --region.
func AddRegion(e *session.Env, cmd *cobra.Command, region *string, v Verb) {
	usage := "`region` (default: the only one)"
	if len(v.placeholders()) > 0 {
		usage = "`region` (default: the only one that has it)"
	}
	cmd.Flags().StringVar(region, "region", "", usage)
	session.Complete(cmd, "region", func([]string) []string { return Candidates(e, "region") })
}

func (v Verb) run(ctx context.Context, s *session.Session, n Noun, in Input, flags ListFlags) error {
	switch {
	case v.Run != nil:
		return v.Run(ctx, s, in)
	case v.List:
		columns := v.Columns
		if columns == nil {
			columns = n.Columns
		}
		flags.apart = v.Apart
		return PrintList(ctx, s, columns, v.items(ctx, s, in, flags.Limit), flags)
	case v.method() == http.MethodDelete:
		what := n.describe(in)
		if err := s.Confirm(ctx, cmp.Or(v.Ask, "Deleting")+" "+what+v.With); err != nil {
			return err
		}
		res, err := s.API.Send(ctx, session.Request{Method: http.MethodDelete, Path: in.Expand(v.pattern())})
		if err != nil {
			return err
		}
		if !s.Printer.Tabular() && len(res.Body) > 0 {
			return s.Printer.Item(res.Body)
		}
		return s.Printer.Text("Deleted %s.", what)
	}
	return change(ctx, s, n, v, in)
}

// advise adds the command that lists things to an error about one that does not exist.
func advise(err error, cmd *cobra.Command) error {
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.NotFound || e.Advice != "" {
		return err
	}
	var commands []string
	for parent := cmd.Parent(); parent != nil; parent = parent.Parent() {
		for _, sibling := range parent.Commands() {
			if sibling.Name() == "list" {
				path := strings.TrimSuffix(sibling.UseLine(), " [flags]")
				commands = append([]string{"`" + path + "`"}, commands...)
			}
		}
	}
	if len(commands) > 0 {
		e.Advice = "List what there is with " + strings.Join(commands, " and ") + "."
	}
	return err
}

func (v Verb) method() string { method, _, _ := strings.Cut(v.Route, " "); return method }

func (v Verb) pattern() string { _, path, _ := strings.Cut(v.Route, " "); return path }

// placeholders returns the names in braces in the route that users give.
func (v Verb) placeholders() (names []string) {
	for part := range strings.SplitSeq(v.pattern(), "/") {
		name, isName := strings.CutPrefix(part, "{")
		name = strings.TrimSuffix(name, "}")
		if isName && name != "org" && name != "region" {
			names = append(names, name)
		}
	}
	return names
}

// argNames returns the arguments' names as the help shows them.
func (v Verb) argNames() (names []string) {
	for _, p := range v.placeholders() {
		names = append(names, strings.ToUpper(strings.ReplaceAll(p, "-", "_")))
	}
	for _, a := range v.Args {
		name := strings.ToUpper(a.Name)
		if a.Optional {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return names
}

// NewInput resolves a verb's arguments.
func NewInput(ctx context.Context, s *session.Session, v Verb, args []string, region string) (Input, error) {
	in := Input{Path: map[string]string{}, Labels: map[string]string{}, Fields: map[string]any{}}
	if strings.Contains(v.Route, "{region}") {
		if err := v.place(ctx, s, in, args, region); err != nil {
			return in, err
		}
	}
	for i, name := range v.placeholders() {
		id, err := Resolve(ctx, s, name, args[i], in)
		if err != nil {
			return in, err
		}
		in.Path[name] = id
		in.Labels[name] = args[i]
		in.last = name
	}
	for i, text := range args[len(v.placeholders()):] {
		if text == "" {
			return in, exit.Usagef("%s must not be empty", v.Args[i].Name)
		}
		if err := v.Args[i].Set(in.Fields, []string{text}); err != nil {
			return in, err
		}
	}
	return in, nil
}

// place fills in the organization and the region: the given one, else the region of the resource
// that the first argument names, else the only one.
func (v Verb) place(ctx context.Context, s *session.Session, in Input, args []string, region string) (err error) {
	in.Path["org"], err = s.OrgID(ctx)
	if err != nil {
		return err
	}
	switch placeholders := v.placeholders(); {
	case region != "":
	case len(placeholders) > 0:
		region, err = Locate(ctx, s, placeholders[0], args[0])
	default:
		region, err = onlyRegion(ctx, s)
	}
	in.Path["region"] = region
	return err
}

// Expand returns a path with its placeholders filled in.
func (in Input) Expand(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if name, isName := strings.CutPrefix(part, "{"); isName {
			parts[i] = url.PathEscape(in.Path[strings.TrimSuffix(name, "}")])
		}
	}
	return strings.Join(parts, "/")
}

// Query returns the fields as a query.
func (in Input) Query() url.Values {
	query := url.Values{}
	for name, value := range in.Fields {
		query.Set(name, fmt.Sprint(value))
	}
	return query
}

// query returns the fields and the fixed members as a query.
func (v Verb) query(in Input) url.Values {
	query := in.Query()
	for name, value := range v.Fixed {
		query.Set(name, fmt.Sprint(value))
	}
	return query
}

func (v Verb) body(ctx context.Context, s *session.Session, in Input) (any, error) {
	body := map[string]any{}
	if v.Base != nil {
		var err error
		body, err = v.Base(ctx, s, in)
		if err != nil {
			return nil, err
		}
	}
	maps.Copy(body, v.Fixed)
	merge(body, in.Fields)
	if v.Wrap != nil {
		return v.Wrap(body), nil
	}
	return body, nil
}

// merge copies members, including those inside objects, into a body.
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
func change(ctx context.Context, s *session.Session, n Noun, v Verb, in Input) error {
	if v.Name == "update" && len(in.Fields) == 0 {
		return exit.Usagef("nothing to change; the flags say what, see --help")
	}
	if v.Ask != "" {
		if err := s.Confirm(ctx, v.Ask+" "+n.describe(in)+v.With); err != nil {
			return err
		}
	}
	if v.New {
		if err := refuseExisting(ctx, s, n, v, in); err != nil {
			return err
		}
	}
	req := session.Request{Method: v.method(), Path: in.Expand(v.pattern())}
	if v.method() == http.MethodGet {
		req.Query = v.query(in)
	} else {
		body, err := v.body(ctx, s, in)
		if err != nil {
			return err
		}
		req.Body = body
	}
	res, err := s.API.Send(ctx, req)
	if err != nil {
		return err
	}
	if err := print(s, v, in, res.Body); err != nil {
		return err
	}
	if v.Note != "" && s.Printer.Tabular() {
		s.Note("%s", v.Note)
	}
	return nil
}

// refuseExisting returns a conflict if the thing that a verb would create exists.
func refuseExisting(ctx context.Context, s *session.Session, n Noun, v Verb, in Input) error {
	_, err := s.API.Get(ctx, in.Expand(v.pattern()), nil)
	switch {
	case exit.Code(err) == exit.NotFound:
		return nil
	case err != nil:
		return err
	}
	return &exit.Error{
		Code: exit.Conflict, Message: n.describe(in) + " exists already",
		Advice: fmt.Sprintf("Change it with `steward %s update %s`.", n.Name, in.Path[in.last]),
	}
}

// describe returns a thing's name, with its id if the user named it otherwise.
func (n Noun) describe(in Input) string {
	label, id := in.Labels[in.last], in.Path[in.last]
	what := n.Thing + " " + label
	if label != id {
		what += " (" + id + ")"
	}
	return what
}

// print prints a response's body, unless it is empty.
func print(s *session.Session, v Verb, in Input, body json.RawMessage) (err error) {
	if len(body) == 0 {
		return nil
	}
	if v.Show != nil {
		body, err = v.Show(in, body)
		if err != nil {
			return err
		}
	}
	return s.Printer.Item(body)
}
