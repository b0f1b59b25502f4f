// Package session has the parts that commands for a server share: the process and the flags that all
// commands have (Env), and the connection to a server (Session).
//
// A command opens a session: with the server and credentials in --context, else in the environment,
// else in the current context (choose.go), over the public package client (api.go). Failures become
// an exit.Error, which says how to go on.
package session

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Program is the part of the process that commands use.
type Program struct {
	Environ  []string // as os.Environ returns it
	In       io.Reader
	Out, Err io.Writer
	Version  string
}

// Env is shared by the commands: the process, and the flags that all of them have.
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

// Terminal returns a stream's file descriptor, and false if it is not a terminal.
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

// width returns the output terminal's width, or 0.
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

// Note prints a line to standard error. Only people read it, so it ignores write errors.
func (e *Env) Note(format string, args ...any) { _, _ = fmt.Fprintf(e.Err, format+"\n", args...) }

// CanRedraw reports whether we can replace text that we have printed on the output.
func (e *Env) CanRedraw() bool { return IsTerminal(e.Out) && e.Getenv("TERM") != "dumb" }

// color reports whether escape sequences may be written to a stream.
func (e *Env) color(stream any) bool {
	return IsTerminal(stream) && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// NewBar returns a bar on standard error that shows the progress towards a total, or -1 if that is
// unknown. It returns nil if standard error is not a terminal.
func (e *Env) NewBar(total int64, more ...progressbar.Option) *progressbar.ProgressBar {
	if !IsTerminal(e.Err) {
		return nil
	}
	if total == 0 {
		total = 1
	}
	return progressbar.NewOptions64(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(e.Err), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(50 * time.Millisecond),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionEnableColorCodes(e.color(e.Err)), progressbar.OptionFullWidth(),
		progressbar.OptionUseIECUnits(false),
	}, more...)...)
}

// maxSecret bounds a secret that we read.
const maxSecret = 4096

// ReadSecret reads text that is piped into the command, or a line that is typed and not shown,
// without the space around it.
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

// lineInterval is the time between two lines of progress without a terminal.
const lineInterval = 10 * time.Second

// Progress shows how far a command is: with a bar on a terminal, else with a line now and then. Only
// people read it, so it ignores write errors.
type Progress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar // nil without a terminal
	unit string
	last time.Time
}

// NewProgress returns the progress towards a total, or -1 if that is unknown. It counts bytes if unit
// is empty.
func NewProgress(p Program, title string, total int64, unit string) *Progress {
	bar := (&Env{Program: p}).NewBar(total, progressbar.OptionSetDescription(title), progressbar.OptionShowBytes(unit == ""),
		progressbar.OptionClearOnFinish())
	return &Progress{out: p.Err, bar: bar, unit: unit, last: time.Now()}
}

// Write counts bytes. Without a terminal it shows nothing.
func (p *Progress) Write(data []byte) (int, error) {
	if p.bar != nil {
		_ = p.bar.Add(len(data))
	}
	return len(data), nil
}

// Set shows how much of a total is done.
func (p *Progress) Set(title string, done, total int64) {
	if p.bar != nil {
		p.bar.Describe(title)
		p.bar.ChangeMax64(max(total, done, 1))
		_ = p.bar.Set64(done)
		return
	}
	if time.Since(p.last) < lineInterval {
		return
	}
	p.last = time.Now()
	if p.unit == "" {
		_, _ = fmt.Fprintf(p.out, "%s: %s of %s\n", title, humanize.Bytes(uint64(done)), humanize.Bytes(uint64(total)))
		return
	}
	_, _ = fmt.Fprintf(p.out, "%s: %d of %d %s\n", title, done, total, p.unit)
}

// Note prints a line in place of the bar, which appears again below it.
func (p *Progress) Note(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// End removes the bar. You may call it again.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
