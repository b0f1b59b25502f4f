package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// export returns the lines of an export.
func (h *fixture) export(c *auth.Caller, webhookID string, f ReceiptFilter) string {
	h.t.Helper()
	lines, err := h.http.Export(as(c), &ExportRequest{Path: Path{webhookID}, ReceiptFilter: f})
	must(h.t, err)
	rec := httptest.NewRecorder()
	lines.Serve(rec, httptest.NewRequestWithContext(as(c), "GET", "/", nil))
	return rec.Body.String()
}

func TestExportHasWholeReceipts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test/"}`)
		bodies := slices.Concat(numbered(700), []string{strings.Repeat("large", 200_000), "\xff", `{"a":1}`, strings.Repeat("\x01", 300_000)})
		h.accept(w, alice, bodies...)
		text := h.export(alice, w.ID, ReceiptFilter{})
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		listed, err := h.store.Receipts(as(alice), alice.OrgID, w.ID, ReceiptFilter{}, page.Paging{Limit: 1000})
		must(t, err)
		if len(lines) != len(bodies) || len(listed.Items) != len(bodies) {
			t.Fatalf("%d lines, %d listed, want %d", len(lines), len(listed.Items), len(bodies))
		}
		for i, want := range listed.Items {
			if want.Omitted {
				whole, err := h.http.Receipt(as(alice), &ReceiptPath{Path{w.ID}, want.ID})
				must(t, err)
				whole.Deliveries = want.Deliveries
				want = whole
			}
			line, err := want.MarshalJSON()
			must(t, err)
			if lines[i] != string(line) {
				t.Fatalf("line %d is %.200s, want %.200s", i, lines[i], line)
			}
		}
		if got := h.export(alice, w.ID, ReceiptFilter{Search: "00699"}); strings.Count(got, "\n") != 1 {
			t.Errorf("with q: %s", got)
		}
		if got := h.export(alice, w.ID, ReceiptFilter{State: ReceiptFailing}); got != "" {
			t.Errorf("with state: %s", got)
		}
		_, err = h.http.Export(as(alice), &ExportRequest{Path: Path{w.ID}, ReceiptFilter: ReceiptFilter{State: ReceiptFiltered, DestinationID: "whds_x"}})
		mustBe(t, err, errs.Invalid)
	})
}

// exportServer serves exports of a webhook over HTTP.
func (h *fixture) exportServer(w Webhook) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r = r.WithContext(auth.With(r.Context(), alice))
		lines, err := h.http.Export(r.Context(), &ExportRequest{Path: Path{w.ID}})
		if err != nil {
			http.Error(rw, err.Error(), http.StatusTooManyRequests)
			return
		}
		lines.Serve(rw, r)
	}))
	h.t.Cleanup(s.Close)
	return s
}

// TestStalledExportsHoldNothing has clients that stop reading. Others can change everything meanwhile, and
// what the clients hold is free again once they disconnect.
func TestStalledExportsHoldNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		for range 40 {
			h.accept(w, alice, strings.Repeat("x", 1<<20))
		}
		s := h.exportServer(w)
		var stalled []net.Conn
		for range maxOrgRunning {
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			must(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			must(t, err)
			_, err = bufio.NewReaderSize(conn, 16).ReadByte()
			must(t, err)
			stalled = append(stalled, conn)
		}
		res, err := http.Get(s.URL)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("one export more: %d", res.StatusCode)
		}
		eventually(t, "the exports wait for their clients", func() bool { return h.store.Walks.Running() == 0 })
		if d.Dialect() == db.Postgres {
			eventually(t, "no transaction is open", func() bool {
				var n int
				must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`).Scan(&n))
				return n == 0
			})
		} else {
			eventually(t, "no reader holds the log", func() bool {
				var busy, frames, moved int
				must(t, d.Read(t.Context()).Row(`PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &frames, &moved))
				return busy == 0 && frames == moved
			})
		}
		_, err = d.Exec(t.Context(), `DELETE FROM webhook_receipts`)
		must(t, err)
		for _, conn := range stalled {
			must(t, conn.Close())
		}
		eventually(t, "the exports have ended", func() bool {
			h.http.exports.mu.Lock()
			defer h.http.exports.mu.Unlock()
			return h.http.exports.total == 0
		})
	})
}

// TestBrokenExportsDoNotLookComplete takes the right to read from the caller meanwhile, or the webhook.
func TestBrokenExportsDoNotLookComplete(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for name, end := range map[string]func(h *fixture, w Webhook, authorize func(c *auth.Caller, err error)){
			"deleted": func(h *fixture, w Webhook, _ func(*auth.Caller, error)) {
				must(t, h.store.Delete(as(alice), alice.OrgID, w.ID, page.IfMatch{}))
			},
			"revoked": func(_ *fixture, _ Webhook, authorize func(*auth.Caller, error)) {
				authorize(nil, errs.New(errs.Unauthorized, "the key is gone"))
			},
			"viewer": func(_ *fixture, _ Webhook, authorize func(*auth.Caller, error)) {
				authorize(withRole(auth.Viewer), nil)
			},
		} {
			h := newFixture(t, d)
			w, _ := h.webhook(alice)
			for range 16 {
				h.accept(w, alice, strings.Repeat("x", 1<<20))
			}
			type answer struct {
				caller *auth.Caller
				err    error
			}
			var current atomic.Pointer[answer]
			current.Store(&answer{alice, nil})
			h.http.Authorize = func(*http.Request) (*auth.Caller, error) { a := current.Load(); return a.caller, a.err }
			res, err := http.Get(h.exportServer(w).URL)
			must(t, err)
			defer res.Body.Close()
			lines := bufio.NewReader(res.Body)
			first, err := lines.ReadBytes('\n')
			must(t, err)
			if !json.Valid(first) {
				t.Errorf("%s: the first line is %.100s", name, first)
			}
			end(h, w, func(c *auth.Caller, err error) { current.Store(&answer{c, err}); h.clock.advance(checkEvery) })
			if n, err := io.Copy(io.Discard, lines); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: after %d bytes: %v", name, n, err)
			}
		}
	})
}

// TestExportsEndWithTheirRequest: an export whose client is gone reads no further.
func TestExportsEndWithTheirRequest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.accept(w, alice, numbered(10)...)
		lines, err := h.http.Export(as(alice), &ExportRequest{Path: Path{w.ID}})
		must(t, err)
		ctx, cancel := context.WithCancel(as(alice))
		cancel()
		rec := httptest.NewRecorder()
		func() {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("panics with %v", err)
				}
			}()
			lines.Serve(rec, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		}()
		if rec.Body.Len() > 0 {
			t.Error(fmt.Sprint("wrote ", rec.Body))
		}
	})
}
