package shell

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"steward/internal/cli/session"
)

// prompt reads a shell's lines: with a prompt, editing and history on a terminal, else plainly.
type prompt struct {
	env *session.Env
	// terminal is nil without a terminal.
	terminal *term.Terminal
	fd       int
	lines    *bufio.Scanner
}

// maxLine bounds a line in a shell.
const maxLine = 16 << 20

func newPrompt(e *session.Env) *prompt {
	p := &prompt{env: e}
	fd, ok := session.Terminal(e.In)
	if ok && session.IsTerminal(e.Out) {
		p.fd = fd
		p.terminal = newTerminal(e)
		return p
	}
	p.lines = bufio.NewScanner(e.In)
	p.lines.Buffer(nil, maxLine)
	return p
}

func newTerminal(e *session.Env) *term.Terminal {
	return term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.In, e.Out}, "")
}

// interactive reports whether somebody types.
func (p *prompt) interactive() bool { return p.terminal != nil }

// read returns the next line, or io.EOF.
func (p *prompt) read(text string) (string, error) {
	if p.terminal == nil {
		if !p.lines.Scan() {
			return "", cmp.Or(p.lines.Err(), io.EOF)
		}
		return p.lines.Text(), nil
	}
	state, err := term.MakeRaw(p.fd)
	if err != nil {
		return "", fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { _ = term.Restore(p.fd, state) }()
	if width, height, err := term.GetSize(p.fd); err == nil && width > 0 {
		_ = p.terminal.SetSize(width, height)
	}
	p.terminal.SetPrompt(text)
	return p.terminal.ReadLine()
}

// each calls run for each statement that split returns; the rest begins the next one. Output from
// run appears before the next prompt. On a terminal, each prints an error and reads the next line,
// and Ctrl-C or Ctrl-D discards a statement that has begun, else leaves. In a script an error ends
// the loop, and the last statement needs no end.
func (p *prompt) each(
	ctx context.Context, name string, split func(text string) (statements []string, rest string), run func(statement string) error,
) error {
	pending := ""
	for ctx.Err() == nil {
		text := name + "> "
		if pending != "" {
			text = strings.Repeat(" ", max(0, len(name)-2)) + "..> "
		}
		line, err := p.read(text)
		switch {
		case errors.Is(err, io.EOF) && !p.interactive():
			return p.runOne(pending, run)
		case errors.Is(err, io.EOF) && pending == "":
			return nil
		case errors.Is(err, io.EOF):
			fresh := newTerminal(p.env)
			fresh.History = p.terminal.History
			p.terminal = fresh
			p.env.Note("")
			pending = ""
			continue
		case err != nil:
			return err
		}
		statements, rest := split(pending + line)
		if err := p.runAll(statements, run); err != nil { // io.EOF if the user quits
			return err
		}
		pending = strings.TrimLeft(rest+"\n", " \t\r\n")
	}
	return ctx.Err()
}

func (p *prompt) runAll(statements []string, run func(string) error) error {
	for _, statement := range statements {
		if err := p.runOne(statement, run); err != nil {
			return err
		}
	}
	return nil
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
