package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// event is a line from `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // the package that build-output is about
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// report prints a line for each package as it ends, and the output of failed tests.
type report struct {
	output   map[string]*strings.Builder // from running tests, by package and name
	builds   map[string]*strings.Builder // from packages that do not compile
	coverage map[string]string           // by package, with -cover
	packages []timed
	tests    []timed
	passed   int
	failed   int
	skipped  int
}

func newReport() *report {
	return &report{output: map[string]*strings.Builder{}, builds: map[string]*strings.Builder{}, coverage: map[string]string{}}
}

func (r *report) read(events io.Reader) error {
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("output of go test: %w", err)
		}
		switch {
		case e.Action == "build-output":
			write(r.builds, e.ImportPath, e.Output)
		case e.Action == "output" && strings.HasPrefix(e.Output, "=== "): // RUN, PAUSE, CONT
		case e.Action == "output" && strings.HasPrefix(e.Output, "coverage: "):
			r.coverage[e.Package] = "\t" + strings.TrimSpace(e.Output)
		case e.Action == "output":
			write(r.output, e.Package+" "+e.Test, e.Output)
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		case e.Test == "":
			r.packageEnded(e)
		default:
			r.testEnded(e)
		}
	}
}

func write(to map[string]*strings.Builder, key, text string) {
	if to[key] == nil {
		to[key] = &strings.Builder{}
	}
	to[key].WriteString(text)
}

func (r *report) testEnded(e event) {
	key := e.Package + " " + e.Test
	if e.Action == "fail" {
		fmt.Print(r.output[key])
	}
	delete(r.output, key)
	if e.Action == "skip" {
		fmt.Printf("SKIP\t%s %s\n", e.Package, e.Test)
	}
	if strings.Contains(e.Test, "/") {
		return
	}
	r.tests = append(r.tests, timed{e.Package + " " + e.Test, seconds(e.Elapsed)})
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
	default:
		r.skipped++
	}
}

func (r *report) packageEnded(e event) {
	switch e.Action {
	case "pass":
		fmt.Printf("ok  \t%s\t%.1fs%s\n", e.Package, e.Elapsed, r.coverage[e.Package])
		r.packages = append(r.packages, timed{e.Package, seconds(e.Elapsed)})
	case "fail":
		if text := r.builds[e.FailedBuild]; text != nil {
			fmt.Print(text)
		}
		// A test that was running when the process ended gets no event.
		for key, text := range r.output {
			if strings.HasPrefix(key, e.Package+" ") {
				fmt.Print(text)
			}
		}
		fmt.Printf("FAIL\t%s\t%.1fs\n", e.Package, e.Elapsed)
		r.packages = append(r.packages, timed{e.Package, seconds(e.Elapsed)})
		r.failed = max(r.failed, 1)
	}
	for key := range r.output {
		if strings.HasPrefix(key, e.Package+" ") {
			delete(r.output, key)
		}
	}
}

// summarize prints how long the packages and the slowest tests took.
func (r *report) summarize(took time.Duration) {
	fmt.Printf("\nPackages, slowest first:\n")
	for _, p := range slowestFirst(r.packages) {
		fmt.Printf("%8.1fs  %s\n", p.took.Seconds(), p.name)
	}
	fmt.Printf("\nThe ten slowest tests:\n")
	slowest := slowestFirst(r.tests)
	for _, t := range slowest[:min(10, len(slowest))] {
		fmt.Printf("%8.1fs  %s\n", t.took.Seconds(), t.name)
	}
	fmt.Printf("\n%d packages in %s\n%d passed, %d failed, %d skipped\n",
		len(r.packages), took.Round(time.Second), r.passed, r.failed, r.skipped)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// reportStatements prints which functions ran SQL on one database only. It compares functions, because a
// statement's text often depends on the database.
func reportStatements(dir string) error {
	sqlite, err := readStatements(filepath.Join(dir, "sqlite"))
	if err != nil {
		return err
	}
	postgres, err := readStatements(filepath.Join(dir, "postgres"))
	if err != nil {
		return err
	}
	both := 0
	fmt.Println()
	for _, function := range slices.Sorted(maps.Keys(sqlite)) {
		if postgres[function] {
			both++
		} else {
			fmt.Println("ran SQL on SQLite only:", function)
		}
	}
	for _, function := range slices.Sorted(maps.Keys(postgres)) {
		if !sqlite[function] {
			fmt.Println("ran SQL on PostgreSQL only:", function)
		}
	}
	fmt.Printf("%d functions ran their SQL on both databases\n", both)
	return nil
}

// readStatements returns the functions in a log from package dbtest.
func readStatements(path string) (map[string]bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	found := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		place, _, _ := strings.Cut(lines.Text(), "\t")
		function, _, _ := strings.Cut(place, ":")
		found[function] = true
	}
	return found, lines.Err()
}
