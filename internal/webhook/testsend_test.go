package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

func (h *fixture) test(d Destination) (TestResponse, error) {
	return h.http.TestDestination(as(alice), &DestinationPath{Path{d.WebhookID}, d.ID})
}

// rows returns how many receipts, deliveries and counts there are.
func (h *fixture) rows() (n int) {
	h.t.Helper()
	must(h.t, h.db.Read(h.t.Context()).Row(`SELECT (SELECT count(*) FROM webhook_receipts) + (SELECT count(*) FROM webhook_deliveries) +
		(SELECT count(*) FROM webhook_queue) + (SELECT count(*) FROM webhook_counts)`).Scan(&n))
	return n
}

func TestTestSendsOneSignedEventAndStoresNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		s := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Seen", "yes")
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte("thanks"))
		})
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "`+s.URL+`/hook", "headers": {"X-Own": "1"}, "disabled": true}`)
		got, err := h.test(to)
		must(t, err)
		if got.Status != 202 || got.Body != "thanks" || got.Headers["x-seen"] != "yes" || got.Error != nil {
			t.Errorf("%+v", got)
		}
		if len(s.requests) != 1 {
			t.Fatalf("%d requests", len(s.requests))
		}
		r := s.requests[0]
		if r.Method != "POST" || r.URL.Path != "/hook" || r.Header.Get("X-Own") != "1" ||
			r.Header.Get("Content-Type") != "application/json" || !strings.Contains(s.bodies[0], `"type":"webhook.test"`) {
			t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, s.bodies[0])
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(to.Secret, secretPrefix))
		must(t, err)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + strconv.FormatInt(h.clock.now().Unix(), 10) + "." + s.bodies[0]))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("Webhook-Signature") != want {
			t.Errorf("signature %s, want %s", r.Header.Get("Webhook-Signature"), want)
		}
		if n := h.rows(); n != 0 {
			t.Errorf("%d rows were stored", n)
		}
	})
}

func TestTestTellsWhyADeliveryWouldFail(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	redirect := newSink(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	gone := newSink(t, answer(410))
	slow := newSink(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, c := range map[string]struct {
		config string
		status int
		reason string
	}{
		"nobody there": {`{"url": "http://127.0.0.1:1"}`, 0, "could not be reached"},
		"private":      {`{"url": "http://10.0.0.1"}`, 0, "not allowed"},
		"metadata":     {`{"url": "http://169.254.169.254"}`, 0, "not allowed"},
		"redirect":     {`{"url": "` + redirect.URL + `"}`, 302, "redirects are not followed"},
		"gone":         {`{"url": "` + gone.URL + `"}`, 410, "answered 410, which disables it when"},
		"slow":         {`{"url": "` + slow.URL + `", "timeout_seconds": 1}`, 0, "did not answer within 1 s"},
	} {
		to := h.destination(alice, w.ID, c.config)
		got, err := h.test(to)
		must(t, err)
		if got.Status != c.status || got.Error == nil || !strings.Contains(*got.Error, c.reason) {
			t.Errorf("%s: %+v", name, got)
		}
		_, disabled, err := destinationState(h.db.Read(t.Context()), to.ID)
		if must(t, err); disabled {
			t.Errorf("%s: a test disabled the destination", name)
		}
	}
	if len(redirect.requests) != 1 {
		t.Errorf("a redirect was followed: %d requests", len(redirect.requests))
	}
}

func TestTestsOfOtherOrganizationsAndUnknownOnesAreNotFound(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	other, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
	_, err := h.http.TestDestination(as(bob), &DestinationPath{Path{w.ID}, to.ID})
	mustBe(t, err, errs.NotFound)
	_, err = h.http.TestDestination(as(alice), &DestinationPath{Path{other.ID}, to.ID})
	mustBe(t, err, errs.NotFound)
}

// TestTestsAreBounded holds as many tests of an organization as may run, and shows that another
// organization is not affected.
func TestTestsAreBounded(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	release := make(chan struct{})
	arrived := make(chan struct{}, maxRunning)
	s := newSink(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "`+s.URL+`", "timeout_seconds": 60}`)
	var held sync.WaitGroup
	for range maxOrgRunning {
		held.Go(func() {
			if got, err := h.test(to); err != nil || got.Error != nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	for range maxOrgRunning {
		<-arrived
	}
	_, err := h.test(to)
	mustBe(t, err, errs.RateLimited)
	own, _ := h.webhook(bob)
	theirs := h.destination(bob, own.ID, `{"url": "http://127.0.0.1:1"}`)
	_, err = h.http.TestDestination(as(bob), &DestinationPath{Path{own.ID}, theirs.ID})
	must(t, err)
	close(release)
	held.Wait()
	if got, err := h.test(to); err != nil || got.DurationMS > time.Minute.Milliseconds() {
		t.Errorf("after the others ended: %+v, %v", got, err)
	}
	if h.http.tests.total != 0 || len(h.http.tests.byOrg) != 0 {
		t.Errorf("%+v is left", h.http.tests.byOrg)
	}
}
