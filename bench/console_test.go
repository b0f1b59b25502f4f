//go:build bench

package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

const (
	ownerEmail    = "ada@example.com"
	ownerPassword = "correct horse battery staple"

	// framesPerSecond is what a page should keep up.
	framesPerSecond = 50
	watched         = 10 * time.Second
)

// tab is a tab of Chromium, headless and without a GPU.
type tab struct {
	t   *testing.T
	in  *installation
	ctx context.Context
}

// openConsole starts an installation on SQLite with a webhook of a thousand receipts and counts of
// 10,000 days, and a browser in which its owner is signed in.
func openConsole(t *testing.T) (*tab, hook) {
	t.Helper()
	s := process.New(t, "sqlite")
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + ownerEmail, "STEWARD_ADMIN_PASSWORD=" + ownerPassword}
	in := begin(t, s)
	h := in.hook()
	destinationID := in.destination(h, startRole(t, "sink").address)
	in.restart(func() { fillConsole(in, &fixture{in: in, hook: h, destinationID: destinationID, rows: 1000}) })

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, in: in, ctx: ctx}
	b.do(chromedp.EmulateViewport(1280, 900))
	b.open("/console/sign-in?return=/console/", `input[name="password"]`)
	b.do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), ownerEmail))
	b.do(chromedp.SetValue(chromedp.CSS(`input[name="password"]`), ownerPassword))
	b.do(chromedp.Click(chromedp.CSS(`form button`)))
	b.wait("the console", `document.querySelector('#app h1')`)
	return b, h
}

const plottedDays = 10_000

