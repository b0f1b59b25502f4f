package status

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/node"
	"steward/internal/resource"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook"
)

var silent = slog.New(slog.DiscardHandler)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProcessesAreCountedWhileTheyAreAlive(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var clock atomic.Int64
		clock.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
		now := func() time.Time { return time.UnixMicro(clock.Load()) }
		process := func(id string) *Processes { return &Processes{DB: d, Now: now, Log: silent, ID: id} }
		first, second, third := process("rep_1"), process("rep_2"), process("rep_3")
		count := func(want int) {
			t.Helper()
			if d.Dialect() == db.SQLite {
				want = 1
			}
			if n, err := first.Count(t.Context()); err != nil || n != want {
				t.Errorf("%d processes, %v, want %d", n, err, want)
			}
		}
		count(1) // before its first heartbeat
		for _, p := range []*Processes{first, second, third} {
			must(t, p.heartbeat(t.Context()))
		}
		count(3)
		schema, err := db.NewestSchema()
		must(t, err)
		if err := db.RequireSchema(d.Read(t.Context()), now(), schema, "a setting"); err != nil {
			t.Errorf("while all have this version: %v", err)
		}
		if err := db.RequireSchema(d.Read(t.Context()), now(), schema+1, "a setting"); errs.KindOf(err) != errs.Conflict && d.Dialect() == db.Postgres {
			t.Errorf("while all have an older version: %v", err)
		}
		third.end(t.Context())
		count(2)
		clock.Add((aliveFor + time.Second).Microseconds()) // the second one died
		must(t, first.heartbeat(t.Context()))
		count(1)
		clock.Add(forgetAfter.Microseconds())
		must(t, first.heartbeat(t.Context()))
		var rows int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM processes`).Scan(&rows))
		if rows != 1 {
			t.Errorf("%d rows are left", rows)
		}
	})
}

func TestProcessIsCountedFromStartToStop(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	p := &Processes{DB: d, Now: time.Now, Log: silent, ID: "rep_1"}
	other := &Processes{DB: d, Now: time.Now, Log: silent, ID: "rep_2"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(ended)
	}()
	waittest.True(t, "the first heartbeat", func() bool {
		n, err := other.Count(t.Context())
		must(t, err)
		return n == 2
	})
	stop()
	<-ended
	if n, err := other.Count(t.Context()); err != nil || n != 1 {
		t.Errorf("%d processes after the stop, %v", n, err)
	}
}

// TestEnginesAreCheckedTogetherAndRarely has an engine that does not respond: it delays the others by
// its timeout only, and is asked once for many requests.
func TestEnginesAreCheckedTogetherAndRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int32
		hang := func(ctx context.Context) error {
			checks.Add(1)
			<-ctx.Done()
			return errs.Unavailablef(ctx.Err(), "hangs")
		}
		e := &Engines{Log: silent, All: []Engine{
			{"near", "s3", "disk", func(context.Context) error { return nil }},
			{"near", "db", "postgres", hang},
			{"far", "kv", "redis", hang},
		}}
		began := time.Now()
		regions := e.Regions()
		if took := time.Since(began); took != checkTimeout {
			t.Errorf("took %s", took)
		}
		if len(regions) != 2 || !regions[0].Engines.S3.OK || regions[0].Engines.DB.OK || regions[0].Engines.KV != nil ||
			!strings.Contains(regions[1].Engines.KV.Error, "within 1s") {
			t.Errorf("%+v", regions)
		}
		began = time.Now()
		for range 100 {
			e.Regions()
		}
		if time.Since(began) != 0 || checks.Load() != 2 {
			t.Errorf("%d checks in %s", checks.Load(), time.Since(began))
		}
		time.Sleep(checkEvery + time.Second)
		if e.Regions(); checks.Load() != 4 {
			t.Errorf("%d checks after a pause", checks.Load())
		}
	})
}

// TestErrorsOfEnginesHaveNoCredentials shows the message of an error, and never its cause.
func TestErrorsOfEnginesHaveNoCredentials(t *testing.T) {
	secret := errors.New("dial postgres://admin:hunter2@10.0.0.7/db: refused")
	failing := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	e := &Engines{Log: silent, All: []Engine{
		{"r", "db", "postgres", failing(errs.Unavailablef(secret, "PostgreSQL cannot be used now"))},
		{"r", "kv", "redis", failing(secret)},
	}}
	for _, state := range e.States() {
		if state.OK || state.Error == "" || strings.Contains(state.Error, "hunter2") {
			t.Errorf("%+v", state)
		}
	}
	if got := e.States()[0].Error; got != "PostgreSQL cannot be used now" {
		t.Error(got)
	}
}

func TestStatusShowsWhatTheCallerMayRead(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		_, err := d.Exec(t.Context(), `INSERT INTO orgs (id, name, created_at) VALUES ('org_a', 'o', 0)`)
		must(t, err)
		now := stamp.Of(time.Now())
		for sql, args := range map[string][]any{
			`INSERT INTO webhook_totals (org_id, webhook_id, receipts, deliveries, pending) VALUES ('org_a', 'wh_a', 9, 9, 5)`:  nil,
			`INSERT INTO nodes (id, process, address, seen_at) VALUES ('node_a', 'rep_a', '', $1), ('node_b', 'rep_b', '', $1)`: {now},
			`INSERT INTO resources (id, type, org_id, region, name, engine, node, state, password, password_hash, created_by, created_at, updated_at, version)
			VALUES ('kv_a', 'kv', 'org_a', 'local', 'a', 'redis', 'node_b', 'active', $1, $1, 'usr_a', 0, 0, 1)`: {[]byte("p")},
		} {
			_, err := d.Exec(t.Context(), sql, args...)
			must(t, err)
		}
		h := &Handler{
			Version: "v1", StartedAt: now,
			Processes: &Processes{DB: d, Now: time.Now, Log: silent, ID: "rep_1"},
			Engines:   &Engines{Log: silent, All: []Engine{{"local", "s3", "disk", func(context.Context) error { return nil }}}},
			Accounts:  &account.Store{DB: d},
			Nodes:     &node.Directory{DB: d, Now: now.Std},
			Resources: &resource.Store{DB: d},
			Webhooks:  &webhook.Store{DB: d},
		}
		status := func(caller *auth.Caller) (s Status) {
			t.Helper()
			waittest.True(t, "the database to respond in time", func() bool {
				s, err = h.Status(auth.With(t.Context(), caller), nil)
				return s.Database.OK || err != nil
			})
			must(t, err)
			return s
		}
		get := func(scopes ...string) Status {
			return status(&auth.Caller{OrgID: "org_a", Role: auth.Viewer, Scopes: scopes})
		}
		h.Backup = func(context.Context) (Backup, error) { return Backup{LastError: "full", NextAt: now}, nil }
		h.Certificates = func(context.Context) ([]Certificate, error) { return []Certificate{{Source: "file"}}, nil }
		for _, test := range []struct {
			caller auth.Caller
			sees   bool
		}{
			{auth.Caller{OrgID: "org_a", Role: auth.Owner}, true},
			{auth.Caller{OrgID: "org_a", Role: auth.Admin}, true},
			{auth.Caller{OrgID: "org_a", Role: auth.Member}, false},
			{auth.Caller{OrgID: "org_a", Role: auth.Viewer}, false},
			{auth.Caller{OrgID: "org_a", Role: auth.Owner, ProjectID: "prj_a"}, false},
			{auth.Caller{OrgID: "org_b", Role: auth.Owner}, false},
			{auth.Caller{OrgID: "org_b", Role: auth.Admin}, false},
		} {
			s := status(&test.caller)
			if got := s.Backup != nil; got != test.sees {
				t.Errorf("%s of %s, project %q, sees backups: %t", test.caller.Role, test.caller.OrgID, test.caller.ProjectID, got)
			}
			if got := s.Certificates != nil; got != test.sees {
				t.Errorf("%s of %s, project %q, sees certificates: %t", test.caller.Role, test.caller.OrgID, test.caller.ProjectID, got)
			}
			nodes := []Node{{Node: "node_a", OK: true}, {Node: "node_b", OK: true, Stores: 1}}
			if test.caller.OrgID == "org_b" {
				nodes = nil
			} else if !test.sees {
				nodes = nodes[1:]
			}
			if d.Dialect() == db.SQLite || !test.caller.May(auth.ReadResources) {
				nodes = nil
			}
			if diff := cmp.Diff(nodes, s.Nodes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s of %s, project %q, sees other nodes: %s", test.caller.Role, test.caller.OrgID, test.caller.ProjectID, diff)
			}
		}
		all := get()
		if all.Replicas != 1 || !all.Database.OK || all.Database.Engine != d.Dialect().String() || len(all.Regions) != 1 ||
			all.Webhooks == nil || all.Webhooks.Pending != 5 {
			t.Errorf("%+v", all)
		}
		if s := get("account:read"); s.Webhooks != nil || s.Regions == nil || len(s.Regions) != 0 {
			t.Errorf("with account:read alone: %+v", s)
		}
		if s := get("account:read", "webhook:read"); s.Webhooks == nil || len(s.Regions) != 0 {
			t.Errorf("with webhook:read: %+v", s)
		}
		down, cancel := context.WithCancel(t.Context())
		cancel()
		s, err := h.Status(auth.With(down, &auth.Caller{OrgID: "org_a", Role: auth.Viewer}), nil)
		must(t, err)
		if s.Database.OK || s.Replicas != 0 || s.Webhooks != nil || len(s.Regions) != 1 {
			t.Errorf("without a database: %+v", s)
		}
	})
}
