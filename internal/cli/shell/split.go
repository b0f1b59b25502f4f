package shell

import (
	"regexp"
	"strings"
)

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
