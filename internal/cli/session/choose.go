package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"steward/internal/cli/contexts"
	"steward/internal/cli/exit"
)

// choose returns the context to use: the one in --context, else in the environment, else the current
// one. STEWARD_URL alone chooses the context with that URL, STEWARD_KEY alone replaces the current
// one's credentials.
func (e *Env) choose(all contexts.All) (name string, c contexts.Context, err error) {
	if e.context != "" {
		c, ok := all.Contexts[e.context]
		if !ok {
			return "", c, &exit.Error{
				Code: exit.Usage, Message: fmt.Sprintf("there is no context %q", e.context),
				Advice: "List the contexts with `steward context list`, or create one with `steward login URL --name " + e.context + "`.",
			}
		}
		return e.context, c, nil
	}
	address, key := e.Getenv(EnvURL), e.Getenv(EnvKey)
	switch {
	case address != "":
		return chooseURL(all, address, key)
	case key != "" && all.Current != "":
		return "", contexts.Context{URL: all.Contexts[all.Current].URL, Key: key}, nil
	}
	c, ok := all.Contexts[all.Current]
	if !ok {
		return "", c, &exit.Error{
			Code: exit.Denied, Message: "not signed in to a server",
			Advice: "Sign in with `steward login URL`, or set " + EnvURL + " and " + EnvKey + ".",
		}
	}
	return all.Current, c, nil
}

func chooseURL(all contexts.All, address, key string) (string, contexts.Context, error) {
	origin, err := ParseOrigin(address)
	if err != nil {
		return "", contexts.Context{}, exit.Usagef("%s: %v", EnvURL, err)
	}
	if key != "" {
		return "", contexts.Context{URL: origin, Key: key}, nil
	}
	if c := all.Contexts[all.Current]; c.URL == origin {
		return all.Current, c, nil
	}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		if c := all.Contexts[name]; c.URL == origin {
			return name, c, nil
		}
	}
	return "", contexts.Context{}, &exit.Error{
		Code: exit.Denied, Message: "not signed in to " + origin,
		Advice: "Sign in with `steward login " + origin + "`, or set " + EnvKey + ".",
	}
}

// ParseOrigin returns a server's base URL: a scheme and a host.
func ParseOrigin(text string) (string, error) {
	if !strings.Contains(text, "://") {
		return "", fmt.Errorf("the URL of a server begins with https:// or http://, such as http://localhost:8080")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the URL of a server is a scheme and a host, such as https://steward.example.com")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// Stored returns the context in --context, or the current one.
func (e *Env) Stored(all *contexts.All) (string, contexts.Context, error) {
	name := e.context
	if name == "" {
		name = all.Current
	}
	c, ok := all.Contexts[name]
	if !ok {
		return "", c, &exit.Error{
			Code: exit.Denied, Message: "there is no such context",
			Advice: "List the contexts with `steward context list`.",
		}
	}
	return name, c, nil
}

// ContextNames returns the contexts' names, for completion.
func (e *Env) ContextNames() []string {
	file, err := contexts.Default(e.Getenv)
	if err != nil {
		return nil
	}
	all, err := file.Read()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all.Contexts))
}

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
