package storage

import (
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// progress shows the progress of a transfer: with a bar on a terminal, else with a line at the end.
type progress struct {
	env   *session.Env
	bar   *progressbar.ProgressBar // nil without a terminal
	verb  string
	start time.Time
	done  atomic.Int64
}

// newProgress returns the progress towards a total in bytes. The verb is in the past tense.
func newProgress(e *session.Env, verb string, total int64) *progress {
	bar := e.NewBar(total, progressbar.OptionShowBytes(true))
	return &progress{env: e, bar: bar, verb: verb, start: time.Now()}
}

// add adds finished bytes. Only people read the output, so it ignores write errors.
func (p *progress) add(bytes int) {
	p.done.Add(int64(bytes))
	if p.bar != nil {
		_ = p.bar.Add(bytes)
	}
}

func (p *progress) finish(what string) {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.env.Note("")
	}
	bytes := p.done.Load()
	took := time.Since(p.start)
	rate := int64(float64(bytes) / max(took.Seconds(), 0.001))
	p.env.Note("%s %s, %s in %s (%s/s).", p.verb, what, output.ByteSize(bytes), output.Duration(took), output.ByteSize(rate))
}

// fail ends the line of a bar that is not full.
func (p *progress) fail() {
	if p.bar != nil {
		p.env.Note("")
	}
}
