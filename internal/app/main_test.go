package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"steward/internal/app/config"
	"steward/internal/cli/session"
	"steward/internal/errs"
)

// runProgram runs a command line.
func runProgram(environ []string, args ...string) (code int, stdout, stderr string) {
	return runReplaced(environ, nil, args...)
}

// runReplaced runs a command line. If do is set, it replaces what the command does with its configuration and its arguments.
func runReplaced(environ []string, do func(config.Config, []string) error, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	root := program{session.Program{Environ: environ, Out: &out, Err: &errOut, Version: Version()}}.rootCommand()
	if do != nil {
		cmd, _, err := root.Find(args)
		if err != nil {
			panic(err)
		}
		cmd.RunE = config.Loaded(environ, func(_ context.Context, cfg config.Config, args []string) error { return do(cfg, args) })
	}
	code = run(context.Background(), root, append([]string{"steward"}, args...))
	return code, out.String(), errOut.String()
}

func TestCommandsGetTheirConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		environ []string
		want    string
	}{
		"defaults":               {[]string{"serve"}, nil, "./steward-data 127.0.0.1:8080 false   []"},
		"flags":                  {[]string{"serve", "--data", "d", "--listen=:0", "--require-pkce"}, nil, "d :0 true   []"},
		"flags over environment": {[]string{"serve", "--data", "d", "--require-pkce=false"}, []string{"STEWARD_DATA=e", "STEWARD_LISTEN=:1", "STEWARD_REQUIRE_PKCE=true"}, "d :1 false   []"},
		"help turned off":        {[]string{"serve", "--help=false"}, nil, "./steward-data 127.0.0.1:8080 false   []"},
		"root key":               {[]string{"root-key", "--data", "d", "--revoke-others", "--database-url", "postgres://h/d"}, nil, "d 127.0.0.1:8080 false postgres://h/d  []"},
		"reset password":         {[]string{"reset-password", "--data", "d", "a@b.example", "--base-url=https://s.example"}, nil, "d 127.0.0.1:8080 false  https://s.example [a@b.example]"},
		"organization":           {[]string{"organization", "create", "--data", "d", "Acme Ltd"}, []string{"STEWARD_DATABASE_URL=postgres://h/d"}, "d 127.0.0.1:8080 false postgres://h/d  [Acme Ltd]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			code, _, stderr := runReplaced(test.environ, func(cfg config.Config, args []string) error {
				got = fmt.Sprint(cfg.Data, " ", cfg.Listen, " ", cfg.RequirePKCE, " ", string(cfg.DatabaseURL), " ", cfg.BaseURL, " ", args)
				return nil
			}, test.args...)
			if code != 0 || got != test.want || stderr != "" {
				t.Errorf("code %d, configuration %q, stderr %q; want %q", code, got, stderr, test.want)
			}
		})
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	code, stdout, stderr := runProgram(nil)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "\n  steward serve\n") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	_, stdout, _ = runProgram(nil, "serve", "--help")
	all, err := config.Explain(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		variable := "  STEWARD_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) + " "
		if s.Name != "regions" && !strings.Contains(stdout, "      --"+s.Name+" ") && !strings.Contains(stdout, variable) {
			t.Errorf("the help of serve does not list %s", s.Name)
		}
	}
}

func TestWithoutArgumentsTheHelpIsPrinted(t *testing.T) {
	var out bytes.Buffer
	if code := Main(context.Background(), nil, session.Program{Out: &out, Err: &out}); code != 0 || !strings.Contains(out.String(), "steward serve") {
		t.Errorf("code %d, output %q", code, out.String())
	}
}

