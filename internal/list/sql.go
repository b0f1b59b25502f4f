package list

import (
	"strconv"
	"strings"
)

// SQL is a part of a statement.
type SQL struct {
	text string
	args []any
}

// Text returns a part of a statement. Each ? in it stands for an argument.
func Text(text string, args ...any) SQL { return SQL{text, args} }

// Conditions are what all rows of a list meet.
type Conditions []SQL

// Where returns a condition, to which others can be added. Each ? in it stands for an argument.
func Where(condition string, args ...any) Conditions { return Conditions{{condition, args}} }

// Add adds a condition. Each ? in it stands for an argument.
func (c *Conditions) Add(condition string, args ...any) { *c = append(*c, SQL{condition, args}) }

// Equal adds the condition that an expression has a value, unless that is empty.
func (c *Conditions) Equal(expression, value string) {
	if value != "" {
		c.Add(expression+` = ?`, value)
	}
}

// statement is a statement that is being written. It numbers the parameters.
type statement struct {
	text strings.Builder
	args []any
}

func (s *statement) write(text string, args ...any) { s.add(SQL{text, args}) }

func (s *statement) add(part SQL) {
	before, after, found := strings.Cut(part.text, "?")
	s.text.WriteString(before)
	for _, arg := range part.args {
		if !found {
			panic("list: more arguments than parameters: " + part.text)
		}
		s.args = append(s.args, arg)
		s.text.WriteString("$" + strconv.Itoa(len(s.args)))
		before, after, found = strings.Cut(after, "?")
		s.text.WriteString(before)
	}
	if found {
		panic("list: fewer arguments than parameters: " + part.text)
	}
}

func (s *statement) end() (text string, args []any) { return s.text.String(), s.args }
