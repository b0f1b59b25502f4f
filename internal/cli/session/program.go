// Package session is what the commands that use a server share: the process and the flags of all commands
// (Env), and the connection to a server (Session).
//
// A command opens a session: the server and credentials of --context, else of the environment, else of
// the current context (choose.go), over the public package client (api.go). What goes wrong becomes an
// exit.Error, which says what to do next.
package session

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Program is what the commands get from the process.
type Program struct {
	Environ  []string // as os.Environ returns it
	In       io.Reader
	Out, Err io.Writer
	Version  string
}

// Env is what the commands share: the process, and the flags that all of them have.
type Env struct {
	Program
	Verbose bool

	format  string
	jq      string
	context string
	yes     bool
}

// Getenv returns an environment variable, or "".
func (e *Env) Getenv(name string) string {
	for _, line := range e.Environ {
		key, value, _ := strings.Cut(line, "=")
		if key == name {
			return value
		}
	}
	return ""
}

// Terminal returns the file descriptor of a stream and whether it is a terminal.
func Terminal(stream any) (fd int, ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	_, ok := Terminal(stream)
	return ok
}

// width returns the width of the terminal that is the output, or 0.
func (e *Env) width() int {
	fd, ok := Terminal(e.Out)
	if !ok {
		return 0
	}
	if width, _, err := term.GetSize(fd); err == nil && width > 0 {
		return width
	}
	width, err := strconv.Atoi(e.Getenv("COLUMNS"))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// Note prints a line to standard error. What is said there is for people, so errors are ignored.
func (e *Env) Note(format string, args ...any) { _, _ = fmt.Fprintf(e.Err, format+"\n", args...) }

// CanRedraw reports whether what was printed on the output can be replaced.
func (e *Env) CanRedraw() bool { return IsTerminal(e.Out) && e.Getenv("TERM") != "dumb" }

// color reports whether escape sequences may be written to a stream.
func (e *Env) color(stream any) bool {
	return IsTerminal(stream) && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// NewBar returns a bar on standard error that shows how much of a total is done, or nil if that is not a
// terminal.
func (e *Env) NewBar(total int64, more ...progressbar.Option) *progressbar.ProgressBar {
	if !IsTerminal(e.Err) {
		return nil
	}
	return progressbar.NewOptions64(max(total, 1), append([]progressbar.Option{
		progressbar.OptionSetWriter(e.Err), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(50 * time.Millisecond),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionEnableColorCodes(e.color(e.Err)), progressbar.OptionFullWidth(),
		progressbar.OptionUseIECUnits(false),
	}, more...)...)
}

// maxSecret bounds a secret that is read.
const maxSecret = 4096

// ReadSecret reads what is piped into the command, or a line that is typed and not shown, without the space
// around it.
func (e *Env) ReadSecret(prompt string) (string, error) {
	fd, ok := Terminal(e.In)
	if !ok {
		text, err := io.ReadAll(io.LimitReader(e.In, maxSecret))
		return strings.TrimSpace(string(text)), err
	}
	if _, err := fmt.Fprint(e.Err, prompt); err != nil {
		return "", err
	}
	text, err := term.ReadPassword(fd)
	e.Note("")
	return strings.TrimSpace(string(text)), err
}
