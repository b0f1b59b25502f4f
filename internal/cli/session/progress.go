package session

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
)

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
