package shell

import (
	"regexp"
	"strings"
)

// splitSQL returns the statements of a text that end with a semicolon, and what follows them. A line that
// begins with a dot is a command of the shell. Quotes, comments, dollar quotes and the bodies of triggers
// may have semicolons.
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

// dollarQuote matches the beginning of a text of PostgreSQL such as $$…$$ or $body$…$body$.
var dollarQuote = regexp.MustCompile(`^\$([A-Za-z_]\w*)?\$`)

// tokenSize returns the size of the quoted text or comment that a text begins with, or 1. Of one
// that does not end, everything is part.
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

// endOf returns the index behind the first end in a text from an index on, or the length of the text.
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

// openTrigger reports whether a text is a trigger of SQLite whose body has not ended.
func openTrigger(statement string) bool {
	return triggerBody.MatchString(statement) && !triggerEnd.MatchString(statement)
}

// splitLines returns the lines of a text.
func splitLines(text string) (lines []string, rest string) {
	return strings.Split(text, "\n"), ""
}
