package alert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/audit/audittest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

func (f *fixture) wantEvents(want ...string) {
	f.t.Helper()
	if got := f.events(); !slices.Equal(got, want) {
		f.t.Fatalf("the receiver got %v, want %v", got, want)
	}
}

func TestNoticesTellOfTransitionsOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		log := audittest.New(t, f.db)
		a := f.create(NewAlert{Kind: DestinationFailing, Params: Params{Minutes: new(int64(10))}})
		if a.Target.URL != strings.TrimSuffix(f.url, "/services/secret")+"/***" {
			t.Errorf("the URL is shown as %s", a.Target.URL)
		}
		f.minutes(1)
		f.fail(new(stamp.Of(f.clock())))
		f.minutes(9)
		f.wantEvents()
		f.minutes(30)
		f.wantEvents("alert.firing")
		summary := f.received[0].body["data"].(map[string]any)["summary"].(string)
		if !strings.Contains(summary, `hooks.example.com of the webhook "orders"`) || !strings.Contains(summary, "answered 503") ||
			strings.Contains(summary, "private") {
			t.Errorf("summary: %s", summary)
		}
		if got := f.get(a.ID); got.State != Firing || got.LastNotice.State != Sent || got.LastNotice.ID != f.received[0].id || got.Summary != summary {
			t.Errorf("%+v, %+v", got, got.LastNotice)
		}
		f.fail(nil)
		f.minutes(5)
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour)))) // again, before it has recovered
		f.minutes(3)
		f.fail(nil)
		f.minutes(20)
		f.wantEvents("alert.firing", "alert.recovered")
		if got := f.get(a.ID); got.State != OK || got.Summary != "" {
			t.Errorf("%+v", got)
		}
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		f.minutes(60)
		f.advance(23 * time.Hour)
		f.minutes(2)
		f.wantEvents("alert.firing", "alert.recovered", "alert.firing", "alert.repeated")
		if got := log.Read("action || ' ' || target"); !slices.Equal(got, []string{"alert.create " + a.ID}) {
			t.Errorf("audit: %v", got)
		}
	})
}

// TestReplicasMakeOneNotice measures on many replicas at once, which the lease prevents as long as clocks
// and processes keep time.
func TestReplicasMakeOneNotice(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		const alerts = 5
		for range alerts {
			f.create(NewAlert{Kind: DestinationFailing})
		}
		measure := func() {
			var replicas sync.WaitGroup
			for range 8 {
				replicas.Go(func() {
					if err := f.evaluator.Run(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			replicas.Wait()
			must(t, f.worker.Run(t.Context()))
		}
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		measure()
		if n := len(f.events()); n != alerts {
			t.Errorf("%d notices", n)
		}
		f.advance(25 * time.Hour)
		measure()
		if n := len(f.events()); n != 2*alerts {
			t.Errorf("%d notices with the repeated ones", n)
		}
		f.fail(nil)
		measure()
		f.advance(clearFor)
		measure()
		if n := len(f.events()); n != 3*alerts {
			t.Errorf("%d notices with the recovery", n)
		}
	})
}

// TestNoticesSurviveACrash has a process that dies before it sends a notice, and one that dies after it,
// before it has recorded that.
func TestNoticesSurviveACrash(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.create(NewAlert{Kind: DestinationFailing})
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		must(t, f.evaluator.Run(t.Context()))
		if got := f.get(a.ID); got.LastNotice == nil || got.LastNotice.State != Pending {
			t.Fatalf("%+v", got)
		}
		list, err := f.handler.Store.due(t.Context(), 10)
		must(t, err)
		request, err := list[0].request(list[0].target)
		must(t, err)
		if result := f.worker.Network.Send(t.Context(), request); result.Error != "" {
			t.Fatal(result.Error)
		}
		restarted := &Worker{Store: f.worker.Store, Network: f.worker.Network, Log: silent}
		must(t, restarted.Run(t.Context()))
		must(t, restarted.Run(t.Context()))
		f.wantEvents("alert.firing", "alert.firing")
		if f.received[0].id != f.received[1].id || f.received[0].id == "" {
			t.Errorf("ids %q and %q", f.received[0].id, f.received[1].id)
		}
	})
}

// TestNoticesWaitForTheirReceiver has a receiver that is down: it gets the notices in their order.
func TestNoticesWaitForTheirReceiver(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.create(NewAlert{Kind: DestinationFailing})
		f.setDown(true)
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		f.minutes(3)
		if got := f.get(a.ID).LastNotice; got.State != Pending || got.Error != "the destination answered 503" {
			t.Errorf("%+v", got)
		}
		f.fail(nil)
		f.minutes(30)
		f.setDown(false)
		f.minutes(70)
		f.wantEvents("alert.firing", "alert.recovered")
		f.setDown(true)
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		f.minutes(1)
		f.advance(giveUpAfter)
		f.minutes(1)
		if due, err := f.handler.Store.HasDue(t.Context()); err != nil || !due && f.get(a.ID).LastNotice.Event != EventRepeated {
			t.Errorf("due %t, %v", due, err)
		}
		f.minutes(2)
		f.wantEvents("alert.firing", "alert.recovered")
		must(t, f.handler.Store.Delete(f.as("org_a"), Change{OrgID: "org_a", ID: a.ID}))
		if due, err := f.handler.Store.HasDue(t.Context()); err != nil || due {
			t.Errorf("after the deletion: due %t, %v", due, err)
		}
	})
}

