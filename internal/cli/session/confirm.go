package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"steward/internal/cli/exit"
)

// Confirm asks the user whether to go on with something that cannot be undone. It returns a usage
// error if there is no terminal to ask on, and nil at once with --yes.
func (e *Env) Confirm(ctx context.Context, what string) error {
	if e.yes {
		return nil
	}
	if !IsTerminal(e.In) || !IsTerminal(e.Err) {
		return exit.Usagef("%s cannot be undone, and there is no terminal to ask on; add --yes to do it", what)
	}
	if _, err := fmt.Fprintf(e.Err, "%s cannot be undone. Continue? [y/N] ", what); err != nil {
		return err
	}
	answer, err := e.readLine(ctx)
	if err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &exit.Error{Code: exit.Failed, Message: "nothing was changed"}
	}
	return nil
}

// readLine reads an input line, or returns when ctx ends.
func (e *Env) readLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(e.In).ReadString('\n')
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		if errors.Is(r.err, io.EOF) {
			r.err = nil
		}
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
