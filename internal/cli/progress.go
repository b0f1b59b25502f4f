package cli

import (
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
)

// progress shows how much of something is done: with a bar on a terminal, else with a line at the end.
type progress struct {
	e     *env
	bar   *progressbar.ProgressBar // nil without a terminal
	verb  string
	start time.Time
	done  atomic.Int64
}

// newProgress returns the progress of something that has a total of bytes. The verb is in the past.
func (e *env) newProgress(verb string, total int64) *progress {
	p := &progress{e: e, verb: verb, start: time.Now()}
	if isTerminal(e.Err) {
		p.bar = progressbar.NewOptions64(max(total, 1), e.barOptions(progressbar.OptionShowBytes(true))...)
	}
	return p
}

// barOptions returns the look of bars.
func (e *env) barOptions(more ...progressbar.Option) []progressbar.Option {
	return append([]progressbar.Option{
		progressbar.OptionSetWriter(e.Err), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(50 * time.Millisecond),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionEnableColorCodes(e.color(e.Err)), progressbar.OptionFullWidth(),
	}, more...)
}

// add adds bytes that are done. What is shown is for people, so errors of it are ignored.
func (p *progress) add(bytes int) {
	p.done.Add(int64(bytes))
	if p.bar != nil {
		_ = p.bar.Add(bytes)
	}
}

// finish ends the bar and prints what was done.
func (p *progress) finish(what string) {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.e.note("")
	}
	bytes := uint64(p.done.Load())
	took := time.Since(p.start)
	rate := uint64(float64(bytes) / max(took.Seconds(), 0.001))
	p.e.note("%s %s, %s in %v (%s/s).", p.verb, what, humanize.IBytes(bytes), took.Round(10*time.Millisecond), humanize.IBytes(rate))
}

// fail ends the line of a bar that is not full.
func (p *progress) fail() {
	if p.bar != nil {
		p.e.note("")
	}
}
