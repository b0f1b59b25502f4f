package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steward/internal/cli/contexts"
	"steward/internal/cli/output"
)

// The environment variables of client commands. Those of the server ignore them.
const (
	EnvURL = "STEWARD_URL"
	EnvKey = "STEWARD_KEY"
)

// session is the connection of a command to a server.
type session struct {
	*env
	api *api
	out *output.Printer
	// context has the URL and the credentials, name is its name in the file or "".
	context contexts.Context
	name    string
}

// command returns the RunE of a command that uses a server.
func (e *env) command(run func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := e.open()
		if err != nil {
			return err
		}
		return run(cmd.Context(), s, args)
	}
}

// open returns a session with the server that the user has chosen.
func (e *env) open() (*session, error) {
	out, err := e.printer()
	if err != nil {
		return nil, err
	}
	file, err := contexts.Default(e.getenv)
	if err != nil {
		return nil, err
	}
	all, err := file.Read()
	if err != nil {
		return nil, err
	}
	name, c, err := e.choose(all)
	if err != nil {
		return nil, err
	}
	return &session{env: e, api: e.newAPI(file, name, c), out: out, context: c, name: name}, nil
}

// choose returns the context to use: that of --context, else that of the environment, else the current
// one. STEWARD_URL alone chooses the context with that URL, STEWARD_KEY alone replaces the credentials
// of the current one.
func (e *env) choose(all contexts.All) (name string, c contexts.Context, err error) {
	if e.context != "" {
		c, ok := all.Contexts[e.context]
		if !ok {
			return "", c, &failure{
				code: ExitUsage, message: fmt.Sprintf("there is no context %q", e.context),
				advice: "List the contexts with `steward context list`, or create one with `steward login URL --name " + e.context + "`.",
			}
		}
		return e.context, c, nil
	}
	address, key := e.getenv(EnvURL), e.getenv(EnvKey)
	switch {
	case address != "":
		return chooseURL(all, address, key)
	case key != "" && all.Current != "":
		return "", contexts.Context{URL: all.Contexts[all.Current].URL, Key: key}, nil
	}
	c, ok := all.Contexts[all.Current]
	if !ok {
		return "", c, &failure{
			code: ExitDenied, message: "not signed in to a server",
			advice: "Sign in with `steward login URL`, or set " + EnvURL + " and " + EnvKey + ".",
		}
	}
	return all.Current, c, nil
}

func chooseURL(all contexts.All, address, key string) (string, contexts.Context, error) {
	origin, err := parseOrigin(address)
	if err != nil {
		return "", contexts.Context{}, usagef("%s: %v", EnvURL, err)
	}
	if key != "" {
		return "", contexts.Context{URL: origin, Key: key}, nil
	}
	if c := all.Contexts[all.Current]; c.URL == origin {
		return all.Current, c, nil
	}
	for name, c := range all.Contexts {
		if c.URL == origin {
			return name, c, nil
		}
	}
	return "", contexts.Context{}, &failure{
		code: ExitDenied, message: "not signed in to " + origin,
		advice: "Sign in with `steward login " + origin + "`, or set " + EnvKey + ".",
	}
}

// parseOrigin returns the base URL of a server: a scheme and a host.
func parseOrigin(text string) (string, error) {
	if !strings.Contains(text, "://") {
		return "", fmt.Errorf("the URL of a server begins with https:// or http://, such as http://127.0.0.1:8080")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the URL of a server is a scheme and a host, such as https://steward.example.com")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// profile is who the credentials belong to.
type profile struct {
	ID            string
	Email         *string
	Role          string
	Organizations []struct{ ID, Name string }
}

// describe returns the address of the user, or the id.
func (p profile) describe() string {
	if p.Email != nil {
		return *p.Email
	}
	return p.ID
}

// profile asks the server who the credentials belong to.
func (s *session) profile(ctx context.Context) (p profile, raw json.RawMessage, err error) {
	raw, err = s.api.get(ctx, "/cli/auth/user", nil)
	if err != nil {
		return p, nil, err
	}
	if err := json.Unmarshal(raw, &p); err != nil || len(p.Organizations) == 0 {
		return p, nil, fmt.Errorf("the server says nothing about the user: %w", err)
	}
	return p, raw, nil
}

// orgID returns the organization that the credentials belong to.
func (s *session) orgID(ctx context.Context) (string, error) {
	if s.context.OrgID != "" {
		return s.context.OrgID, nil
	}
	p, _, err := s.profile(ctx)
	if err != nil {
		return "", err
	}
	s.context.OrgID = p.Organizations[0].ID
	return s.context.OrgID, nil
}

// width returns the width of the terminal that is the output, or 0.
func (e *env) width() int {
	fd, ok := terminal(e.Out)
	if !ok {
		return 0
	}
	if width, _, err := term.GetSize(fd); err == nil && width > 0 {
		return width
	}
	width, err := strconv.Atoi(e.getenv("COLUMNS"))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// note prints a line to standard error. What is said there is for people, so errors are ignored.
func (e *env) note(format string, args ...any) { _, _ = fmt.Fprintf(e.Err, format+"\n", args...) }
