// Package account has the commands for signing in and for access: login, logout, whoami and
// contexts, and the nouns for keys, members, organizations, projects, OAuth clients, consents,
// sign-in providers and the audit log.
package account

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"steward/internal/cli/contexts"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

// Commands returns the commands.
func Commands(e *session.Env) []*cobra.Command {
	commands := []*cobra.Command{loginCommand(e), logoutCommand(e), whoamiCommand(e), contextCommand(e)}
	return append(commands, noun.Commands(e, apikeyNoun(), memberNoun(), orgNoun(), projectNoun(), clientNoun(), consentNoun(), registrationNoun(), upstreamNoun(), auditNoun())...)
}

func loginCommand(e *session.Env) *cobra.Command {
	var key, name string
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Sign in to a server",
		Long: `Sign in to a server and make it the current context. Without --key, the command prints a link and a
code; open the link in a browser on any machine, sign in, and confirm the code. With --key - it reads
an API key from standard input:

  steward login https://steward.example.com
  steward login http://localhost:8080 --key - < key.txt

The credentials are stored in the file contexts.json of the user's configuration directory, which only
the user can read.`,
		Args: session.Args("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return login(cmd.Context(), e, args[0], name, key)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "sign in with an API `key`; - reads it from standard input")
	cmd.Flags().StringVar(&name, "name", "", "`name` of the context (default: the host of the URL)")
	return cmd
}

func login(ctx context.Context, e *session.Env, address, name, key string) error {
	origin, err := session.ParseOrigin(address)
	if err != nil {
		return exit.Usagef("%v", err)
	}
	c := contexts.Context{URL: origin}
	if key != "" {
		c.Key, err = readKey(e, key)
	} else {
		c.Token, err = deviceFlow(ctx, e, origin)
	}
	if err != nil {
		return err
	}
	if name == "" {
		u, err := url.Parse(origin)
		if err != nil {
			return err
		}
		name = u.Host
	}
	return saveLogin(ctx, e, name, c)
}

// readKey reads an API key from the input. It refuses a key on the command line, which the machine's
// other users can read.
func readKey(e *session.Env, flag string) (string, error) {
	if flag != "-" {
		return "", exit.Usagef("--key takes only -, because other users of the machine can read command lines: " +
			"write the key to standard input, or set " + session.EnvKey)
	}
	key, err := e.ReadSecret("API key: ")
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", exit.Usagef("standard input has no API key")
	}
	return key, nil
}

func saveLogin(ctx context.Context, e *session.Env, name string, c contexts.Context) error {
	file, err := contexts.Default(e.Getenv)
	if err != nil {
		return err
	}
	p, _, err := e.NewSession(file, "", c).Profile(ctx)
	if err != nil {
		return err
	}
	c.User = p.Describe()
	c.OrgID = p.Organizations[0].ID
	err = file.Update(func(all *contexts.All) error {
		all.Contexts[name] = c
		all.Current = name
		return nil
	})
	if err != nil {
		return err
	}
	e.Note("Signed in to %s as %s (%s). The context is %s.", c.URL, c.User, p.Role, name)
	return nil
}

// deviceFlow signs the user in with a browser, on this machine or another.
func deviceFlow(ctx context.Context, e *session.Env, origin string) (*contexts.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: time.Minute})
	config := session.OAuthConfig(origin)
	device, err := config.DeviceAuth(ctx)
	if err != nil {
		return nil, session.OAuthFailure(err, origin)
	}
	e.Note("Open this link in a browser and confirm the code %s:\n\n  %s\n\nWaiting …", device.UserCode, device.VerificationURIComplete)
	token, err := config.DeviceAccessToken(ctx, device)
	if err != nil {
		return nil, session.OAuthFailure(err, origin)
	}
	return &contexts.Token{Access: token.AccessToken, Refresh: token.RefreshToken, Expiry: token.Expiry}, nil
}

func logoutCommand(e *session.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Sign out of the current context and forget its credentials",
		Long: `Sign out of the current context, or of that of --context, and remove it. Tokens of the device flow are
revoked. An API key stays valid; delete it with steward apikey delete.`,
		Args: session.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return logout(cmd.Context(), e) },
	}
}

func logout(ctx context.Context, e *session.Env) error {
	file, err := contexts.Default(e.Getenv)
	if err != nil {
		return err
	}
	var name string
	var removed contexts.Context
	err = file.Update(func(all *contexts.All) (err error) {
		name, removed, err = e.Stored(all)
		if err != nil {
			return err
		}
		delete(all.Contexts, name)
		if all.Current == name {
			all.Current = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := revoke(ctx, removed); err != nil {
		e.Note("The context %s was removed, but its token was not revoked: %v", name, err)
		return nil
	}
	e.Note("Signed out of %s; the context %s was removed.", removed.URL, name)
	return nil
}

// revoke revokes a context's refresh token, and with it the access tokens.
func revoke(ctx context.Context, c contexts.Context) error {
	if c.Token == nil || c.Token.Refresh == "" {
		return nil
	}
	form := url.Values{"client_id": {"steward-cli"}, "token": {c.Token.Refresh}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/revoke", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server responds with %s", res.Status)
	}
	return nil
}
