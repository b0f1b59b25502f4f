package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// TestRetryShapes follows chains of failed attempts, by the time from each to the next.
func TestRetryShapes(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for text, want := range map[string][]time.Duration{
		`{"url": "http://a.test"}`:                   {5 * s, 30 * s, 2 * m, 10 * m, h, 3 * h, 8 * h, 12 * h},
		`{"url": "http://a.test", "max_retries": 2}`: {5 * s, 30 * s},
		`{"url": "http://a.test", "retry": {"type": "linear", "delay_seconds": 60}, "max_retries": 3}`:             {m, m, m},
		`{"url": "http://a.test", "retry": {"type": "linear", "delay_seconds": 60, "max_attempts": 1}}`:            {},
		`{"url": "http://a.test", "retry": {"type": "linear", "delay_seconds": 60, "max_attempts": 12}}`:           slices.Repeat([]time.Duration{m}, 11),
		`{"url": "http://a.test", "retry": {"type": "linear", "delay_seconds": 60, "give_up_after_seconds": 300}}`: nil, // see below
		`{"url": "http://a.test", "retry": {"type": "exponential", "delay_seconds": 30000, "max_attempts": 6}}`:    {30000 * s, 60000 * s, 24 * h, 24 * h, 24 * h},
		`{"url": "http://a.test", "retry": {"type": "exponential", "delay_seconds": 1}}`:                           {s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s},
		`{"url": "http://a.test", "retry": {"type": "exponential", "delay_seconds": 86400, "max_attempts": 3}}`:    {24 * h, 24 * h},
		`{"url": "http://a.test", "retry": {"type": "list", "delays_seconds": [3, 1, 7]}}`:                         {3 * s, s, 7 * s},
		`{"url": "http://a.test", "retry": {"type": "list", "delays_seconds": [3, 1], "max_attempts": 5}}`:         {3 * s, s, s, s},
		`{"url": "http://a.test", "retry": {"type": "list", "delays_seconds": [3, 1, 7]}, "max_retries": 1}`:       {3 * s, s, 7 * s},
		`{"url": "http://a.test", "retry": null, "rate": null, "paused": null, "max_retries": 1}`:                  {5 * s},
	} {
		c := config(t, text)
		must(t, c.check())
		var faults errs.Faults
		policy := c.pace(&faults).retry
		began := stamp.Of(newClock())
		row := queue.Row{ReceiptKey: strings.Repeat("0", 26) + strings.Repeat("0", 26), Date: began}
		row.ReceiptKey = rowKey("wh_"+strings.Repeat("0", 26), "whrc_"+firstULID(began))
		r := queue.Result{Row: row, At: began, Error: "x", MaxRetries: c.MaxRetries}
		policy.apply(&r)
		n := 0
		for ; r.IsRetried(); n++ {
			at := r.RetryAt()
			if want != nil {
				if n == len(want) {
					t.Errorf("%s: more than %d retries", text, n)
					break
				}
				if got := at.Sub(r.At); got < want[n]*8/10 || got > want[n]*12/10 {
					t.Errorf("%s: retry %d after %s, want %s", text, n, got, want[n])
				}
			}
			if r.GiveUpAt != 0 && at > began.Add(300*s) {
				t.Errorf("%s: an attempt %s after the request", text, at.Sub(began))
			}
			r.At = at
			r.Row.Retries++
		}
		if want == nil {
			if n < 4 || n > 6 {
				t.Errorf("%s: %d retries", text, n)
			}
		} else if n != len(want) {
			t.Errorf("%s: %d retries, want %d", text, n, len(want))
		}
	}
	r := queue.Result{Error: "x", MaxRetries: 3, Delays: []time.Duration{time.Second}, RetryAfter: time.Hour}
	if got := r.RetryAt().Sub(0); got != time.Hour {
		t.Errorf("Retry-After comes after %s", got)
	}
}

