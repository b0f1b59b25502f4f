package alert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// TestTransitions measures alerts minute by minute: x is a minute in which the condition holds.
func TestTransitions(t *testing.T) {
	for _, test := range []struct {
		name     string
		repeat   int64 // hours
		verdicts string
		want     map[int]Event // by minute
	}{
		{"nothing is wrong", 24, "......", map[int]Event{}},
		{"fires once", 24, "..xxxx", map[int]Event{2: EventFiring}},
		{"recovers after five minutes", 24, "xx........", map[int]Event{0: EventFiring, 7: EventRecovered}},
		{"comes and goes", 24, "x.x..x...x....x.....", map[int]Event{0: EventFiring}},
		{"fires again after it has recovered", 24, "x......x......", map[int]Event{0: EventFiring, 6: EventRecovered, 7: EventFiring, 13: EventRecovered}},
		{"is repeated", 1, "x" + minutes('x', 125), map[int]Event{0: EventFiring, 60: EventRepeated, 120: EventRepeated}},
		{"is never repeated", 0, "x" + minutes('x', 3000), map[int]Event{0: EventFiring}},
		{"is not repeated while it is clear", 1, "x" + minutes('x', 57) + "...", map[int]Event{0: EventFiring}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := Alert{State: OK, RepeatHours: test.repeat}
			got := map[int]Event{}
			for minute, c := range test.verdicts {
				now := stamp.Time(0).Add(time.Duration(minute+1) * time.Minute)
				next, event := a.step(Verdict{Failing: c == 'x', Summary: "wrong"}, now)
				if event != "" {
					got[minute] = event
					next.notifiedAt = &now
				}
				if (next.State != a.State) != (event == EventFiring || event == EventRecovered) {
					t.Errorf("minute %d: %s after %s with the event %q", minute, next.State, a.State, event)
				}
				a = next
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func minutes(c byte, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = c
	}
	return string(text)
}

func TestValidation(t *testing.T) {
	slack := Target{Type: Slack, URL: "https://hooks.slack.com/services/T/B/x"}
	valid := func(k Kind) NewAlert { return NewAlert{Name: "a", Kind: k, Target: slack} }
	for _, test := range []struct {
		change func(*NewAlert)
		want   string // the fault's location
	}{
		{func(*NewAlert) {}, ""},
		{func(n *NewAlert) { n.Params.Minutes = new(int64(1440)) }, ""},
		{func(n *NewAlert) { n.Params.Minutes = new(int64(1441)) }, "body.params.minutes"},
		{func(n *NewAlert) { n.Params.Percent = new(int64(5)) }, "body.params.percent"},
		{func(n *NewAlert) { n.Params.EvalID = "e" }, "body.params.eval_id"},
		{func(n *NewAlert) { n.Params.WebhookID = "wh_1" }, "body.params.webhook_id"},
		{func(n *NewAlert) { n.Name = "a\x07" }, "body.name"},
		{func(n *NewAlert) { n.Kind = "other" }, "body.kind"},
		{func(n *NewAlert) { n.RepeatHours = page.Some(int64(169)) }, "body.repeat_hours"},
		{func(n *NewAlert) { n.Target.URL = "ftp://a.example" }, "body.target.url"},
		{func(n *NewAlert) { n.Target.URL = "https://a:b@a.example" }, "body.target.url"},
		{func(n *NewAlert) { n.Target.To = []string{"a@example.com"} }, "body.target.to"},
		{func(n *NewAlert) { n.Target = Target{Type: Mail} }, "body.target.to"},
		{func(n *NewAlert) { n.Target = Target{Type: Mail, To: []string{"Ada <ada@example.com>"}} }, "body.target.to"},
		{func(n *NewAlert) { n.Target = Target{Type: Mail, To: []string{"ada@example.com"}} }, ""},
		{func(n *NewAlert) { n.Target.Type = "pager" }, "body.target.type"},
	} {
		n := valid(DestinationFailing)
		test.change(&n)
		var faults errs.Faults
		n.Check(&faults)
		if err := faults.Err(); err == nil && test.want != "" || err != nil && !faults.Has(test.want) {
			t.Errorf("%+v: %v, want a fault of %q", n, err, test.want)
		}
	}
	for k := range kinds {
		var faults errs.Faults
		if valid(k).Check(&faults); faults.Err() != nil {
			t.Errorf("%s with its defaults: %v", k, faults.Err())
		}
	}
}
