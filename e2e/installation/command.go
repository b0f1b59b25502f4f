package installation

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// RunDoctor runs `steward doctor` on the installation and returns its output and its exit code.
func (s *Steward) RunDoctor(args ...string) (out string, code int) {
	s.T.Helper()
	cmd := s.Command(append([]string{"doctor"}, args...)...)
	text, err := cmd.CombinedOutput()
	code, err = ExitCode(err)
	s.Must(err)
	return string(text), code
}

// WantChecks requires checks with a status and a detail, such as "database ok .*schema".
func WantChecks(t *testing.T, out string, checks ...string) {
	t.Helper()
	for _, check := range checks {
		pattern := "(?m)^" + strings.ReplaceAll(check, "  ", " +")
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("no line matches %s in\n%s", pattern, out)
		}
	}
}

// ExitCode returns a command's exit code, given the error from running it. It returns an error if the
// command could not run.
func ExitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
