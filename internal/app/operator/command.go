package operator

import (
	"context"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/cli/session"
)

// Commands returns the operator's commands.
func Commands(p session.Program) []*cobra.Command {
	return []*cobra.Command{
		rootKeyCommand(p), resetPasswordCommand(p), setupLinkCommand(p),
		session.Parent("organization", "Create another organization on this server", organizationCreateCommand(p)),
		session.Parent("secrets", "Encrypt all secrets with a new master key", secretsRotateCommand(p), secretsStatusCommand(p)),
	}
}

func rootKeyCommand(p session.Program) *cobra.Command {
	var revokeOthers bool
	cmd := &cobra.Command{
		Use:   "root-key",
		Short: "Create another root key, if the first one is lost",
		Long: `Create another root key for the first owner and print it. The server may be running; the command must
run as the same user of the machine. Existing keys stay valid, unless --revoke-others is given: then the
other root keys of the organization are deleted, and refused at once.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			return newRootKey(ctx, p, cfg, revokeOthers)
		}),
	}
	cmd.Flags().BoolVar(&revokeOthers, "revoke-others", false, "delete the other root keys of the organization")
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler")
	return cmd
}

func resetPasswordCommand(p session.Program) *cobra.Command {
	var clearFactors bool
	cmd := &cobra.Command{
		Use:   "reset-password EMAIL",
		Short: "Print a link with which a user can set a new password",
		Long: `Print a link with which the user with this e-mail address can set a new password, once, within an hour.
Earlier links of the user become void. The server may be running; the command must run as the same
user of the machine. If no server is running, the link begins with --base-url, or else with the URL of
the last start. A new password does not replace a second factor: if the user has lost that too, remove it
with --clear-factors.`,
		Args: config.OneArgument("e-mail address"),
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, args []string) error {
			return resetPassword(ctx, p, cfg, resetInput{Email: args[0], ClearFactors: clearFactors})
		}),
	}
	cmd.Flags().BoolVar(&clearFactors, "clear-factors", false,
		"remove the authenticator app, recovery codes, passkeys and linked accounts of the user, and end all sessions")
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler", "base-url")
	return cmd
}

func organizationCreateCommand(p session.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create another organization and print its root key",
		Long: `Create another organization with an owner and a project, and print the root key of the owner, which is
shown only now. Organizations do not see each other. With the key, members are invited who sign in with an
e-mail address. The server may be running; the command must run as the same user of the machine.`,
		Args: config.OneArgument("name"),
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, args []string) error {
			return createOrganization(ctx, p, cfg, args[0])
		}),
	}
	config.AddFlags(cmd, "config", "data", "database-url")
	return cmd
}
