// Package app is where the parts of Steward meet: it reads the configuration, builds every slice, joins them, and runs the whole.
//
// Main parses the command line into a Config (config.go) and hands that to Serve or NewRootKey. LockDir (lock.go) sees to it that one
// process at a time uses a data directory.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"steward/internal/errs"
)

// Exit codes of the process.
const (
	exitFailed = 1
	exitUsage  = 2
)

// Main is the program. It takes os.Args and os.Environ, and gives the exit code: 0, 1 when something failed, 2 when the command line
// was wrong. It ends, after an orderly stop, when ctx does.
func Main(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	p := program{environ: environ, stdout: stdout, stderr: stderr, serve: Serve, rootKey: NewRootKey}
	return p.run(ctx, args)
}

// program is the command line. What its commands do are fields, so that tests see what reaches them.
type program struct {
	environ        []string
	stdout, stderr io.Writer
	serve          func(ctx context.Context, cfg Config, stdout, stderr io.Writer) error
	rootKey        func(ctx context.Context, cfg Config, stdout io.Writer) error
}

// usageError is a command line that cannot be understood.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

func (p program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(append([]string{}, args[min(1, len(args)):]...)) // never nil, for which cobra would take os.Args
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	report(p.stderr, err)
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitFailed
}

// report prints an error: on one line, or as a list when it has several faults.
func report(w io.Writer, err error) {
	var e *errs.Error
	switch {
	case !errors.As(err, &e) || len(e.Faults) == 0:
		fmt.Fprintf(w, "steward: %v\n", err)
	case len(e.Faults) == 1:
		fmt.Fprintf(w, "steward: %s %s\n", e.Faults[0].Location, e.Faults[0].Message)
	default:
		fmt.Fprintf(w, "steward: %s:\n", e.Message)
		for _, f := range e.Faults {
			fmt.Fprintf(w, "  %s %s\n", f.Location, f.Message)
		}
	}
}

func (p program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "steward",
		Short: "A self-hosted control plane in one binary",
		Long: `Steward is a self-hosted control plane in one binary: OAuth applications, API keys, object
storage, databases, key-value stores, agent threads, evaluations and webhooks.

To start it here, with all data in ./steward-data:

  steward serve`,
		Version:               Version(),
		Args:                  knownCommand,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	root.SetVersionTemplate("steward {{.Version}}\n")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(p.serveCommand(), p.rootKeyCommand(), p.versionCommand())
	return root
}

func (p program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start Steward",
		Long:  "Start Steward. It needs nothing but a directory, which is made on the first start.\n\n" + settingsHelp(),
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := Load(setFlags(cmd), p.environ)
			if err != nil {
				return err
			}
			return p.serve(cmd.Context(), cfg, p.stdout, p.stderr)
		},
	}
	addFlags(cmd, func(setting) bool { return true })
	return cmd
}

func (p program) rootKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "root-key",
		Short: "Make a new root key when the first one is lost",
		Long:  "Make a new root key on the data directory or the database, and print it.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := Load(setFlags(cmd), p.environ)
			if err != nil {
				return err
			}
			return p.rootKey(cmd.Context(), cfg, p.stdout)
		},
	}
	addFlags(cmd, func(s setting) bool { return slices.Contains([]string{"config", "data", "database-url"}, s.name) })
	return cmd
}

func (p program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.stdout, "steward %s %s %s/%s\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// knownCommand refuses what is no command. Cobra's own refusal takes five lines.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			known = append(known, cmd.Name())
		}
	}
	return usageError{fmt.Sprintf("unknown command %q; the commands are %s", args[0], strings.Join(known, ", "))}
}

// noArguments does not show the argument: it may be a secret that lost its flag.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Sprintf("%s takes flags only; `%s --help` lists them", cmd.CommandPath(), cmd.CommandPath())}
}

// flagError words what pflag refuses: flags that the command does not have, and flags without their value.
func flagError(cmd *cobra.Command, err error) error {
	if errors.As(err, new(*pflag.InvalidSyntaxError)) {
		return usageError{"a flag has the form --name=value"} // pflag's own text shows the value
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return usageError{err.Error()}
	}
	if missing.GetSpecifiedShortnames() != "" {
		return usageError{fmt.Sprintf("-%s is not a flag; flags begin with --", missing.GetSpecifiedName())}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	flag := "--" + missing.GetSpecifiedName()
	return usageError{flag + " " + unknownFlag(flag, known, cmd.CommandPath())}
}

// flagValue keeps a flag's text as it is, so that Load can tell all faults at once.
type flagValue struct {
	text string
	kind kind
}

func (v *flagValue) Set(text string) error { v.text = text; return nil }
func (v *flagValue) String() string        { return v.text }

// Type decides how the help shows the value.
func (v *flagValue) Type() string {
	if v.kind == boolean {
		return "bool"
	}
	return "string"
}

// addFlags makes flags of those settings that are wanted and can be flags.
func addFlags(cmd *cobra.Command, wanted func(setting) bool) {
	cmd.Flags().SortFlags = false // the table has the important ones first
	for _, s := range settings(&Config{}) {
		if s.kind == secret || !wanted(s) {
			continue
		}
		f := cmd.Flags().VarPF(&flagValue{s.value, s.kind}, s.name, "", s.usage)
		if s.kind == boolean {
			f.NoOptDefVal = "true"
		}
	}
}

// setFlags gives the settings that stand on the command line.
func setFlags(cmd *cobra.Command) map[string]string {
	flags := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ours := f.Value.(*flagValue); ours {
			flags[f.Name] = f.Value.String()
		}
	})
	return flags
}

// settingsHelp says where settings can be given. Those that are flags are listed below it by cobra.
func settingsHelp() string {
	var b strings.Builder
	b.WriteString(`A setting is taken from its flag, else from the environment (--s3-listen: STEWARD_S3_LISTEN), else
from the YAML file that --config names (s3_listen: …), else it has its default. The file may also list
regions:

  regions:
    - {region: local, description: This machine}

These are no flags, since every user of the machine can read those. Each may also be in a file of its
own, whose path is in the variable with _FILE behind its name, or under its key in the YAML file
(root_key_file: …):

`)
	for _, s := range settings(&Config{}) {
		if s.kind == secret {
			fmt.Fprintf(&b, "  %-24s %s\n", s.env(), s.usage)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// version is set by `go build -ldflags "-X steward/internal/app.version=v1.2.3"`, and by nothing else.
var version = "dev"

// Version is the version of this binary, with the commit it was built from where Go noted that: "v1.2.3 (0123456789ab, modified)".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	return withCommit(version, info.Settings)
}

func withCommit(version string, settings []debug.BuildSetting) string {
	var commit, modified string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	if commit == "" {
		return version
	}
	return fmt.Sprintf("%s (%s%s)", version, commit, modified)
}