func TestPaceIsChecked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		for text, at := range map[string]string{
			`"rate": 5`: "rate", `"rate": []`: "rate", `"rate": {"limit": 5}`: "rate.per", `"rate": {"per": "second"}`: "rate.limit",
			`"rate": {"limit": 0, "per": "second"}`: "rate.limit", `"rate": {"limit": 1001, "per": "minute"}`: "rate.limit",
			`"rate": {"limit": "5", "per": "second"}`: "rate.limit", `"rate": {"limit": 1e300, "per": "second"}`: "rate.limit",
			`"rate": {"limit": 5, "per": "hour"}`: "rate.per", `"rate": {"limit": 5, "per": 1}`: "rate.per",
			`"rate": {"limit": 5, "per": "second", "burst": 1}`: "rate.burst",
			`"paused": "yes"`: "paused", `"paused": {}`: "paused",
			`"retry": "linear"`: "retry", `"retry": {}`: "retry.type", `"retry": {"type": "x", "delay_seconds": 5}`: "retry.type",
			`"retry": {"type": "linear"}`: "retry.delay_seconds", `"retry": {"type": "linear", "delay_seconds": 0}`: "retry.delay_seconds",
			`"retry": {"type": "linear", "delay_seconds": -1}`: "retry.delay_seconds", `"retry": {"type": "linear", "delay_seconds": 1.5}`: "retry.delay_seconds",
			`"retry": {"type": "exponential", "delay_seconds": 86401}`:                         "retry.delay_seconds",
			`"retry": {"type": "linear", "delay_seconds": 5, "delays_seconds": [1]}`:           "retry.delays_seconds",
			`"retry": {"type": "list", "delays_seconds": [1], "delay_seconds": 1}`:             "retry.delay_seconds",
			`"retry": {"type": "list", "delays_seconds": []}`:                                  "retry.delays_seconds",
			`"retry": {"type": "list", "delays_seconds": 5}`:                                   "retry.delays_seconds",
			`"retry": {"type": "list", "delays_seconds": [1, "x"]}`:                            "retry.delays_seconds[1]",
			`"retry": {"type": "list", "delays_seconds": [1, 0]}`:                              "retry.delays_seconds[1]",
			`"retry": {"type": "list", "delays_seconds": [` + strings.Repeat("1,", 99) + `1]}`: "retry.delays_seconds",
			`"retry": {"type": "linear", "delay_seconds": 5, "max_attempts": 101}`:             "retry.max_attempts",
			`"retry": {"type": "linear", "delay_seconds": 5, "give_up_after_seconds": 0}`:      "retry.give_up_after_seconds",
			`"retry": {"type": "linear", "delay_seconds": 5, "give_up": 1}`:                    "retry.give_up",
		} {
			err := config(t, `{"url": "http://a.test", `+text+`}`).check()
			mustBe(t, err, errs.Invalid)
			if faults := errs.Of(err).Faults; len(faults) != 1 || faults[0].Location != "body.config."+at {
				t.Errorf("%s: the faults are %v", text, faults)
			}
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO processes (id, seen_at, schema) VALUES ('rep_old', $1, $2)`, h.clock.now().UnixMicro(), schemaOfPace-1)
			return err
		}))
		to := h.destination(alice, w.ID, `{"url": "http://a.test", "paused": false}`)
		ref := DestinationRef{"org_a", w.ID, to.ID}
		for _, text := range []string{`"rate": {"limit": 5, "per": "second"}`, `"paused": true`, `"retry": {"type": "linear", "delay_seconds": 5}`} {
			c := config(t, `{"url": "http://a.test", `+text+`}`)
			_, err := h.store.UpdateDestination(as(alice), ref, &c, page.IfMatch{})
			mustBe(t, err, errs.Conflict)
		}
		_, err := h.store.RotateDestinationSecret(as(alice), ref, page.IfMatch{})
		mustBe(t, err, errs.Conflict)
	})
}

// TestPaceOfAnEarlierVersionHasNoEffect: earlier versions stored any key of config.
func TestPaceOfAnEarlierVersionHasNoEffect(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://a.test"}`)
		list := func() (Destination, string) {
			all, err := h.http.Destinations(as(alice), &Path{w.ID})
			must(t, err)
			return all[0], strings.Join(all[0].Ignored, " ")
		}
		for schema, want := range map[int]string{0: "paused rate retry", schemaOfPace: "rate retry"} {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`UPDATE webhook_destinations SET config = $1, config_schema = $2 WHERE id = $3`,
					h.store.Ring.Seal(configPurpose, []byte(`{"url": "http://a.test", "rate": "mine", "paused": true, "retry": 5}`)), schema, to.ID)
				return err
			}))
			if got, ignored := list(); ignored != want || got.pace.rate.Limit != 0 || got.pace.paused != (schema > 0) {
				t.Errorf("schema %d: ignored is %q, %+v", schema, ignored, got.pace)
			}
		}
		c := config(t, `{"url": "http://a.test", "rate": {"limit": 5, "per": "minute"}}`)
		updated, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, &c, page.IfMatch{})
		must(t, err)
		if got, ignored := list(); ignored != "" || len(updated.Ignored) != 0 || got.pace.rate != (queue.Rate{Limit: 5, Per: time.Minute}) {
			t.Errorf("after an update: ignored is %q, %+v", ignored, got.pace)
		}
	})
}