func TestSlackAndTests(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		log := audittest.New(t, f.db)
		a := f.create(NewAlert{Name: "A <b> & c", Kind: DestinationFailing, Target: Target{Type: Slack, URL: f.url}, Disabled: true})
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		f.minutes(2) // it is disabled
		result, err := f.handler.Test(f.as("org_a"), &Path{a.ID})
		if err != nil || result.Error != nil || result.Status != 200 {
			t.Errorf("%+v, %v", result, err)
		}
		f.setDown(true)
		result, err = f.handler.Test(f.as("org_a"), &Path{a.ID})
		if err != nil || result.Error == nil || result.Status != 503 {
			t.Errorf("while the receiver is down: %+v, %v", result, err)
		}
		want := []map[string]any{{"text": "Test: A &lt;b&gt; &amp; c\nThis is a test. Nothing is wrong."}}
		if diff := cmp.Diff(want, []map[string]any{f.received[0].body}); diff != "" || len(f.received) != 1 {
			t.Error(diff, f.received)
		}
		want2 := []string{"alert.create " + a.ID, "alert.test " + a.ID, "alert.test " + a.ID}
		if got := log.Read("action || ' ' || target"); !slices.Equal(got, want2) {
			t.Errorf("audit: %v", got)
		}
	})
}

func TestMailGoesToMembers(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		mails := func() (n int64) {
			t.Helper()
			n, err := f.handler.Store.Mail.Queued(t.Context())
			must(t, err)
			return n
		}
		_, err := f.handler.Create(f.as("org_b"), &struct{ Body NewAlert }{
			NewAlert{Name: "b", Kind: DestinationFailing, Target: Target{Type: Mail, To: []string{"ada@example.com"}}},
		})
		if errs.KindOf(err) != errs.Invalid {
			t.Errorf("an address of another organization: %v", err)
		}
		a := f.create(NewAlert{Kind: DestinationFailing, Target: Target{Type: Mail, To: []string{"Ada@example.com", "ada@example.com"}}})
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		f.minutes(3)
		if n := mails(); n != 1 || f.get(a.ID).LastNotice.State != Sent {
			t.Errorf("%d mails, %+v", n, f.get(a.ID).LastNotice)
		}
		f.exec(`UPDATE members SET disabled = true`)
		result, err := f.handler.Test(f.as("org_a"), &Path{a.ID})
		if err != nil || result.Error == nil || mails() != 1 {
			t.Errorf("to a disabled member: %+v, %v", result, err)
		}
	})
}

func TestOrganizationsAreApart(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.create(NewAlert{Kind: DestinationFailing})
		other := f.as("org_b")
		if list, err := f.handler.List(other, nil); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
		_, updating := f.handler.Store.Update(other, Change{OrgID: "org_b", ID: a.ID}, Patch{Name: page.Some("b")})
		_, testing := f.handler.Test(other, &Path{a.ID})
		for what, err := range map[string]error{
			"update": updating, "test": testing, "delete": f.handler.Store.Delete(other, Change{OrgID: "org_b", ID: a.ID}),
		} {
			if errs.KindOf(err) != errs.NotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, k := range []Kind{DiskLow, BackupFailed} {
			_, err := f.handler.Create(other, &struct{ Body NewAlert }{NewAlert{Name: "b", Kind: k, Target: Target{Type: Slack, URL: f.url}}})
			if errs.KindOf(err) != errs.Forbidden {
				t.Errorf("%s: %v", k, err)
			}
		}
		// Nothing of another organization makes an alert fire, even if it is asked for.
		f.create(NewAlert{Kind: DestinationFailing, Params: Params{WebhookID: hookB}})
		f.exec(`UPDATE webhook_destinations SET failing_since = 1, last_error = 'x' WHERE org_id = 'org_b'`)
		f.exec(`UPDATE orgs SET deleted_at = 1 WHERE id = 'org_a'`)
		f.fail(new(stamp.Time(1)))
		f.minutes(2)
		f.exec(`UPDATE orgs SET deleted_at = NULL WHERE id = 'org_a'`)
		f.fail(nil)
		f.minutes(2)
		f.wantEvents()
	})
}

func TestUpdates(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.create(NewAlert{Kind: DestinationFailing})
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		f.minutes(1)
		update := func(p Patch) Alert {
			t.Helper()
			a, err := f.handler.Update(f.as("org_a"), &struct {
				Path
				page.IfMatch
				Body Patch
			}{Path{a.ID}, page.IfMatch{}, p})
			must(t, err)
			return a
		}
		// The masked URL keeps the URL, and a new name the state.
		if got := update(Patch{Name: page.Some("b"), Target: page.Some(a.Target)}); got.State != Firing || got.Name != "b" || got.Target.URL != a.Target.URL {
			t.Errorf("%+v", got)
		}
		if got := update(Patch{Params: page.Some(Params{Minutes: new(int64(30))})}); got.State != OK {
			t.Errorf("%+v", got)
		}
		f.minutes(2)
		f.wantEvents("alert.firing", "alert.firing")
		for i := range maxAlerts - 1 {
			f.create(NewAlert{Name: fmt.Sprint(i), Kind: DestinationFailing})
		}
		_, err := f.handler.Create(f.as("org_a"), &struct{ Body NewAlert }{
			NewAlert{Name: "more", Kind: DestinationFailing, Target: Target{Type: Slack, URL: f.url}},
		})
		if errs.KindOf(err) != errs.Conflict {
			t.Errorf("too many alerts: %v", err)
		}
	})
}

// TestStoppingKeepsNotices stops a worker while it sends.
func TestStoppingKeepsNotices(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.create(NewAlert{Kind: DestinationFailing})
		f.fail(new(stamp.Of(f.clock().Add(-time.Hour))))
		must(t, f.evaluator.Run(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := f.worker.Run(ctx); err == nil {
			t.Error("a worker that has been stopped runs to its end")
		}
		must(t, f.worker.Run(t.Context()))
		f.wantEvents("alert.firing")
	})
}