// fillConsole inserts the receipts of a fixture with their deliveries, and counts of days.
func fillConsole(in *installation, s *fixture) {
	now := time.Now()
	d, err := db.Open(in.t.Context(), db.Options{Path: filepath.Join(in.Dir, "steward.db")})
	in.Must(err)
	receipts, deliveries := s.rowsOf(now, 0, s.rows)
	in.Must(d.Write(in.t.Context(), func(tx *db.Tx) error {
		if err := insert(tx, "webhook_receipts", receiptColumns, receipts); err != nil {
			return err
		}
		if err := insert(tx, "webhook_deliveries", deliveryColumns, deliveries); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO webhook_totals (org_id, webhook_id, receipts, deliveries, pending) VALUES ($1, $2, $3, $3, 0)`,
			in.orgID, s.hook.id, s.rows); err != nil {
			return err
		}
		const day = 24 * 3600
		today := now.Unix() / day
		_, err := tx.Exec(fixtureCounts, in.orgID, day, today-plottedDays, today)
		return err
	}))
	in.Must(d.Close())
}

func (b *tab) do(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, action)
	b.in.Must(err)
}

// open opens a page and waits for an element.
func (b *tab) open(path, selector string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.in.URL + path))
	b.wait(selector, `document.querySelector('`+selector+`')`)
}

func (b *tab) wait(what, expression string) {
	b.t.Helper()
	waittest.True(b.t, what, func() bool {
		shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && shown // a page that is being left cannot be asked
	})
}

func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	b.in.Must(err)
	return value
}

// countFrames returns the expression that runs a step before each frame, for a time, and resolves
// to the times of the frames in milliseconds.
func countFrames(step string) string {
	return fmt.Sprintf(`new Promise(done => {
		const times = [];
		const end = performance.now() + %d;
		requestAnimationFrame(function frame(now) {
			times.push(now);
			if (now >= end) return done(times);
			%s;
			requestAnimationFrame(frame);
		});
	})`, watched.Milliseconds(), step)
}

// frames is what was seen of a page for a time. Times are in milliseconds.
type frames struct {
	rate           float64 // frames per second
	slow           float64 // 95 of 100 frames came within this time of the one before
	drawn, dropped int     // frames that the compositor drew, and that it announced and did not draw in time
	cpu            float64 // CPU time of the main thread for each frame
	script         float64 // the part of it that scripts took, with what they caused at once, such as a layout
	long           int     // tasks of the main thread that had a core for more than 50 ms
	longest        float64 // the longest such time
}

// watch counts the frames of the page while step runs before each of them, with a trace of Chromium.
func (b *tab) watch(step string) frames {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, tracing.Start, tracing.StartParams{
		TransferMode: tracing.StartTransferModeReturnAsStream,
		TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{
			"devtools.timeline", "disabled-by-default-devtools.timeline", "disabled-by-default-devtools.timeline.frame", "toplevel",
		}},
	})
	b.in.Must(err)
	times := evaluate[[]float64](b, countFrames(step))
	got := b.endTrace()
	var apart []float64
	for i := 1; i < len(times); i++ {
		apart = append(apart, times[i]-times[i-1])
	}
	slices.Sort(apart)
	got.rate = float64(len(apart)) / (times[len(times)-1] - times[0]) * 1000
	got.slow = apart[len(apart)*95/100]
	got.cpu /= float64(len(apart))
	got.script /= float64(len(apart))
	return got
}

// traced is an event of a trace. Times are in microseconds.
type traced struct {
	Name    string
	Process int     `json:"pid"`
	Thread  int     `json:"tid"`
	Start   float64 `json:"ts"`
	Took    float64 `json:"dur"`
	CPU     float64 `json:"tdur"` // of the thread; the rest of Took it waited for a core
}

// thread identifies a thread of a trace.
type thread struct{ process, thread int }

func (e traced) thread() thread { return thread{e.Process, e.Thread} }

func (e traced) isScript() bool {
	return slices.Contains([]string{"FunctionCall", "EvaluateScript", "RunMicrotasks", "FireAnimationFrame", "TimerFire"}, e.Name)
}

// endTrace stops the trace and reads it.
func (b *tab) endTrace() frames {
	b.t.Helper()
	end := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, tracing.End, struct{}{})
		return err
	})
	done, err := chromedp.Run(b.ctx, chromedp.WaitEvent(tracing.TracingComplete, nil, end))
	b.in.Must(err)
	var text strings.Builder
	for {
		part, err := chromedp.Call(b.ctx, cdpio.Read, cdpio.ReadParams{Handle: done.Stream})
		b.in.Must(err)
		text.Write(part.Data)
		if part.EOF {
			break
		}
	}
	var all struct{ TraceEvents []traced }
	b.in.Must(json.Unmarshal([]byte(text.String()), &all))
	return framesOf(all.TraceEvents)
}

// framesOf returns what a trace tells about the page.
func framesOf(events []traced) (f frames) {
	slices.SortStableFunc(events, func(a, b traced) int { return cmp.Compare(a.Start, b.Start) })
	page := mainThread(events)
	for _, e := range events {
		switch {
		case e.Process == page.process && e.Name == "DrawFrame":
			f.drawn++
		case e.Process == page.process && e.Name == "DroppedFrame":
			f.dropped++
		}
	}
	for _, e := range outermost(events, page, func(e traced) bool { return e.Name == "RunTask" }) {
		f.cpu += e.CPU / 1000
		f.longest = max(f.longest, e.CPU/1000)
		if e.CPU > 50_000 {
			f.long++
		}
	}
	for _, e := range outermost(events, page, traced.isScript) {
		f.script += e.CPU / 1000
	}
	return f
}

// mainThread returns the thread that has run scripts for the longest time.
func mainThread(events []traced) (page thread) {
	scripts := map[thread]float64{}
	for _, e := range events {
		if e.isScript() {
			scripts[e.thread()] += e.CPU
		}
	}
	for t, cpu := range scripts {
		if cpu > scripts[page] {
			page = t
		}
	}
	return page
}

// outermost returns the events of a thread that match and are not within another one that does.
func outermost(events []traced, t thread, match func(traced) bool) (found []traced) {
	until := 0.0
	for _, e := range events {
		if e.thread() == t && match(e) && e.Start >= until {
			until = e.Start + e.Took
			found = append(found, e)
		}
	}
	return found
}

func (f frames) report(what string, g goal) {
	report(what+", frames/s", f.rate, g, "95 %% within %.1f ms; %d drawn, %d dropped", f.slow, f.drawn, f.dropped)
	report("  CPU of the main thread for a frame, ms", f.cpu, goal{}, "scripts %.1f ms; %d tasks over 50 ms, longest %.0f ms", f.script, f.long, f.longest)
}

// TestConsoleFrames scrolls through a page of 1,000 receipts, and watches the live stream while 200
// requests a second arrive and are delivered, which is 400 events. The reference is an empty page
// of the same browser.
func TestConsoleFrames(t *testing.T) {
	b, h := openConsole(t)
	b.do(chromedp.Navigate("about:blank"))
	b.watch("").report("an empty page", goal{})

	b.open("/console/webhooks/"+h.id+"?limit=1000", `.stream li[aria-setsize="1000"]`)
	b.watch(`scrollBy(0, this.down = scrollY < 100 ? 90 : scrollY + innerHeight > document.body.scrollHeight - 100 ? -90 : this.down ?? 90)`).
		report("1,000 receipts, scrolled", atLeast(framesPerSecond))

	b.open("/console/webhooks/"+h.id+"?live=1", ".dot.live")
	stop := b.send(h, 200)
	b.wait("a full list", `document.querySelector('.stream li[aria-setsize="1000"]') && /· (19|2)\d+\/s/.test(document.body.innerText)`)
	got := b.watch("")
	shown := evaluate[string](b, `document.querySelector('[role="status"]').innerText`)
	sent := stop()
	got.report("live stream of 200 receipts/s", atLeast(framesPerSecond))
	fmt.Printf("%-58s sent %.0f/s; the page says %q\n", "", sent, shown)
}

// send sends requests to a webhook at a rate, over a few connections, until the returned function
// is called, which returns the rate that was reached.
func (b *tab) send(h hook, perSecond int) (stop func() float64) {
	const senders = 8
	ctx, cancel := context.WithCancel(b.t.Context())
	began := time.Now()
	var sent atomic.Int64
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			tick := time.NewTicker(time.Second * senders / time.Duration(perSecond))
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				res, err := client.Post(b.in.URL+h.path, "application/json", bytes.NewReader(newEvent()))
				if err != nil {
					b.t.Error(err)
					return
				}
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					sent.Add(1)
				}
			}
		})
	}
	return func() float64 {
		cancel()
		group.Wait()
		return float64(sent.Load()) / time.Since(began).Seconds()
	}
}

// TestConsolePlot measures how long a plot of 10,000 buckets takes from the last byte of the
// response to the end of the frame that shows it: when the page is opened, and when it shows
// another time.
func TestConsolePlot(t *testing.T) {
	b, _ := openConsole(t)
	to := time.Now().UTC().Truncate(24 * time.Hour)
	from := to.Add(-plottedDays * 24 * time.Hour)
	query := "?from=" + from.Format(time.RFC3339) + "&to=" + to.Format(time.RFC3339)
	var first, later []float64
	for range 5 {
		b.do(chromedp.Navigate("about:blank"))
		b.do(chromedp.Navigate(b.in.URL + "/console/" + query))
		b.wait("the page", `document.querySelector('#app')`)
		first = append(first, evaluate[float64](b, drawnAfter))
		b.checkPlot()
		b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('.segments button')].find(e => e.innerText === '24h').click(); undefined`))
		b.wait("a day", `location.search.includes('span=24h') && performance.getEntriesByType('resource').some(r => r.name.includes('granularity=hour'))`)
		later = append(later, evaluate[float64](b, `(performance.clearResourceTimings(), history.back(), `+drawnAfter+`)`))
		b.checkPlot()
	}
	report("plot of 10,000 buckets, page opened, ms", median(first), atMost(100), "of %.0f", first)
	report("plot of 10,000 buckets, page open, ms", median(later), atMost(100), "of %.0f", later)
}

// drawnAfter resolves to the milliseconds from the response with the counts of days to the end of
// the first frame in which the plot has them. The legend has their sum.
const drawnAfter = `(async () => {
	const painted = () => new Promise(done => requestAnimationFrame(() => {
		const after = new MessageChannel();
		after.port1.onmessage = done;
		after.port2.postMessage(0);
	}));
	for (;;) {
		await painted();
		const response = performance.getEntriesByType('resource').findLast(r => r.name.includes('granularity=day'));
		if (!response?.responseEnd || !document.querySelector('.plot canvas')) continue;
		if (!/\dM/.test(document.querySelector('.legend')?.innerText)) continue;
		return performance.now() - response.responseEnd;
	}
})()`

// checkPlot fails the test unless the plot has drawn lines.
func (b *tab) checkPlot() {
	b.t.Helper()
	if !evaluate[bool](b, `(() => {
		const c = document.querySelector('.plot canvas');
		const pixels = new Uint32Array(c.getContext('2d').getImageData(c.width / 2, 0, 20, c.height).data.buffer);
		return new Set(pixels).size > 10;
	})()`) {
		b.t.Error("the plot is empty")
	}
}
