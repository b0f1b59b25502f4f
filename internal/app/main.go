// Package app is the program: it reads the configuration, builds every slice, connects them, and
// runs the result. It may import every other package in Steward.
//
// Main puts the command line together. Packages backups, blobs, config, docs, doctor, migrate,
// operator and top have the server's commands; package cli has those that use a server over its API.
//
// Serve locks the data directory (datadir), opens the database (database.go), the store for bytes
// (blobs) and the listeners (listeners), connects the slices (wire.go), sets up an empty
// installation (bootstrap.go), starts the background loops (loops.go) and serves until its context
// ends (drain.go). This is the only package that imports all slices. Where one slice calls another
// against the order of imports, we set a func field to the other's method.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app/backups"
	"steward/internal/app/blobs"
	"steward/internal/app/config"
	"steward/internal/app/docs"
	"steward/internal/app/doctor"
	"steward/internal/app/migrate"
	"steward/internal/app/operator"
	"steward/internal/app/top"
	"steward/internal/cli"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
	"steward/internal/errs"
)

// Main runs the program with os.Args and the rest of the process's environment, and returns its exit
// code, one of exit.Codes. When ctx ends, it shuts down and returns.
func Main(ctx context.Context, args []string, process session.Program) int {
	process.Version = Version()
	return run(ctx, program{process}.rootCommand(), args)
}

// program is the command line.
type program struct{ session.Program }

// run runs a command line and returns its exit code.
func run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(append([]string{}, args[min(1, len(args)):]...)) // never nil, which cobra replaces by os.Args
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	root.PrintErr(describe(err))
	return exitCode(err)
}

// exitCode returns the exit code for any command's error.
func exitCode(err error) int {
	switch errs.KindOf(err) {
	case errs.Invalid: // a setting
		return exit.Usage
	case errs.NotFound:
		return exit.NotFound
	case errs.Conflict:
		return exit.Conflict
	}
	return exit.Code(err)
}

// describe returns an error's text for the terminal: one line, or a list if it has several faults.
func describe(err error) string {
	var e *errs.Error
	if !errors.As(err, &e) || len(e.Faults) == 0 {
		return fmt.Sprintf("steward: %v\n", err)
	}
	if len(e.Faults) == 1 {
		return fmt.Sprintf("steward: %s %s\n", e.Faults[0].Location, e.Faults[0].Message)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "steward: %s:\n", e.Message)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "  %s %s\n", f.Location, f.Message)
	}
	return b.String()
}

func (p program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "steward",
		Short: "A self-hosted control plane in one binary",
		Long: `Steward is a self-hosted control plane in one binary: OAuth applications, API keys, agent threads,
evaluations, object storage and webhooks.

To start it with all data in ./steward-data:

  steward serve

To use a server from here or from another machine:

  steward login http://localhost:8080
  steward webhook list`,
		Version:               p.Version,
		Args:                  session.Args(),
		RunE:                  session.ShowHelp,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	root.SetVersionTemplate("steward {{.Version}}\n")
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	root.SetFlagErrorFunc(config.FlagError)
	root.AddGroup(&cobra.Group{ID: groupServer, Title: "The server:"})
	commands := []*cobra.Command{
		p.serveCommand(), doctor.Command(p.Program), doctor.Health(p.Program), top.Command(p.Program), config.Command(p.Program), docs.Command(p.Program),
		blobs.Command(p.Program), p.versionCommand(), session.Parent("mail", "Show the mail that the server sends", p.mailPreviewCommand()),
		migrate.Command(p.Program),
	}
	commands = append(commands, backups.Commands(p.Program)...)
	for _, cmd := range append(commands, operator.Commands(p.Program)...) {
		cmd.GroupID = groupServer
		root.AddCommand(cmd)
	}
	cli.AddCommands(root, p.Program)
	return root
}

// groupServer is the help's group for the server's commands.
const groupServer = "server"

func (p program) serveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the server",
		Long:  "Start the server. All it needs is a data directory, which the first start creates.\n\n" + config.Help(),
		Args:  config.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Given(cmd), p.Environ)
			if err != nil {
				return err
			}
			cfg.Force = force
			return Serve(cmd.Context(), p.Program, cfg)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "serve a database although its rows, or the bytes of its objects, were moved elsewhere (steward migrate), "+
		"or create one although the directory belongs to PostgreSQL")
	config.AddFlags(cmd)
	return cmd
}

func (p program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  config.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.Out, "steward %s %s %s/%s\n",
				p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is set with `go build -ldflags "-X steward/internal/app.version=v1.2.3"`.
var version string

// Version returns this binary's version: as the build set it, else as Go derived it from the
// repository, else "dev".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return "dev"
	}
	return cmp.Or(info.Main.Version, "dev")
}
