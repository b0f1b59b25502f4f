package console

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
)

// testFindsReceipts searches by status, destination and time. The filters are in the
// address, and go on to a replay, which is counted, slowed down, watched and cancelled.
func testFindsReceipts(t *testing.T, s *installation.Steward) {
	k := sink.New(t)
	k.Handle("/failing", func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.ContentLength == int64(len(`"refused 1"`)) { // the others are longer
			http.Error(w, "no", http.StatusUnprocessableEntity)
		}
	})
	hook := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	destinations := map[string]string{}
	for _, path := range []string{"/healthy", "/failing"} {
		config := object{"url": k.URL + path, "max_retries": 0}
		destinations[path] = s.Call("POST", "/webhook/destination-create/"+hook.Text("id"), object{"type": "url", "config": config}).Want(201).Text("id")
	}
	for _, body := range []string{`"accepted 1"`, `"refused 1"`, `"accepted 2"`, `"refused 2"`, `"refused 3"`} {
		send(t, hook.Text("url"), body)
	}
	k.Wait("/healthy", 5)
	k.Wait("/failing", 5)

	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/webhooks/" + hook.Text("id"))
	c.wants(5, "")
	c.Wait("their states", `document.querySelectorAll('.stream .dot.good').length === 2 && document.querySelectorAll('.stream .dot.bad').length === 3`)
	c.Fill("status", "failed")
	c.wants(3, "status=failed")
	c.See("the destination answered 422")
	c.See("refused 1")
	c.Check("console-receipts-found")
	if strings.Contains(c.Text(".stream"), "accepted") {
		t.Error("receipts without a failed delivery are shown")
	}
	c.Fill("destination", destinations["/healthy"])
	c.See("Nothing matches")
	c.Check("console-receipts-none")
	c.Fill("status", "success")
	c.wants(5, "status=success", "destination="+destinations["/healthy"])
	c.Fill("destination", destinations["/failing"])
	c.wants(2, "destination="+destinations["/failing"])
	c.See("accepted 2")
	c.Fill("status", "failed")
	c.wants(3, "status=failed")
	c.Do(chromedp.Reload())
	c.wants(3, "status=failed", "destination="+destinations["/failing"])
	c.Fill("until", "2020-01-01T00:00")
	c.See("Nothing matches")
	c.Press("Clear the filters")
	c.wants(5, "")
	c.Fill("since", "2020-01-01T00:00")
	c.Fill("status", "failed")
	c.wants(3, "since=2020-01-01T")

	c.Press("Deliver again…")
	c.See("Count first")
	for name, want := range map[string]string{"since": "2020-01-01T00:00", "status": "failed"} {
		if got := chromium.Evaluate[string](c.Browser, `document.querySelector('[name="`+name+`"]').value`); got != want {
			t.Errorf("the replay begins with %s %q", name, got)
		}
	}
	c.Fill("rate", "1") // a second for each
	c.Press("Count")
	c.See("3 deliveries would be made again.")
	if n := k.Count("/failing"); n != 5 {
		t.Errorf("counting has delivered %d", n-5)
	}
	k.Hang("/failing") // so that it is not done before it is cancelled
	c.Press("Deliver 3 again")
	c.See("of 3")
	c.Press("Cancel")
	c.Press("Cancel the replay")
	c.See("cancelled")
	c.Check("console-webhook-replays")
	c.Clean()
}

// wants waits until the list has a number of rows, and the address has filters.
func (c *console) wants(rows int, filters ...string) {
	c.T.Helper()
	c.Wait("the rows", rowCount+` === `+strconv.Itoa(rows))
	for _, filter := range filters {
		if address := chromium.Evaluate[string](c.Browser, `location.search`); !strings.Contains(address, filter) {
			c.T.Errorf("the address has %q, want %q", address, filter)
		}
	}
}

