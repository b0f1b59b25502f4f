package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"steward/internal/cli/session"
)

// prompt reads the lines of a shell: with a prompt, editing and history on a terminal, else plainly.
type prompt struct {
	env *session.Env
	// terminal is nil without a terminal.
	terminal *term.Terminal
	fd       int
	lines    *bufio.Scanner
}

// maxLine bounds a line of a shell.
const maxLine = 16 << 20

func newPrompt(e *session.Env) *prompt {
	p := &prompt{env: e}
	fd, ok := session.Terminal(e.In)
	if ok && session.IsTerminal(e.Out) {
		p.fd = fd
		p.terminal = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{e.In, e.Out}, "")
		return p
	}
	p.lines = bufio.NewScanner(e.In)
	p.lines.Buffer(nil, maxLine)
	return p
}

// interactive reports whether somebody types.
func (p *prompt) interactive() bool { return p.terminal != nil }

// read returns the next line, or io.EOF.
func (p *prompt) read(text string) (string, error) {
	if p.terminal == nil {
		if !p.lines.Scan() {
			return "", errors.Join(p.lines.Err(), io.EOF)
		}
		return p.lines.Text(), nil
	}
	state, err := term.MakeRaw(p.fd)
	if err != nil {
		return "", fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { _ = term.Restore(p.fd, state) }()
	if width, height, err := term.GetSize(p.fd); err == nil {
		_ = p.terminal.SetSize(width, height)
	}
	p.terminal.SetPrompt(text)
	return p.terminal.ReadLine()
}

// each calls run for each statement: a line, or lines up to one that complete accepts. What run prints
// goes out before the next prompt. On a terminal an error is printed and the next statement is read;
// otherwise it ends the loop.
func (p *prompt) each(
	ctx context.Context, name string, complete func(statement string) bool, run func(statement string) error,
) error {
	statement := ""
	for ctx.Err() == nil {
		text := name + "> "
		if statement != "" {
			text = strings.Repeat(" ", max(0, len(name)-2)) + "..> "
		}
		line, err := p.read(text)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		statement = strings.TrimLeft(statement+"\n"+line, "\n")
		if end || complete(statement) {
			if err := p.runOne(statement, run); err != nil { // io.EOF if the user quits
				return err
			}
			statement = ""
		}
		if end {
			return nil
		}
	}
	return ctx.Err()
}

// errQuit ends a shell.
var errQuit = errors.New("quit")

func (p *prompt) runOne(statement string, run func(string) error) error {
	if strings.TrimSpace(statement) == "" {
		return nil
	}
	err := run(statement)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errQuit):
		return io.EOF
	case p.interactive() && !errors.Is(err, context.Canceled) && !errors.Is(err, os.ErrClosed):
		p.env.Note("%v", err)
		return nil
	}
	return err
}
