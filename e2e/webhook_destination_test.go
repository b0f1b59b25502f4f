package e2e

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestDestinationChangesApplyToTheNextEvent(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		id, _ := s.NewDestination(h, k.URL+"/a", "max_retries", 0)
		path := "/webhook/destination-update/" + h.ID + "/" + id
		s.Ingest(h, "1")
		k.Wait("/a", 1)
		s.Call("PUT", path, object{}).Want(200)
		s.Ingest(h, "2")
		k.Wait("/a", 2)
		s.Call("PUT", path, object{"config": object{"url": k.URL + "/b", "own": "kept"}}).Want(200)
		s.Ingest(h, "3")
		k.Wait("/b", 1)
		disabled := s.Call("PUT", path, object{"config": object{"url": k.URL + "/b", "disabled": true}}).Want(200)
		if disabled.Get("config.own") != nil || disabled.Get("config.disabled") != true || disabled.Get("secret") != nil {
			t.Errorf("updated to %s", disabled.Body)
		}
		s.Ingest(h, "4") // has no delivery
		s.Call("PUT", path, object{"config": object{"url": k.URL + "/c"}}).Want(200)
		s.Ingest(h, "5")
		k.Wait("/c", 1)
		total := s.Total("/webhook/delivery-list/" + h.ID)
		if k.Count("/a") != 2 || k.Count("/b") != 1 || k.Count("/c") != 1 || total != "4" {
			t.Errorf("deliveries: %+v", s.ListDeliveries(h, ""))
		}
		s.Call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+id, nil).Want(204)
		s.Ingest(h, "6")
		if total := s.Total("/webhook/delivery-list/" + h.ID); total != "4" {
			t.Errorf("%s deliveries after the destination was deleted, want 4", total)
		}
		for _, bad := range []object{
			{"url": "ftp://a"},
			{"url": ""},
			{"url": k.URL, "timeout_seconds": 61},
			{"url": k.URL, "max_retries": -1},
			{"url": k.URL, "concurrency": 0},
		} {
			s.Call("POST", "/webhook/destination-create/"+h.ID, object{"type": "url", "config": bad}).Want(422)
		}
		fax := object{"type": "fax", "config": object{"url": k.URL}}
		s.Call("POST", "/webhook/destination-create/"+h.ID, fax).Want(422)
	})
}

// behaviour is how a path of the sink responds, and the delivery that is expected from it.
type behaviour struct {
	path     string
	status   string
	response int    // status of the response, 0 for none
	failure  string // part of the error
	retried  bool   // another attempt follows
}

var behaviours = []behaviour{
	{"/200", "success", 200, "", false},
	{"/204", "success", 204, "", false},
	{"/large", "success", 200, "", false},
	{"/301", "failed", 301, "301", true},
	{"/404", "failed", 404, "404", true},
	{"/410", "failed", 410, "410", false},
	{"/429", "failed", 429, "429", true},
	{"/500", "failed", 500, "500", true},
	{"/large500", "failed", 500, "500", true},
	{"/hang", "failed", 0, "within 1 s", true},
	{"/close", "failed", 0, "closed the connection", true},
	{"/garbage", "failed", 0, "not valid HTTP", true},
}

// timeout returns the timeout_seconds of the destination. It is short only where the test waits for it.
func (b behaviour) timeout() int {
	if b.path == "/hang" {
		return 1
	}
	return 60
}

// handleAll makes the sink behave as behaviours says.
func handleAll(k *sink.Sink) {
	for _, status := range []int{200, 204, 404, 410, 500} {
		k.Status("/"+strconv.Itoa(status), status)
	}
	k.Status("/301", 301, "Location", k.URL+"/200")
	k.Status("/429", 429, "Retry-After", "3600")
	k.Hang("/hang")
	large := func(status int) sink.Handler {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.WriteHeader(status)
			w.Write([]byte(strings.Repeat("0123456789", 1_000_000))) // fails when the sender stops to read
		}
	}
	k.Handle("/large", large(200))
	k.Handle("/large500", large(500))
	closeAfter := func(text string) sink.Handler {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				conn.Close()
			}
		}
	}
	k.Handle("/close", closeAfter(""))
	k.Handle("/garbage", closeAfter("\x16\x03 this is not HTTP\r\n\r\n"))
}

