package session

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"steward/internal/cli/contexts"
	"steward/internal/cli/output"
)

// The client commands' environment variables. The server's commands ignore them.
const (
	EnvURL = "STEWARD_URL"
	EnvKey = "STEWARD_KEY"
)

// Session is a command's connection to a server.
type Session struct {
	*Env
	API     *API
	Printer *output.Printer
	// Context has the URL and the credentials. Name is its name in the file, or "".
	Context contexts.Context
	Name    string
}

// Command returns the RunE for a command that uses a server.
func (e *Env) Command(run func(ctx context.Context, s *Session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := e.Open()
		if err != nil {
			return err
		}
		return run(cmd.Context(), s, args)
	}
}

// Open returns a session with the server that the user has chosen.
func (e *Env) Open() (*Session, error) {
	out, err := e.NewPrinter()
	if err != nil {
		return nil, err
	}
	file, err := contexts.Default(e.Getenv)
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
	s := e.NewSession(file, name, c)
	s.Printer = out
	return s, nil
}

// NewSession returns a session with a context's server, without a printer. It stores refreshed
// tokens under the name, unless that is "".
func (e *Env) NewSession(file contexts.File, name string, c contexts.Context) *Session {
	return &Session{Env: e, API: e.newAPI(file, name, c), Context: c, Name: name}
}

// Profile tells who owns the credentials.
type Profile struct {
	ID            string
	Email         *string
	Role          string
	Organizations []struct{ ID, Name string }
}

// Describe returns the user's address, or the id.
func (p Profile) Describe() string {
	if p.Email != nil {
		return *p.Email
	}
	return p.ID
}

// Profile asks the server who owns the credentials.
func (s *Session) Profile(ctx context.Context) (p Profile, raw json.RawMessage, err error) {
	raw, err = s.API.Get(ctx, "/cli/auth/user", nil)
	if err != nil {
		return p, nil, err
	}
	if err := Decode(raw, &p); err != nil {
		return p, nil, err
	}
	if len(p.Organizations) == 0 {
		return p, nil, errors.New("the user is in no organization")
	}
	return p, raw, nil
}

// OrgID returns the organization that the credentials belong to.
func (s *Session) OrgID(ctx context.Context) (string, error) {
	if s.Context.OrgID != "" {
		return s.Context.OrgID, nil
	}
	p, _, err := s.Profile(ctx)
	if err != nil {
		return "", err
	}
	s.Context.OrgID = p.Organizations[0].ID
	return s.Context.OrgID, nil
}
