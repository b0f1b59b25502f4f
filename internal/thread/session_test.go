package thread

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

func startOf(id string) Start {
	return Start{
		ID: id, ThreadID: text("t1"), OrgID: org, ProjectID: "p1", RouteID: "r",
		Environment: "prod", URL: "/x", Method: "GET", Trigger: "api",
	}
}

func completionOf(id string, status int) Completion {
	return Completion{
		ID: id, ThreadID: text("t1"), StatusCode: status, AgentIDs: []string{"a1"},
		UserData: text("data"), Metadata: Metadata(`{"end":1}`),
	}
}

// TestSessionStartAndCompletionInAnyOrder sends each of them twice, in both orders.
func TestSessionStartAndCompletionInAnyOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		start := func(id string) {
			_, err := s.Start(t.Context(), whole, startOf(id))
			must(t, err)
		}
		end := func(id string, status int) {
			_, err := s.Complete(t.Context(), whole, completionOf(id, status))
			must(t, err)
		}
		start("s1")
		start("s1")
		end("s1", 200)
		end("s1", 500)
		start("s1")
		end("s2", 200)
		end("s2", 500)
		start("s2")
		start("s2")
		for _, id := range []string{"s1", "s2"} {
			got, err := s.Session(t.Context(), whole, id)
			must(t, err)
			if *got.ProjectID != "p1" || *got.ThreadID != "t1" || got.Trigger != "api" || got.Pending || *got.StatusCode != 200 ||
				got.CompletedAt == nil || *got.UserData != "data" || string(got.Metadata) != `{"end":1}` ||
				!slices.Equal(got.AgentIDs, []string{"a1"}) {
				t.Errorf("%s: %+v", id, got)
			}
		}
		for project, want := range map[string]int64{"": 2, "p1": 2} {
			_, _, n, err := projectCounts(d.Read(t.Context()), org, project)
			must(t, err)
			if n != want {
				t.Errorf("project %q counts %d sessions, want %d", project, n, want)
			}
		}
	})
}

func TestSessionKeepsItsFirstStart(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		first, err := s.Start(t.Context(), whole, startOf("s1"))
		must(t, err)
		other := Start{
			ID: "s1", ThreadID: text("t2"), OrgID: org, ProjectID: "p2", DeploymentID: text("d"), RouteID: "x",
			Environment: "x", Devmode: true,
			URL: "/other", Method: "PUT", Trigger: "cron", Metadata: Metadata(`{"x":1}`),
		}
		again, err := s.Start(t.Context(), whole, other)
		must(t, err)
		stored, err := s.Session(t.Context(), whole, "s1")
		must(t, err)
		for _, got := range []Session{again, stored} {
			if diff := cmp.Diff(first, got, cmp.AllowUnexported(Session{})); diff != "" {
				t.Errorf("-first +again:\n%s", diff)
			}
		}
		_, _, n, err := projectCounts(d.Read(t.Context()), org, "p2")
		must(t, err)
		if n != 0 {
			t.Errorf("the other project counts %d sessions", n)
		}
	})
}

func TestSessionReportsAllErrorsOfABody(t *testing.T) {
	tooMany := slices.Repeat([]string{"a"}, maxAgents+1)
	fits := Completion{
		ID: strings.Repeat("s", 128), ThreadID: text(""), AgentIDs: tooMany[1:], UserData: text(strings.Repeat("x", MaxText)),
		Metadata: Metadata(`{"a":"` + strings.Repeat("x", MaxText-8) + `"}`),
	}
	must(t, fits.check())
	end := Completion{
		ID: "a b", ThreadID: text("ü"), AgentIDs: tooMany, UserData: text(strings.Repeat("x", MaxText+1)), Metadata: Metadata(`[]`),
	}
	must(t, json.Unmarshal([]byte(`{"timestamp":"tomorrow"}`), &end))
	start := Start{ID: strings.Repeat("s", 129), ThreadID: text("/"), Metadata: Metadata(`1`), Timestamp: end.Timestamp}
	for err, want := range map[error]string{
		end.check():   "body.id body.threadId body.timestamp body.agentIds body.userData body.metadata",
		start.check(): "body.id body.projectId body.threadId body.timestamp body.metadata",
	} {
		wantKind(t, err, errs.Invalid)
		var e *errs.Error
		var named []string
		if errors.As(err, &e) {
			for _, fault := range e.Faults {
				named = append(named, fault.Location)
			}
		}
		if got := strings.Join(named, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSessionsOfOtherProjectsAreNotSeen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		_, err := s.Start(t.Context(), whole, startOf("s1"))
		must(t, err)
		for _, caller := range []*auth.Caller{other, confined("p2")} {
			_, err = s.Session(t.Context(), caller, "s1")
			wantKind(t, err, errs.NotFound)
		}
		_, err = s.Complete(t.Context(), confined("p2"), completionOf("s1", 200))
		wantKind(t, err, errs.NotFound)
		_, err = s.Start(t.Context(), confined("p2"), startOf("s9"))
		wantKind(t, err, errs.Forbidden)
		// A completion of another organization under the same id is a session of its own.
		_, err = s.Complete(t.Context(), other, completionOf("s1", 500))
		must(t, err)
		got, err := s.Session(t.Context(), confined("p1"), "s1")
		must(t, err)
		if !got.Pending {
			t.Error("another organization has completed the session")
		}
	})
}