// testCopiesReceiptsAsCurl runs the command of each receipt in a shell, with the real curl,
// and compares what arrives with the request.
func testCopiesReceiptsAsCurl(t *testing.T, s *installation.Steward) {
	hook := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	c := signedIn(t, s)
	for name, r := range map[string]struct {
		method, query string
		header        http.Header
		body          string
	}{
		"quotes":     {"POST", "", http.Header{"Content-Type": {"application/json"}, "X-Note": {`it's "quoted" $HOME \n`}}, "{\"text\": \"it's `a` $(test) \\\\ !\",\n\n\t\"n\": 1}\n"},
		"non-ASCII":  {"PUT", "q=%C3%BC&name=it's", http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, "Zürich, 東京, 🎉\n"},
		"a file":     {"POST", "", http.Header{"Content-Type": {"text/plain"}}, "@/etc/hostname"},
		"binary":     {"POST", "", http.Header{"Content-Type": {"application/octet-stream"}}, string(every)},
		"line ends":  {"PATCH", "", http.Header{"Content-Type": {"text/csv"}}, "\ufeffa,b\r\n1,2\r\n"},
		"no type":    {"POST", "", http.Header{"X-Empty": {""}}, "a=1&b=2"},
		"long text":  {"POST", "", http.Header{"Content-Type": {"text/plain"}}, strings.Repeat("it's long ", 40_000)},
		"brackets":   {"GET", "a[]=1&b={2,3}&c=$x", http.Header{"Authorization": {"Bearer x"}}, ""},
		"no body":    {"HEAD", "", http.Header{"X-One": {"1"}}, ""},
		"delete":     {"DELETE", "", http.Header{}, `{"id": 7}`},
		"two values": {"POST", "", http.Header{"X-Many": {"1", "2"}, "Content-Type": {"text/plain"}}, "-d @x"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(r.method, hook.Text("url"), strings.NewReader(r.body))
			s.Must(err)
			req.URL.RawQuery = r.query
			req.Header = r.header
			res, err := installation.Client.Do(req)
			s.Must(err)
			s.Must(res.Body.Close())
			sent := newestReceipt(s, hook.Text("id"))

			c.visit("/webhooks/" + hook.Text("id") + "/receipts/" + sent.id)
			c.See("Copy as curl")
			c.Do(chromedp.Evaluate[chromedp.Void](`navigator.clipboard.writeText = async text => { window.copied = text }; undefined`))
			c.Press("Copy as curl")
			c.Wait("the command", `window.copied`)
			script := filepath.Join(t.TempDir(), "command.sh")
			s.Must(os.WriteFile(script, []byte(chromium.Evaluate[string](c.Browser, `window.copied`)), 0o600))
			command := exec.Command("sh", script)
			command.Env = append(os.Environ(), "WEBHOOK_URL="+hook.Text("url"))
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := newestReceipt(s, hook.Text("id"))
			if got.id == sent.id {
				t.Fatal("the command has sent nothing")
			}
			if got.method != sent.method || got.query != sent.query {
				t.Errorf("sent %s ?%s, want %s ?%s", got.method, got.query, sent.method, sent.query)
			}
			if !bytes.Equal(got.body, []byte(r.body)) {
				t.Errorf("sent %d bytes %.200q, want %d bytes %.200q", len(got.body), got.body, len(r.body), r.body)
			}
			for _, own := range []string{"accept", "accept-encoding", "content-length", "transfer-encoding"} { // those of each client
				delete(got.headers, own)
				delete(sent.headers, own)
			}
			if !maps.Equal(got.headers, sent.headers) {
				t.Errorf("sent the headers %v, want %v", got.headers, sent.headers)
			}
		})
	}
	c.Clean()
}

// storedRequest is a receipt with its body.
type storedRequest struct {
	id, method, query string
	headers           map[string]string
	body              []byte
}

func newestReceipt(s *installation.Steward, webhookID string) storedRequest {
	s.T.Helper()
	var all []struct {
		ID, Method, Query string
		Headers           map[string]string
	}
	s.Call("GET", "/webhook/receipt-list/"+webhookID+"?limit=1", nil).Want(200).Decode(&all)
	body := s.Call("GET", "/webhook/receipt-payload/"+webhookID+"/"+all[0].ID, nil).Want(200).Body
	return storedRequest{all[0].ID, all[0].Method, all[0].Query, all[0].Headers, body}
}
