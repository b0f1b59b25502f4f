package noun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"steward/internal/cli/exit"
	"steward/internal/cli/session"
)

// Kind is a field's type.
type Kind int

// The kinds of fields.
const (
	Text    Kind = iota // an empty one is null in an update
	Number              // an integer
	Boolean             // true or false
	List                // a flag that can be repeated, or values with commas
	Pairs               // name=value, can be repeated; an object
	Object              // JSON
	Past                // a time, or a duration before now
	Future              // a time, or a duration after now
	Seconds             // a duration, as a number of seconds
	Secret              // -, for standard input; an empty one is null
)

// Field is a flag or an argument, and a member of the query or the body.
type Field struct {
	Name     string // the flag's
	Path     string // the member's, with dots
	Kind     Kind
	Usage    string
	Optional bool // for an argument
	Values   []string
	// Noun is the kind of thing that a flag names, by its id or name, so that we can complete and
	// resolve it.
	Noun string
}

// AddFields adds a verb's flags. It returns a function that sets the fields for the given flags,
// with names resolved to ids.
func AddFields(
	e *session.Env, cmd *cobra.Command, v Verb,
) func(ctx context.Context, s *session.Session, in Input) error {
	for _, f := range v.Fields {
		switch f.Kind {
		case Boolean:
			cmd.Flags().Bool(f.Name, false, f.Usage)
		case List:
			cmd.Flags().StringSlice(f.Name, nil, f.Usage+"; can be repeated")
		case Pairs:
			cmd.Flags().StringArray(f.Name, nil, f.Usage+"; can be repeated")
		default:
			cmd.Flags().Var(new(textFlag), f.Name, f.Usage)
		}
		if f.Values != nil {
			session.Complete(cmd, f.Name, func([]string) []string { return f.Values })
		} else if f.Noun != "" {
			session.Complete(cmd, f.Name, func(args []string) []string { return v.candidates(e, f.Noun, args) })
		}
	}
	return func(ctx context.Context, s *session.Session, in Input) error {
		for _, f := range v.Fields {
			flag := cmd.Flags().Lookup(f.Name)
			if !flag.Changed {
				continue
			}
			texts, err := f.read(ctx, s, flagTexts(flag), in)
			if err != nil {
				return err
			}
			if err := f.Set(in.Fields, texts); err != nil {
				return err
			}
		}
		return nil
	}
}

// read returns a field's texts: a secret from standard input, and the ids of things that others
// name.
func (f Field) read(ctx context.Context, s *session.Session, texts []string, in Input) ([]string, error) {
	if f.Kind != Secret || texts[0] == "" {
		// An empty text, which clears a member, stays.
		if f.Noun == "" {
			return texts, nil
		}
		ids := make([]string, len(texts))
		for i, text := range texts {
			if text == "" {
				continue
			}
			id, err := Resolve(ctx, s, f.Noun, text, in)
			if err != nil {
				return nil, err
			}
			ids[i] = id
		}
		return ids, nil
	}
	if texts[0] != "-" {
		return nil, exit.Usagef("--%s takes only -, because other users of the machine can read command lines: "+
			"write the secret to standard input", f.Name)
	}
	secret, err := s.ReadSecret("Secret: ")
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	if secret == "" {
		return nil, exit.Usagef("standard input has no secret")
	}
	return []string{secret}, nil
}

// textFlag is a flag's value as it was given. The help prints the word in backquotes for it.
type textFlag string

// Set implements pflag.Value.
func (t *textFlag) Set(text string) error { *t = textFlag(text); return nil }

// String implements pflag.Value.
func (t *textFlag) String() string { return string(*t) }

// Type implements pflag.Value.
func (t *textFlag) Type() string { return "string" }

func flagTexts(flag *pflag.Flag) []string {
	if values, ok := flag.Value.(pflag.SliceValue); ok {
		return values.GetSlice()
	}
	return []string{flag.Value.String()}
}

// Set parses a field's texts and sets its member.
func (f Field) Set(members map[string]any, texts []string) error {
	value, err := f.parse(texts)
	if err != nil {
		return exit.Usagef("--%s %v", f.Name, err)
	}
	names := strings.Split(f.Path, ".")
	for _, name := range names[:len(names)-1] {
		below, _ := members[name].(map[string]any)
		if below == nil {
			below = map[string]any{}
			members[name] = below
		}
		members = below
	}
	members[names[len(names)-1]] = value
	return nil
}

func (f Field) parse(texts []string) (any, error) {
	switch f.Kind {
	case List:
		return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" }), nil
	case Pairs:
		members := map[string]any{}
		for _, text := range texts {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" {
				return nil, fmt.Errorf("must be name=value")
			}
			members[name] = value
		}
		return members, nil
	case Number:
		return nullable(texts[0], func(s string) (any, error) {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("must be a number")
			}
			return n, nil
		})
	case Boolean:
		return strconv.ParseBool(texts[0])
	case Object:
		var value map[string]any
		if err := json.Unmarshal([]byte(texts[0]), &value); err != nil {
			return nil, fmt.Errorf("must be a JSON object")
		}
		return value, nil
	case Past:
		return moment(texts[0], -1)
	case Future:
		return nullable(texts[0], func(s string) (any, error) { return moment(s, 1) })
	case Seconds:
		return nullable(texts[0], parseSeconds)
	}
	if f.Values != nil && !slices.Contains(f.Values, texts[0]) {
		return nil, fmt.Errorf("must be one of %s", strings.Join(f.Values, ", "))
	}
	return nullable(texts[0], func(s string) (any, error) { return s, nil })
}

// nullable maps the empty text to null, which clears a member.
func nullable(text string, parse func(string) (any, error)) (any, error) {
	if text == "" {
		return nil, nil
	}
	return parse(text)
}

func parseSeconds(text string) (any, error) {
	d, err := Duration(text)
	if err != nil || d < time.Second {
		return nil, fmt.Errorf("must be a duration, such as 90s, 12h or 30d")
	}
	return int64(d / time.Second), nil
}

// Scalar returns the JSON value that a text stands for: null, true, false or a number, or the text.
func Scalar(text string) any {
	_, notNumber := strconv.ParseFloat(text, 64)
	isJSON := notNumber == nil || text == "true" || text == "false" || text == "null"
	if isJSON && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// TimeFormat is the API's.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// moment parses a time, or a duration before (-1) or after (1) now.
func moment(text string, sign time.Duration) (string, error) {
	if d, err := Duration(text); err == nil {
		return time.Now().Add(sign * d).UTC().Format(TimeFormat), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC().Format(TimeFormat), nil
		}
	}
	return "", fmt.Errorf("must be a duration, such as 90s, 12h or 30d, or a time, such as 2026-11-15T08:30:00Z")
}

// Duration parses Go's durations, with days in front: 30d, 1d12h.
func Duration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 15)
	if err != nil {
		return 0, err
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	return total + d, err
}

// PastTime parses a time, or a duration before now.
func PastTime(text string) (time.Time, error) {
	at, err := moment(text, -1)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, at)
}