func TestSessionFilters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range 10 {
			b := startOf(fmt.Sprintf("s%d", i))
			b.Timestamp.Time = stamp.Of(s.Now())
			b.ProjectID, b.ThreadID = fmt.Sprintf("p%d", i%2), text(fmt.Sprintf("t%d", i%5))
			_, err := s.Start(t.Context(), whole, b)
			must(t, err)
		}
		for want, f := range map[string]SessionFilter{
			"s9 s8 s7 s6 s5 s4 s3 s2 s1 s0": {}, "s9 s7 s5 s3 s1": {ProjectID: "p1"}, "s8 s3": {ThreadID: "t3"},
			"s8": {ThreadID: "t3", ProjectID: "p0"}, "": {ProjectID: "no"},
		} {
			var ids []string
			p := page.Paging{Limit: 3}
			for {
				result, err := s.Sessions(t.Context(), org, f, p)
				must(t, err)
				if result.Total != int64(len(strings.Fields(want))) {
					t.Errorf("%+v: total %d", f, result.Total)
				}
				for _, row := range result.Items {
					ids = append(ids, row.ID)
				}
				if p.Cursor = result.Next; result.Next == "" {
					break
				}
			}
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("%+v: got %s, want %s", f, got, want)
			}
		}
	})
}

func TestSessionTimestamps(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		now := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
		s.Now = func() time.Time { return now }
		for id, want := range map[string]struct{ sent, at string }{
			"past":   {`"2026-11-15T08:30:00+01:00"`, "2026-11-15T07:30:00.000Z"},
			"millis": {`1794726000000`, "2026-11-15T07:00:00.000Z"},
			"future": {`"2026-11-15T08:06:00Z"`, "2026-11-15T08:00:00.000Z"},
			"none":   {`null`, "2026-11-15T08:00:00.000Z"},
		} {
			start, end := startOf(id), completionOf(id, 200)
			must(t, json.Unmarshal([]byte(`{"timestamp":`+want.sent+`}`), &start))
			must(t, json.Unmarshal([]byte(`{"timestamp":`+want.sent+`}`), &end))
			_, err := s.Start(t.Context(), whole, start)
			must(t, err)
			got, err := s.Complete(t.Context(), whole, end)
			must(t, err)
			if got.StartedAt.String() != want.at || got.CompletedAt.String() != want.at {
				t.Errorf("%s: from %s to %s, want %s", want.sent, got.StartedAt, got.CompletedAt, want.at)
			}
		}
	})
}

// TestNewThreadGoesToTheProjectOfItsSession saves with a key that is not confined to a project.
func TestNewThreadGoesToTheProjectOfItsSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		_, err := s.Start(t.Context(), whole, startOf("s1"))
		must(t, err)
		for id, want := range map[string]string{"t1": "p1", "t2": "prj_default"} {
			_, err = s.save(t.Context(), whole, frameData{ThreadID: id})
			must(t, err)
			got, err := s.Get(t.Context(), whole, id)
			must(t, err)
			if got.ProjectID != want {
				t.Errorf("%s went to %s, want %s", id, got.ProjectID, want)
			}
		}
	})
}
