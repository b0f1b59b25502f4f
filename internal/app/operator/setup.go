package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"steward/internal/account"
	"steward/internal/app/config"
	"steward/internal/cli/session"
)

func setupOperation() operation[struct{}, account.SetupLink] {
	return operation[struct{}, account.SetupLink]{"/setup-link", (*Operator).setupLink}
}

// setupLink returns the link for setting up the installation. It returns Conflict if that is done.
func (o *Operator) setupLink(ctx context.Context, _ struct{}) (account.SetupLink, error) {
	if o.baseURL == "" {
		return account.SetupLink{}, errBaseURL
	}
	ring, err := o.ring(ctx)
	if err != nil {
		return account.SetupLink{}, err
	}
	return (&account.Setup{Store: o.accounts, Ring: ring}).Link(ctx, o.baseURL)
}

// printSetupLink prints the link for setting up the installation.
func printSetupLink(ctx context.Context, p session.Program, cfg config.Config) error {
	link, err := setupOperation().run(ctx, cfg, struct{}{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%s\nThe link can be used once, until %v.\n", link.Link, link.ExpiresAt)
	return err
}

func setupLinkCommand(p session.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup-link",
		Short: "Print the link with which a new installation is set up",
		Long: `Print the link with which the first owner of a new installation chooses how to sign in to the console, once,
within 12 to 24 hours. It is the link that starts print, unless STEWARD_ROOT_KEY or STEWARD_ADMIN_EMAIL is set. The
server may be running; the command must run as the same user of the machine. If no server is running, the
link begins with --base-url, or else with the URL of the last start, and the command needs the master key.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			return printSetupLink(ctx, p, cfg)
		}),
	}
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler", "base-url", "master-key-command")
	return cmd
}
