package blobs

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressInterval is the time between two lines of progress without a terminal.
const progressInterval = 10 * time.Second

// progress shows how many bytes of a total are done: as a bar on a terminal, otherwise as a line now
// and then.
type progress struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil without a terminal
	done  int64
	total int64
	last  time.Time
}

func newProgress(out io.Writer, total int64) *progress {
	p := &progress{out: out, total: total, last: time.Now()}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions64(max(total, 1), progressbar.OptionSetWriter(f), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription("copying"), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetRenderBlankState(true))
	}
	return p
}

// add adds finished bytes. Only people read the output, so it ignores write errors.
func (p *progress) add(bytes int64) {
	p.done += bytes
	if p.bar != nil {
		_ = p.bar.Set64(min(p.done, max(p.total, 1))) // objects may have been added since we read the total
		return
	}
	if time.Since(p.last) < progressInterval {
		return
	}
	p.last = time.Now()
	_, _ = fmt.Fprintf(p.out, "copying: %s of %s\n", humanize.Bytes(uint64(p.done)), humanize.Bytes(uint64(p.total)))
}

// clear makes room for a line of text.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
