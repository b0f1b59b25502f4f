package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// kind is the type of a field.
type kind int

const (
	text    kind = iota // an empty one is null in an update
	number              // an integer
	boolean             // true or false
	list                // a flag that can be repeated, or values with commas
	pairs               // name=value, can be repeated; an object
	object              // JSON
	past                // a time, or a duration before now
	future              // a time, or a duration after now
	seconds             // a duration, as a number of seconds
)

// field is a flag or an argument, and a member of the query or the body.
type field struct {
	name     string // of the flag
	path     string // of the member, with dots
	kind     kind
	usage    string
	optional bool // of an argument
	values   []string
	// noun is what an argument may name, so that its values can be completed and resolved.
	noun string
}

// addFields adds a flag for each field, and returns a function that sets the members of those that were
// given.
func addFields(e *env, cmd *cobra.Command, fields []field) func(members map[string]any) error {
	for _, f := range fields {
		switch f.kind {
		case boolean:
			cmd.Flags().Bool(f.name, false, f.usage)
		case list:
			cmd.Flags().StringSlice(f.name, nil, f.usage+"; can be repeated")
		case pairs:
			cmd.Flags().StringArray(f.name, nil, f.usage+"; can be repeated")
		default:
			cmd.Flags().Var(new(textFlag), f.name, f.usage)
		}
		if f.values != nil {
			complete(cmd, f.name, func() []string { return f.values })
		} else if f.noun != "" {
			complete(cmd, f.name, func() []string { return e.candidates(f.noun, nil) })
		}
	}
	return func(members map[string]any) error {
		for _, f := range fields {
			flag := cmd.Flags().Lookup(f.name)
			if !flag.Changed {
				continue
			}
			if err := f.set(members, flagTexts(flag)); err != nil {
				return err
			}
		}
		return nil
	}
}

// textFlag is the value of a flag as it was given. The help prints the word in backquotes for it.
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

// set parses the texts of a field and sets its member.
func (f field) set(members map[string]any, texts []string) error {
	value, err := f.parse(texts)
	if err != nil {
		return usagef("--%s %v", f.name, err)
	}
	f.setValue(members, value)
	return nil
}

// setValue sets the member of a field, and creates the objects that it is in.
func (f field) setValue(members map[string]any, value any) {
	names := strings.Split(f.path, ".")
	for _, name := range names[:len(names)-1] {
		below, ok := members[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			members[name] = below
		}
		members = below
	}
	members[names[len(names)-1]] = value
}

func (f field) parse(texts []string) (any, error) {
	switch f.kind {
	case list:
		return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" }), nil
	case pairs:
		return parsePairs(texts)
	case number:
		return parseNumber(texts[0])
	case boolean:
		return strconv.ParseBool(texts[0])
	case object:
		return parseObject(texts[0])
	case past:
		return moment(texts[0], -1)
	case future:
		return nullable(texts[0], func(s string) (any, error) { return moment(s, 1) })
	case seconds:
		return nullable(texts[0], parseSeconds)
	}
	if f.values != nil && !slices.Contains(f.values, texts[0]) {
		return nil, fmt.Errorf("must be one of %s", strings.Join(f.values, ", "))
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

func parseNumber(text string) (any, error) {
	return nullable(text, func(s string) (any, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("must be a number")
		}
		return n, nil
	})
}

func parsePairs(texts []string) (any, error) {
	members := map[string]any{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("must be name=value")
		}
		members[name] = value
	}
	return members, nil
}

func parseObject(text string) (any, error) {
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("must be a JSON object")
	}
	return value, nil
}

func parseSeconds(text string) (any, error) {
	d, err := duration(text)
	if err != nil || d < time.Second {
		return nil, fmt.Errorf("must be a duration, such as 90s, 12h or 30d")
	}
	return int64(d / time.Second), nil
}

// timeFormat is that of the API.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// moment parses a time, or a duration before (-1) or after (1) now.
func moment(text string, sign time.Duration) (string, error) {
	if d, err := duration(text); err == nil {
		return time.Now().Add(sign * d).UTC().Format(timeFormat), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC().Format(timeFormat), nil
		}
	}
	return "", fmt.Errorf("must be a duration, such as 90s, 12h or 30d, or a time, such as 2026-11-15T08:30:00Z")
}

// duration parses Go's durations, and days before them: 30d, 1d12h.
func duration(text string) (time.Duration, error) {
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