func TestErrorsArePrintedWithTheirExitCode(t *testing.T) {
	several := (&errs.Faults{}).Add("--a", "must be b").Add("--c", "must be d").Err()
	for name, test := range map[string]struct {
		args []string
		fail error
		code int
		want string
	}{
		"failure":            {[]string{"serve"}, errors.New("the disk is full"), 1, "steward: the disk is full\n"},
		"refusal":            {[]string{"root-key"}, errs.New(errs.Conflict, "in use"), 5, "steward: in use\n"},
		"no installation":    {[]string{"root-key"}, errs.New(errs.NotFound, "no installation"), 3, "steward: no installation\n"},
		"several faults":     {[]string{"serve"}, several, 2, "steward: the request has invalid values:\n  --a must be b\n  --c must be d\n"},
		"bad value":          {[]string{"serve", "--log-level=QQQ"}, nil, 2, "steward: --log-level must be debug, info, warn or error\n"},
		"unknown flag":       {[]string{"serve", "--lisen", "QQQ"}, nil, 2, "steward: unknown flag --lisen; did you mean --listen?\n"},
		"not of root-key":    {[]string{"root-key", "--listen=QQQ"}, nil, 2, "steward: unknown flag --listen; see `steward root-key --help`\n"},
		"secret as flag":     {[]string{"serve", "--admin-password=QQQ"}, nil, 2, "steward: --admin-password is not a flag, because other users of the machine can read command lines: set STEWARD_ADMIN_PASSWORD, or STEWARD_ADMIN_PASSWORD_FILE to the path of a file\n"},
		"short flag":         {[]string{"serve", "-x", "QQQ"}, nil, 2, "steward: unknown flag -x; flags begin with --\n"},
		"flag without value": {[]string{"serve", "--listen"}, nil, 2, "steward: flag needs an argument: --listen\n"},
		"broken flag":        {[]string{"serve", "--=QQQ"}, nil, 2, "steward: flags have the form --name=value\n"},
		"argument":           {[]string{"serve", "QQQ"}, nil, 2, "steward: steward serve takes flags only; see `steward serve --help`\n"},
		"no address":         {[]string{"reset-password"}, nil, 2, "steward: steward reset-password takes one e-mail address; see `steward reset-password --help`\n"},
		"two addresses":      {[]string{"reset-password", "QQQ", "QQQ"}, nil, 2, "steward: steward reset-password takes one e-mail address; see `steward reset-password --help`\n"},
		"no name":            {[]string{"organization", "create"}, nil, 2, "steward: steward organization create takes one name; see `steward organization create --help`\n"},
		"copy to itself":     {[]string{"blob", "copy", "--from=disk", "--to=disk"}, nil, 2, "steward: one of --from and --to must be disk, the other an s3:// URL; see `steward blob copy --help`\n"},
		"copy to nowhere":    {[]string{"blob", "copy", "--from=disk"}, nil, 2, "steward: one of --from and --to must be disk, the other an s3:// URL; see `steward blob copy --help`\n"},
		"copy to no URL":     {[]string{"blob", "copy", "--from=disk", "--to=QQQ"}, nil, 2, "steward: --blob-url must be a URL such as s3://bucket/prefix?endpoint=https://host\n"},
		"no such command":    {[]string{"QQQ"}, nil, 2, "steward: unknown command \"QQQ\"; see `steward --help`\n"},
		"no such subcommand": {[]string{"secrets", "QQQ"}, nil, 2, "steward: unknown command \"QQQ\" of steward secrets; see `steward secrets --help`\n"},
		"unknown command":    {[]string{"srve"}, nil, 2, "steward: unknown command \"srve\"; did you mean serve?\n"},
		"version with more":  {[]string{"version", "QQQ"}, nil, 2, "steward: steward version takes flags only; see `steward version --help`\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var do func(config.Config, []string) error
			if test.fail != nil {
				do = func(config.Config, []string) error { return test.fail }
			}
			code, _, stderr := runReplaced(nil, do, test.args...)
			if code != test.code || stderr != test.want {
				t.Errorf("code %d, stderr %q; want %d, %q", code, stderr, test.code, test.want)
			}
		})
	}
}

func TestVersionIsPrinted(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, stdout, _ := runProgram(nil, args...); code != 0 || !strings.HasPrefix(stdout, "steward "+Version()) {
			t.Errorf("%v: code %d, stdout %q", args, code, stdout)
		}
	}
}