func TestDeliveryHasTheResponseOfItsDestination(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	handleAll(k)
	ids := map[string]string{}
	for _, b := range behaviours {
		ids[b.path], _ = s.NewDestination(h, k.URL+b.path, "timeout_seconds", b.timeout(), "max_retries", 1)
	}
	receiptID := s.Ingest(h, `{"n": 1}`)
	for _, b := range behaviours {
		chain := s.FirstAttempt(h, ids[b.path])
		first := chain[0]
		if first.Status != b.status || first.Retries != 0 || first.ReceiptID != receiptID || first.WebhookID != h.ID {
			t.Errorf("%s: %+v", b.path, first)
		}
		if b.failure == "" != (first.Error == nil) || !strings.Contains(first.Failure(), b.failure) {
			t.Errorf("%s: error %s, want %q", b.path, first.Failure(), b.failure)
		}
		if (b.response == 0) != (first.Response == nil) || b.response != 0 && first.Response.Status != b.response {
			t.Errorf("%s: response %+v", b.path, first.Response)
		}
		if b.retried != (len(chain) == 2) || b.retried && chain[1].Retries != 1 {
			t.Errorf("%s: attempts %+v", b.path, chain)
		}
		if b.retried && k.Count(b.path) == 1 && (chain[1].Status != "pending" || chain[1].Response != nil) {
			t.Errorf("%s: the retry is %+v before it is sent", b.path, chain[1])
		}
	}
	kept := strings.Repeat("0123456789", 2000)[:16<<10]
	for path, want := range map[string]string{"/200": "OK", "/404": "Not Found", "/large": kept, "/large500": kept} {
		response := s.FirstAttempt(h, ids[path])[0].Response
		if response.Body != want || response.Duration == nil || response.Headers["date"] == "" {
			t.Errorf("%s: the stored response has %d bytes, %v", path, len(response.Body), response.Headers)
		}
	}
	if n := k.Count("/200"); n != 1 {
		t.Errorf("%d requests at /200: the redirect was followed", n)
	}
	checkDisabled(s, h, k, ids["/410"])
}

// checkDisabled checks that the destination which responded with 410 is disabled, and no other.
func checkDisabled(s *installation.Steward, h installation.Hook, k *sink.Sink, id string) {
	s.T.Helper()
	var list []struct {
		ID     string
		Config struct {
			URL        string
			Disabled   bool
			MaxRetries int `json:"max_retries"`
		}
	}
	s.Call("GET", "/webhook/destination-list/"+h.ID, nil).Want(200).Decode(&list)
	for _, d := range list {
		if d.Config.Disabled != (d.ID == id) || d.Config.MaxRetries != 1 {
			s.T.Errorf("%s has %+v", d.Config.URL, d.Config)
		}
	}
	receiptID := s.Ingest(h, "after the 410")
	k.Wait("/200", 2)
	got := s.ListDeliveries(h, "destinationId="+id+"&receiptId="+receiptID)
	if len(got) != 0 || k.Count("/410") != 1 {
		s.T.Errorf("the disabled destination gets %+v", got)
	}
}

// TestInternalAddressesAreRefused checks that nothing is sent to them and that the delivery has the
// reason. Loopback is allowed, since these installations listen on loopback only.
func TestInternalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	metadata := []string{
		"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
	}
	internal := []string{
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.1.1", "0.0.0.0", "224.0.0.1",
		"192.0.2.1", "255.255.255.255", "[fe80::1]", "[fc00::1]", "[::ffff:10.0.0.1]",
	}
	t.Run("default", func(t *testing.T) { checkHostsRefused(installation.Start(t, "sqlite"), append(internal, metadata...)) })
	t.Run("all allowed but metadata", func(t *testing.T) {
		s := installation.Prepare(t, "sqlite")
		s.Env = []string{"STEWARD_EGRESS_ALLOW=0.0.0.0/0,::/0"}
		s.Start()
		checkHostsRefused(s, metadata)
	})
}

