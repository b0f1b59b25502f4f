package replay

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/webhook"
)

// choose creates a replay of chosen receipts, with the other fields of a body.
func (f *fixture) choose(ids []string, fields string) (Replay, error) {
	f.t.Helper()
	text, err := json.Marshal(ids)
	must(f.t, err)
	var body NewReplay
	must(f.t, json.Unmarshal([]byte(`{"receiptIds": `+string(text)+fields+`}`), &body))
	return f.replays.Create(ctx, &struct {
		webhook.Path
		Body NewReplay
	}{webhook.Path{ID: f.webhookID}, body})
}

func TestChosenReceiptsAreReplayed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.runScheduler()
		f.destination("/a", 3)
		ids := f.accept(200)
		c := f.destination("/c", 3)
		f.waitEnded()
		f.run(f.worker.Run)
		var chosen []string
		for i := 0; i < len(ids); i += 7 {
			chosen = append(chosen, ids[i])
		}
		shuffled := append(slices.Clone(chosen), chosen[3], chosen[0])
		slices.Reverse(shuffled)
		for fields, path := range map[string]string{``: "/a", `, "to": "` + c + `"`: "/c", `, "status": "success"`: "/a"} {
			f.waitEnded()
			f.arrived(path)
			dry, err := f.choose(shuffled, fields+`, "dry_run": true`)
			if must(t, err); dry.Total != int64(len(chosen)) {
				t.Errorf("%s: a dry run counts %d", fields, dry.Total)
			}
			made, err := f.choose(shuffled, fields)
			must(t, err)
			if got := f.wait(made); got.Total != int64(len(chosen)) || got.Selected != int64(len(chosen)) || got.Failed != 0 {
				t.Errorf("%s: ended as %+v", fields, got)
			}
			if got := f.arrived(path); !slices.Equal(got, chosen) {
				t.Errorf("%s: %s got %v, want %v", fields, path, got, chosen)
			}
		}
	})
}

func TestChosenReceiptsMustExist(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.destination("/a", 3)
		ids := f.accept(2)
		other := newFixture(t, d).accept(1)
		for name, missing := range map[string]string{"unknown": "whrc_" + strings.Repeat("0", 26), "another webhook's": other[0]} {
			_, err := f.choose(append([]string{missing}, ids...), "")
			if errs.KindOf(err) != errs.NotFound || !strings.Contains(err.Error(), missing) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for fields, want := range map[string]int64{``: 2, `, "since": "2026-01-01"`: 2, `, "until": "2026-01-01"`: 0} {
			dry, err := f.choose(ids, fields+`, "dry_run": true`)
			if must(t, err); dry.Total != want {
				t.Errorf("%s: a dry run counts %d, want %d", fields, dry.Total, want)
			}
		}
		many := slices.Repeat(ids, maxSelected/2+1)
		for name, wrong := range map[string]struct {
			ids    []string
			fields string
		}{
			"too many": {many, ""}, "malformed": {[]string{"whrc_x"}, ""}, "none": {nil, ""}, "none since": {nil, `, "until": "2026-01-01"`},
			"since the future": {ids, `, "since": "2999-01-01"`},
		} {
			if _, err := f.choose(wrong.ids, wrong.fields); errs.KindOf(err) != errs.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, d.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO processes (id, seen_at, schema) VALUES ('rep_old', $1, $2)`, time.Now().UnixMicro(), schemaOfSelected-1)
			return err
		}))
		if _, err := f.choose(ids, ""); errs.KindOf(err) != errs.Conflict {
			t.Errorf("while an earlier version runs: %v", err)
		}
	})
}
