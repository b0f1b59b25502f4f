package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"
	"golang.org/x/term"

	"steward/internal/cli/contexts"
)

func (e *env) loginCommand() *cobra.Command {
	var key, name string
	cmd := &cobra.Command{
		Use:     "login URL",
		Short:   "Sign in to a server",
		GroupID: groupAccount,
		Long: `Sign in to a server and make it the current context. Without --key, the command prints a link and a
code; open the link in a browser on any machine, sign in, and confirm the code. With --key - it reads
an API key from standard input:

  steward login https://steward.example.com
  steward login http://127.0.0.1:8080 --key - < key.txt

The credentials are stored in the file contexts.json of the user's configuration directory, which only
the user can read.`,
		Args: exactly("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.login(cmd.Context(), args[0], name, key)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "sign in with an API key; - reads it from `standard input`")
	cmd.Flags().StringVar(&name, "name", "", "`name` of the context (default: the host of the URL)")
	return cmd
}

func (e *env) login(ctx context.Context, address, name, key string) error {
	origin, err := parseOrigin(address)
	if err != nil {
		return usagef("%v", err)
	}
	c := contexts.Context{URL: origin}
	if key != "" {
		c.Key, err = e.readKey(key)
	} else {
		c.Token, err = e.deviceFlow(ctx, origin)
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
	return e.saveLogin(ctx, name, c)
}

// readKey reads an API key from the input. It refuses a key on the command line, which other users of
// the machine can read.
func (e *env) readKey(flag string) (string, error) {
	if flag != "-" {
		return "", usagef("--key takes only -, because other users of the machine can read command lines: " +
			"write the key to standard input, or set " + EnvKey)
	}
	text, err := e.readSecret("API key: ")
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", usagef("standard input has no API key")
	}
	return key, nil
}

// readSecret reads what is piped into the command, or a line that is typed and not shown.
func (e *env) readSecret(prompt string) ([]byte, error) {
	fd, ok := terminal(e.In)
	if !ok {
		return io.ReadAll(io.LimitReader(e.In, 4096))
	}
	if _, err := fmt.Fprint(e.Err, prompt); err != nil {
		return nil, err
	}
	text, err := term.ReadPassword(fd)
	e.note("")
	return text, err
}

// saveLogin checks credentials and stores them.
func (e *env) saveLogin(ctx context.Context, name string, c contexts.Context) error {
	file, err := contexts.Default(e.getenv)
	if err != nil {
		return err
	}
	s := &session{env: e, api: e.newAPI(file, "", c), context: c}
	p, _, err := s.profile(ctx)
	if err != nil {
		return err
	}
	c.User = p.describe()
	c.OrgID = p.Organizations[0].ID
	err = file.Update(func(all *contexts.All) error {
		all.Contexts[name] = c
		all.Current = name
		return nil
	})
	if err != nil {
		return err
	}
	e.note("Signed in to %s as %s (%s). The context is %s.", c.URL, c.User, p.Role, name)
	return nil
}

// oauthConfig returns the configuration of the built-in client.
func oauthConfig(origin string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: "steward-cli",
		Endpoint: oauth2.Endpoint{
			DeviceAuthURL: origin + "/device_authorization", TokenURL: origin + "/oauth/token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// deviceFlow signs the user in with a browser, on this machine or another.
func (e *env) deviceFlow(ctx context.Context, origin string) (*contexts.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: time.Minute})
	config := oauthConfig(origin)
	device, err := config.DeviceAuth(ctx)
	if err != nil {
		return nil, oauthFailure(err, origin)
	}
	e.note("Open this link in a browser and confirm the code %s:\n\n  %s\n\nWaiting …", device.UserCode, device.VerificationURIComplete)
	token, err := config.DeviceAccessToken(ctx, device)
	if err != nil {
		return nil, oauthFailure(err, origin)
	}
	return &contexts.Token{Access: token.AccessToken, Refresh: token.RefreshToken, Expiry: token.Expiry}, nil
}

// oauthFailure returns the error of an OAuth request for people.
func oauthFailure(err error, origin string) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		message := map[string]string{
			"access_denied": "the request was denied in the browser",
			"expired_token": "the code was not confirmed in time",
			"invalid_grant": "the sign-in has expired or was revoked",
		}[refused.ErrorCode]
		if message == "" {
			message = fmt.Sprintf("%s refuses to sign in: %s %s", origin, refused.ErrorCode, refused.ErrorDescription)
		}
		return &failure{code: ExitDenied, message: message, advice: "Sign in with `steward login " + origin + "`.", cause: err}
	}
	return unreachable(err, origin)
}

// unreachable returns the failure of a request that got no response.
func unreachable(err error, origin string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	return &failure{
		code: ExitUnavailable, message: fmt.Sprintf("cannot reach %s: %v", origin, err), cause: err,
		advice: "Check the URL and that the server is running (`steward context list` shows the servers).",
	}
}

func (e *env) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "logout",
		Short:   "Sign out of the current context and forget its credentials",
		GroupID: groupAccount,
		Long: `Sign out of the current context, or of that of --context, and remove it. Tokens of the device flow are
revoked. An API key stays valid; delete it with steward apikey delete.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.logout(cmd.Context()) },
	}
}

func (e *env) logout(ctx context.Context) error {
	file, err := contexts.Default(e.getenv)
	if err != nil {
		return err
	}
	var name string
	var removed contexts.Context
	err = file.Update(func(all *contexts.All) (err error) {
		name, removed, err = e.stored(all)
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
		e.note("The context %s was removed, but its token was not revoked: %v", name, err)
		return nil
	}
	e.note("Signed out of %s; the context %s was removed.", removed.URL, name)
	return nil
}

// stored returns the context of --context, or the current one.
func (e *env) stored(all *contexts.All) (string, contexts.Context, error) {
	name := e.context
	if name == "" {
		name = all.Current
	}
	c, ok := all.Contexts[name]
	if !ok {
		return "", c, &failure{
			code: ExitDenied, message: "there is no such context",
			advice: "List the contexts with `steward context list`.",
		}
	}
	return name, c, nil
}

// revoke revokes the refresh token of a context, and with it the access tokens.
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