// checkHostsRefused checks that deliveries to these hosts fail, and that others to loopback arrive.
func checkHostsRefused(s *installation.Steward, hosts []string) {
	s.T.Helper()
	k, h := sink.New(s.T), s.NewHook("orders")
	refused := map[string]string{}
	for _, host := range hosts {
		refused[host], _ = s.NewDestination(h, "http://"+host+":9/", "max_retries", 0)
	}
	s.NewDestination(h, k.URL+"/number")
	s.NewDestination(h, strings.Replace(k.URL, "127.0.0.1", "localhost", 1)+"/name")
	s.Ingest(h, "x")
	k.Wait("/number", 1)
	k.Wait("/name", 1)
	for host, id := range refused {
		d := s.FirstAttempt(h, id)[0]
		if d.Status != "failed" || d.Response != nil || !strings.Contains(d.Failure(), "not allowed") {
			s.T.Errorf("%s: %s, %s", host, d.Status, d.Failure())
		}
	}
}

// TestOwnListenersAreRefused checks that deliveries to Steward's own listeners fail, by address and by
// name, although loopback is allowed.
func TestOwnListenersAreRefused(t *testing.T) {
	t.Parallel()
	for what, allowed := range map[string]string{"loopback by default": "", "loopback by setting": "127.0.0.0/8,::1/128"} {
		t.Run(what, func(t *testing.T) {
			s := installation.Prepare(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
			s.Env = []string{"STEWARD_EGRESS_ALLOW=" + allowed}
			s.Start()
			listen := s.Addresses().Listen
			k, h := sink.New(t), s.NewHook("orders")
			var ids, urls []string
			for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
				for _, target := range []string{
					listen["api"] + "/healthz", listen["metrics"] + "/metrics", listen["metrics"] + "/debug/pprof/goroutine?debug=1",
				} {
					url := "http://" + strings.Replace(target, "127.0.0.1", host, 1)
					id, _ := s.NewDestination(h, url, "max_retries", 0)
					ids = append(ids, id)
					urls = append(urls, url)
				}
			}
			s.NewDestination(h, k.URL+"/allowed")
			r, err := s.Send("GET", h.Path, nil)
			s.Must(err)
			r.Want(200)
			k.Wait("/allowed", 1)
			for i, id := range ids {
				d := s.FirstAttempt(h, id)[0]
				if d.Status != "failed" || d.Response != nil || !strings.Contains(d.Failure(), "not allowed") ||
					!strings.Contains(d.Failure(), "Steward") {
					t.Errorf("%s: %s, error: %s", urls[i], d.Status, d.Failure())
				}
			}
		})
	}
}

// TestDestinationConfigIsSealed looks for parts of a config in the database.
func TestDestinationConfigIsSealed(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		const header, path = "value-of-a-secret-header-7f3a", "secret-part-of-a-url-91bc"
		k, h := sink.New(t), s.NewHook("orders")
		s.NewDestination(h, k.URL+"/"+path, "headers", map[string]string{"X-Api-Key": header}, "own", "unknown-field-44de")
		s.Ingest(h, "x")
		if got := k.Wait("/"+path, 1)[0]; got.Header.Get("X-Api-Key") != header {
			t.Errorf("the header is %q", got.Header.Get("X-Api-Key"))
		}
		s.WaitEnded(map[string]installation.Hook{"": h})
		list := string(s.Call("GET", "/webhook/destination-list/"+h.ID, nil).Want(200).Body)
		for _, secret := range []string{header, path, "unknown-field-44de"} {
			if !strings.Contains(list, secret) {
				t.Errorf("the list does not have %s: %s", secret, list)
			}
			checkNotStored(s, secret)
		}
		s.Stop()
		checkNotStored(s, header)
	})
}

// checkNotStored checks that a text is not in the files of SQLite, or in webhook_destinations of
// PostgreSQL.
func checkNotStored(s *installation.Steward, text string) {
	s.T.Helper()
	for where, content := range storedDestinations(s) {
		if strings.Contains(content, text) || strings.Contains(content, hex.EncodeToString([]byte(text))) {
			s.T.Errorf("%s is readable in %s", text, where)
		}
	}
}

func storedDestinations(s *installation.Steward) map[string]string {
	s.T.Helper()
	all := map[string]string{}
	if s.Database == "" {
		files, err := filepath.Glob(filepath.Join(s.Dir, "steward.db*"))
		s.Must(err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			s.Must(err)
			all[filepath.Base(file)] = string(content)
		}
		return all
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.Database)
	s.Must(err)
	defer conn.Close(ctx)
	var content string
	s.Must(conn.QueryRow(ctx, "SELECT string_agg(d::text, ' ') FROM webhook_destinations d").Scan(&content))
	all["webhook_destinations"] = content
	return all
}
