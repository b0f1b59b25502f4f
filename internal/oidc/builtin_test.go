package oidc

import (
	"slices"
	"sync"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

func TestBuiltInClientIsCreatedOnceAndKeptUpToDate(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		var group sync.WaitGroup
		for range 4 {
			s := f.replica(d)
			group.Go(func() {
				if err := s.EnsureCLI(f.ctx, f.caller.OrgID, "https://a.example"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		must(t, f.EnsureCLI(f.ctx, f.caller.OrgID, "https://b.example"))
		c, err := f.Lookup(f.ctx, CLIClientID)
		must(t, err)
		if c.HomepageURL != "https://b.example" || !slices.Contains(c.Scopes, "webhook:write") ||
			c.ClientType != Public || !c.Internal || c.OrgID != f.caller.OrgID {
			t.Errorf("got %+v", c)
		}
	})
}

func TestBuiltInClientCannotBeChangedAndIsNotListed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		must(t, f.EnsureCLI(f.ctx, f.caller.OrgID, "https://a.example"))
		if _, err := f.Get(f.ctx, f.caller.OrgID, CLIClientID); err != nil {
			t.Errorf("get: %v", err)
		}
		list, err := f.List(f.ctx, f.caller.OrgID, page.Paging{Limit: 10})
		must(t, err)
		if len(list.Items) != 0 || list.Total != 0 {
			t.Errorf("list: %+v", list)
		}
		_, update := f.Update(f.ctx, f.caller, CLIClientID, page.IfMatch{}, ClientPatch{})
		_, rotate := f.Rotate(f.ctx, f.caller, CLIClientID)
		for name, err := range map[string]error{
			"update": update, "rotate": rotate,
			"delete": f.Delete(f.ctx, f.caller.OrgID, CLIClientID, page.IfMatch{}),
		} {
			if errs.KindOf(err) != errs.Forbidden {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
