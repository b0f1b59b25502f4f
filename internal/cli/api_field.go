package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
)

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
