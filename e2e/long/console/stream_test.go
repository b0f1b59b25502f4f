package console

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/waittest"
)

// streaming opens the live stream of a new webhook.
func streaming(t *testing.T, s *installation.Steward) (c *console, url string) {
	t.Helper()
	hook := s.Call("POST", "/webhook/create", object{"name": "many"}).Want(201)
	c = signedIn(t, s)
	c.LoadAxe()
	c.visit("/webhooks/" + hook.Text("id") + "?live=1")
	c.Wait("the stream", `document.querySelector('.dot.live')`)
	return c, hook.Text("url")
}

// sendNumbers sends requests with the numbers from one up to another.
func sendNumbers(t *testing.T, url string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		send(t, url, fmt.Sprintf(`{"n": %d}`, i))
	}
}

// rowCount is the expression of how many rows the list has. Those near the screen are in the document.
const rowCount = `Number(document.querySelector('.stream li')?.getAttribute('aria-setsize'))`

// checkRows scrolls through the list and fails the test unless its rows are the numbers from one
// down to 0.
func (c *console) checkRows(newest int) {
	c.T.Helper()
	texts := chromium.Evaluate[[]string](c.Browser, `(async () => {
		const found = new Map();
		for (let y = 0; ; y += 400) {
			scrollTo(0, y);
			await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
			for (const li of document.querySelectorAll('.stream li')) found.set(Number(li.ariaPosInSet), li.querySelector('.mono').textContent);
			if (y > document.body.scrollHeight) break;
		}
		scrollTo(0, 0);
		return [...found].sort((a, b) => a[0] - b[0]).map(([, text]) => text);
	})()`)
	var want []string
	for i := newest; i >= 0; i-- {
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
	}
	if got := strings.Join(texts, ","); got != strings.Join(want, ",") {
		c.T.Errorf("the rows are %s", got)
	}
}

// testStreamsWhatArrives sends many requests while the page is open, and checks that all are
// shown, once and in order, also those that come while the connection is broken.
func testStreamsWhatArrives(t *testing.T, s *installation.Steward) {
	c, url := streaming(t, s)
	sendNumbers(t, url, 0, 300)
	c.Wait("all of them", rowCount+` === 300`)
	if rows := chromium.Evaluate[int](c.Browser, `document.querySelectorAll('.stream li').length`); rows > 100 {
		t.Errorf("%d rows are in the document, of which the screen shows 20", rows)
	}
	c.disconnected(func() { sendNumbers(t, url, 300, 310) })
	c.Wait("those that came meanwhile", rowCount+` === 310`)
	c.checkRows(309)
	c.Clean()
}

// disconnected calls a function while the stream is not connected.
func (c *console) disconnected(do func()) {
	c.T.Helper()
	c.offline(true)
	c.unplug(true)
	c.See("Reconnecting")
	do()
	c.unplug(false)
	c.offline(false)
}

// unplug tells the page that the device is offline, or online again. offline alone leaves open
// connections.
func (c *console) unplug(off bool) {
	c.T.Helper()
	chromium.Call(c.Browser, network.OverrideNetworkState, network.OverrideNetworkStateParams{
		Offline: off, DownloadThroughput: -1, UploadThroughput: -1,
	})
}

