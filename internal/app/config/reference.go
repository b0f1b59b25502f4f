package config

import (
	"fmt"
	"strings"
)

// Reference returns docs/settings.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Settings

` + "`make docs`" + ` generates this page from the program. A setting is taken from its flag, else from the environment, else from its key in
the YAML file that ` + "`--config`" + ` names, else from its default. ` + "`steward config`" + ` prints those in force and where each came from. The key
is the name with underscores: ` + "`base_url: https://steward.example.com`" + `. The file can also list the [regions](storage.md#regions).

| flag | variable | default | |
|---|---|---|---|
`)
	all := settings(&Config{})
	for _, s := range all {
		if s.kind != secret {
			fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", s.name, s.env(), quoted(s.value), described(s))
		}
	}
	b.WriteString(`
## Secrets

Secrets are not flags, because other users of the machine can read command lines. Set the variable, or put the value into a file
and its path into the variable with ` + "`_FILE`" + ` appended, or into the key that ends in ` + "`_file`" + `.

| variable | key | |
|---|---|---|
`)
	for _, s := range all {
		if s.kind == secret {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", s.env(), s.fileKey(), described(s))
		}
	}
	return b.String()
}

func quoted(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

// described returns a setting's help for a table, without the marks around its value.
func described(s setting) string {
	return strings.NewReplacer("`", "", "|", `\|`).Replace(s.usage)
}
