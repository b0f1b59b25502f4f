package migrate

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressShowsRoundChangesLeftAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{out: &out, began: time.Now(), begun: map[string]bool{}}
		for _, e := range []Event{
			{Stage: "copy", Table: "users", Rows: 10},
			{Stage: "copy", Table: "webhook_receipts", Rows: 12_000},
			{Stage: "follow", Table: "users", Rows: 5, Round: 1, Left: 2_000},
			{Stage: "follow", Table: "webhook_log", Rows: 1_500, Round: 2, Left: 505},
		} {
			p.event(e)
			time.Sleep(progressInterval)
		}
		want := "copying rows\ncopying rows: webhook_receipts 12,000, after 5s\n" +
			"copying changes\ncopying changes, round 2: 1,500 copied, 505 left, after 15s\n"
		if out.String() != want {
			t.Errorf("it shows:\n%s", &out)
		}
	})
}