// testStreamPauses checks that rows stay where they are while the user has paused the
// stream, scrolls, or is at one with the keyboard, and that what came meanwhile is shown then.
func testStreamPauses(t *testing.T, s *installation.Steward) {
	c, url := streaming(t, s)
	sendNumbers(t, url, 0, 100)
	c.Wait("all of them", rowCount+` === 100`)

	c.Press("Pause")
	c.See("Paused")
	sendNumbers(t, url, 100, 105)
	c.See("5 new requests")
	c.Check("console-stream-paused")
	c.Wait("the rows", rowCount+` === 100`)
	c.Press("Resume")
	c.Wait("those that came meanwhile", rowCount+` === 105`)

	c.Do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 1000); undefined`))
	c.See("Paused")
	sendNumbers(t, url, 105, 106)
	c.See("1 new request")
	c.Press("1 new request")
	c.Wait("it, at the top", rowCount+` === 106 && scrollY === 0`)

	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.stream a').focus(); undefined`))
	c.See("Paused")
	sendNumbers(t, url, 106, 107)
	c.See("1 new request")
	c.Do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); undefined`))
	c.Wait("the row", rowCount+` === 107`)
	c.checkRows(106)
	c.Clean()
}

// testStreamKeepsTheNewest sends more than a page keeps.
func testStreamKeepsTheNewest(t *testing.T, s *installation.Steward) {
	c, url := streaming(t, s)
	sendNumbers(t, url, 0, 1100)
	c.Wait("the last one", `document.querySelector('.stream .mono')?.textContent === '{"n":1099}'`)
	c.See("1,000 shown: the newest")
	if rows := chromium.Evaluate[int](c.Browser, rowCount); rows != 1000 {
		t.Errorf("the list has %d rows", rows)
	}
	c.Clean()
}

// testStreamSaysThatItIsBehind lets the page's clock go ahead, so that what arrives is 20 s
// old, and then back. The page knows the server's clock from a response's Date, which has whole
// seconds.
func testStreamSaysThatItIsBehind(t *testing.T, s *installation.Steward) {
	c, url := streaming(t, s)
	sent := 0
	says := func(pattern string) func() bool {
		return func() bool {
			sendNumbers(t, url, sent, sent+1)
			sent++
			return regexp.MustCompile(pattern).MatchString(c.Text(`[role="status"]`))
		}
	}
	waittest.True(t, "that it is live", says("Live · "))
	c.Do(chromedp.Evaluate[chromedp.Void](`window.now = Date.now; Date.now = () => now() + 20_000; undefined`))
	waittest.True(t, "that it is behind", says(`Behind by [12]\d s`))
	c.Do(chromedp.Evaluate[chromedp.Void](`Date.now = now; undefined`))
	waittest.True(t, "that it is live", says("Live · "))
	c.Clean()
}

// TestConsoleStreamSaysWhatIsMissing removes requests that came while the connection was broken.
func TestConsoleStreamSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	c, url := streaming(t, s)
	sendNumbers(t, url, 0, 1)
	c.See(`{"n":0}`)
	conn, err := pgx.Connect(t.Context(), s.Database)
	s.Must(err)
	defer conn.Close(context.Background())
	c.disconnected(func() {
		sendNumbers(t, url, 1, 21)
		_, err := conn.Exec(t.Context(), `DELETE FROM webhook_receipts WHERE key IN (
			SELECT key FROM webhook_receipts ORDER BY key OFFSET 1 LIMIT 19)`)
		s.Must(err)
	})
	c.See("they were removed while this page was not connected")
	c.See(`{"n":20}`)
	c.Wait("the others", rowCount+` === 2`)
	c.Check("console-stream-missing")
	c.Clean()
}

// testStreamEndsWithTheSession checks that the stream goes on when somebody else loses a
// right, and ends when the user signs out in another tab: the page says that it has stopped, shows
// nothing that comes later, and goes on when the user has signed in again.
func testStreamEndsWithTheSession(t *testing.T, s *installation.Steward) {
	c, url := streaming(t, s)
	sendNumbers(t, url, 0, 1)
	c.See(`{"n":0}`)

	const ended = `performance.getEntriesByType('resource').filter(r => r.name.includes('/webhook/tail/')).length`
	for range 3 {
		key := s.Call("POST", "/cli/apikey", object{"name": "other"}).Want(201)
		s.Call("DELETE", "/cli/apikey/"+key.Text("id"), nil).Want(204)
	}
	sendNumbers(t, url, 1, 2)
	c.See(`{"n":1}`)
	if n := chromium.Evaluate[int](c.Browser, ended); n > 0 {
		t.Errorf("%d streams have ended because a key of somebody else was deleted", n)
	}

	other := c.newTab()
	other.visit("/")
	other.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.who').click(); undefined`))
	other.Press("Sign out")
	other.See("Sign in to the console")
	c.See("The live stream has stopped, because your session has ended.")
	c.See("Stopped")
	sendNumbers(t, url, 2, 3)
	if text := chromium.Evaluate[string](c.Browser, `document.body.innerText`); strings.Contains(text, `{"n":2}`) {
		t.Error("the page shows what came after its session ended")
	}

	other.signIn() // the page goes on by itself
	c.Wait("the stream", `document.querySelector('.dot.live')`)
	sendNumbers(t, url, 3, 4)
	c.Wait("all of them", rowCount+` === 4`)
	c.checkRows(3)
	c.Clean()
}

// newTab opens another tab of the browser.
func (c *console) newTab() *console {
	c.T.Helper()
	other := &console{Browser: c.NewTab(), s: c.s}
	other.Do(chromedp.EmulateViewport(1280, 900))
	return other
}