// TestDestinationSecretIsReplaced: deliveries have both signatures for a day.
func TestDestinationSecretIsReplaced(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		s := newSink(t, answer(200))
		w, path := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "`+s.URL+`"}`)
		h.run()
		sent := 0
		signatures := func() []string {
			t.Helper()
			wantStatus(t, h.post(path, "x"), 200)
			sent++
			h.waitFor(alice, w, Filter{Status: Success}, sent)
			s.mu.Lock()
			defer s.mu.Unlock()
			r := s.requests[sent-1]
			all := strings.Fields(r.Header.Get("Webhook-Signature"))
			for i, one := range all {
				all[i] = r.Header.Get("Webhook-Id") + " " + r.Header.Get("Webhook-Timestamp") + " " + one
			}
			return all
		}
		signs := func(secret, signed string) bool {
			parts := strings.Fields(signed)
			key, err := (&Store{Ring: h.store.Ring}).openKey(h.store.Ring.Seal(secretPurpose, []byte(secret)))
			must(t, err)
			return send.NewSigner(key).Sign(parts[0], parts[1], []byte("x")) == parts[2]
		}
		want := func(what string, secrets ...string) {
			t.Helper()
			got := signatures()
			if len(got) != len(secrets) {
				t.Fatalf("%s: %d signatures, want %d", what, len(got), len(secrets))
			}
			for i, secret := range secrets {
				if !signs(secret, got[i]) {
					t.Errorf("%s: signature %d is not that of secret %d", what, i, i)
				}
			}
		}
		rotate := func() string {
			t.Helper()
			got, err := h.http.RotateDestinationSecret(as(alice), &struct {
				DestinationPath
				page.IfMatch
			}{DestinationPath: DestinationPath{Path{w.ID}, to.ID}})
			must(t, err)
			return got.Secret
		}
		want("at first", to.Secret)
		second := rotate()
		want("after a rotation", second, to.Secret)
		third := rotate()
		want("after another one", third, second)
		stored := func() (secrets int) {
			must(t, h.db.Read(t.Context()).Row(`SELECT count(previous_secret) FROM webhook_destinations`).Scan(&secrets))
			return secrets
		}
		retention := &Retention{Store: h.store, Keep: 30 * 24 * time.Hour}
		h.clock.advance(secretOverlap - time.Minute)
		must(t, retention.Run(t.Context()))
		want("within a day", third, second)
		h.clock.advance(time.Minute)
		want("after a day", third)
		if stored() != 1 {
			t.Error("the sweep has removed a secret that signed")
		}
		must(t, retention.Run(t.Context()))
		want("after the sweep", third)
		if stored() != 0 {
			t.Error("a secret is stored that no longer signs")
		}

		for _, c := range []string{to.Secret, second, third} {
			all, err := h.http.Destinations(as(alice), &Path{w.ID})
			must(t, err)
			text, err := json.Marshal(all)
			must(t, err)
			if strings.Contains(string(text), c) || strings.Contains(fmt.Sprint(h.audit.Read("target"), h.audit.Read("action")), c) {
				t.Error("a secret is shown")
			}
		}
		if actions := h.audit.Read("action"); actions[len(actions)-1] != "webhook.destination-rotate-secret" {
			t.Errorf("audit: %s", actions)
		}
		_, err := h.store.RotateDestinationSecret(as(bob), DestinationRef{"org_b", w.ID, to.ID}, page.IfMatch{})
		mustBe(t, err, errs.NotFound)
	})
}

// TestLargeRecoveryDoesNotDelayNewEvents ends attempts in the order of the queue, a few at a time, while a
// recovery goes on. A new event goes before most of what it recovers.
func TestLargeRecoveryDoesNotDelayNewEvents(t *testing.T) {
	const n = 10 * queue.RecoverBatch
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.waiting(alice, w, n)
		got, err := h.recoverDestination(alice, w.ID, to.ID, nil)
		if err != nil || got != n {
			t.Fatalf("%d, %v", got, err)
		}
		ended, newAt := 0, 0
		for round := 0; ; round++ {
			h.clock.advance(time.Millisecond)
			_, err := h.store.Queue.ContinueRecovery(t.Context(), to.ID)
			must(t, err)
			if round == 2 {
				h.accept(w, alice, "new")
				newAt = ended
			}
			rows, _ := h.store.claim(t, to.ID, 50)
			if len(rows) == 0 {
				break
			}
			var results []queue.Result
			for _, row := range rows {
				ended++
				if row.Retries == 0 {
					if ended-newAt > queue.RecoverBatch+1 {
						t.Errorf("%d attempts were before the new event", ended-newAt-1)
					}
					newAt = 0
				}
				results = append(results, queue.Result{Row: row, At: stamp.Of(h.clock.now())})
			}
			_, _, err = h.store.Finish(t.Context(), results)
			must(t, err)
		}
		if ended != n+1 || newAt != 0 {
			t.Errorf("%d attempts, want %d", ended, n+1)
		}
	})
}
