package list

import (
	"strconv"
	"strings"
)

// SQL is a statement or a part of one.
type SQL struct {
	text string
	args []any
}

// Text returns a statement or a part of one. Each ? in the text stands for an argument, which may be
// SQL or Conditions too.
func Text(text string, args ...any) SQL { return SQL{text, args} }

// Statement returns the text with numbered parameters, and the arguments.
func (s SQL) Statement() (text string, args []any) {
	var w writer
	w.add(s)
	return w.text.String(), w.args
}

// Conditions must all hold for a list's rows.
type Conditions []SQL

// Where returns a condition, to which you can add others. Each ? in it stands for an argument.
func Where(condition string, args ...any) Conditions { return Conditions{{condition, args}} }

// Add adds a condition. Each ? in it stands for an argument.
func (c *Conditions) Add(condition string, args ...any) { *c = append(*c, SQL{condition, args}) }

// Equal requires an expression to have a value, unless that is empty.
func (c *Conditions) Equal(expression, value string) {
	if value != "" {
		c.Add(expression+` = ?`, value)
	}
}

type writer struct {
	text strings.Builder
	args []any
}

func (w *writer) add(s SQL) {
	texts := strings.Split(s.text, "?")
	if len(texts) != len(s.args)+1 {
		panic("list: not as many arguments as there are parameters: " + s.text)
	}
	for i, arg := range s.args {
		w.text.WriteString(texts[i])
		w.addArg(arg)
	}
	w.text.WriteString(texts[len(s.args)])
}

func (w *writer) addArg(arg any) {
	switch arg := arg.(type) {
	case SQL:
		w.add(arg)
	case Conditions:
		for i, condition := range arg {
			if i > 0 {
				w.text.WriteString(` AND `)
			}
			w.add(condition)
		}
	default:
		w.args = append(w.args, arg)
		w.text.WriteString("$" + strconv.Itoa(len(w.args)))
	}
}
