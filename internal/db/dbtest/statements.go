package dbtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"steward/internal/db"
)

// statements has the statements that ran in this process, by their line in the log.
var statements sync.Map

// observer returns an observer that logs each of the product's statements once: a line with the
// place that runs it, in the engine's file in the directory that STEWARD_TEST_STATEMENTS names.
func observer(t testing.TB, dialect db.Dialect) db.Observer {
	t.Helper()
	dir := os.Getenv("STEWARD_TEST_STATEMENTS")
	if dir == "" {
		return db.Observer{}
	}
	return db.Observer{Statement: func(text string) {
		place, ok := caller()
		if !ok {
			return
		}
		line := place + "\t" + strings.Join(strings.Fields(text), " ") + "\n"
		if _, seen := statements.LoadOrStore(dialect.String()+line, true); seen {
			return
		}
		file, err := os.OpenFile(filepath.Join(dir, dialect.String()), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err) // t may have ended
		}
		if _, err := file.WriteString(line); err != nil {
			panic(err)
		}
		_ = file.Close() // the kernel has taken its only write
	}}
}

// caller returns the place outside package db that runs a statement. It returns false for statements
// that a test runs itself.
func caller() (place string, ok bool) {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, "steward/internal/db.") || strings.HasPrefix(f.Function, "steward/internal/db/dbtest.") ||
			strings.HasPrefix(f.Function, "steward/internal/sqlite.") {
			continue
		}
		if strings.HasSuffix(f.File, "_test.go") || !strings.HasPrefix(f.Function, "steward/") {
			return "", false
		}
		function, _, _ := strings.Cut(f.Function, "[")
		return fmt.Sprintf("%s:%d", function, f.Line), true
	}
	return "", false
}
