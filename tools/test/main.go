// Command test runs the tests in packages, and prints how long each package took and the ten slowest
// tests. `make test` and `make test-all` call it. Arguments after -- go to `go test`:
//
//	go run ./tools/test -- -cover ./internal/...
//
// It starts one PostgreSQL server, migrates a template for each engine and builds the binary once, so that no
// package has to do that itself. At the end it names functions whose SQL ran on one database only
// (reportStatements).
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/db/dbtest"
)

func main() {
	statements := flag.Bool("statements", false, "name functions whose SQL ran on one database only")
	parallel := flag.Int("p", 6, "`packages` that are tested at once")
	timeout := flag.Duration("timeout", time.Hour, "limit for a package that hangs")
	flag.Parse()
	if err := run(*statements, *parallel, *timeout, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tests the packages that args, the arguments for `go test`, name.
func run(statements bool, parallel int, timeout time.Duration, args []string) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "steward-test-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := dbtest.StartShared()
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }()
	env, err := prepare(dir, server.URL)
	if err != nil {
		return err
	}
	args = append([]string{
		"test", "-json", "-count=1", "-vet=off", "-ldflags=-s", // without symbols it links in half the time
		fmt.Sprintf("-p=%d", parallel), fmt.Sprintf("-timeout=%s", timeout),
		"-exec=env -u GOGC", // which is for the compiler
	}, args...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOGC=400") // the compiler takes a fifth less CPU time
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport()
	if err := r.read(events); err != nil {
		return err
	}
	failed := cmd.Wait()
	r.summarize(time.Since(began))
	if failed != nil {
		return fmt.Errorf("go test: %w", failed)
	}
	if statements {
		return reportStatements(filepath.Join(dir, "statements"))
	}
	return nil
}

// prepare sets up everything that the packages share, and returns environment variables that tell them
// where it is.
func prepare(dir, server string) ([]string, error) {
	const template = "steward_template"
	if err := dbtest.NewTemplate(context.Background(), server, template); err != nil {
		return nil, fmt.Errorf("create the template database: %w", err)
	}
	sqlite := filepath.Join(dir, "template.db")
	if err := dbtest.NewSQLiteTemplate(sqlite); err != nil {
		return nil, fmt.Errorf("create the template file: %w", err)
	}
	binary := filepath.Join(dir, "steward")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", binary, "./cmd/steward")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the binary: %w", err)
	}
	statements := filepath.Join(dir, "statements")
	if err := os.Mkdir(statements, 0o700); err != nil {
		return nil, err
	}
	return []string{
		"STEWARD_TEST_POSTGRES=" + server, "STEWARD_TEST_TEMPLATE=" + template, "STEWARD_TEST_SQLITE=" + sqlite,
		"STEWARD_TEST_BINARY=" + binary, "STEWARD_TEST_STATEMENTS=" + statements,
	}, nil
}

// timed is a package or a test and its duration.
type timed struct {
	name string
	took time.Duration
}

func slowestFirst(list []timed) []timed {
	return slices.SortedFunc(slices.Values(list), func(a, b timed) int { return cmp.Compare(b.took, a.took) })
}
