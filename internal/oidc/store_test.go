package oidc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

func TestClientIsStored(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		icon, project, life := "https://notes.example/i.png", "prj_1", int64(900)
		made := f.client(Settings{
			Icon: some(icon), RedirectURIs: some([]string{"https://notes.example/cb"}), ProjectID: some(project),
			AccessSeconds: some(life), AllowedUserIDs: some([]string{"z", "a"}), IsPublic: some(false),
			Scopes: some([]string{"openid", "thread:read"}), Audience: some("https://api.notes.example/v1"),
			AllowedClients: some([]string{"oac_unknown", "oac_unknown"}),
		})
		got, err := f.Get(f.ctx, f.caller.OrgID, made.Client.ID)
		must(t, err)
		if diff := cmp.Diff(made.Client, got.Client, cmp.AllowUnexported(Client{})); diff != "" {
			t.Error(diff)
		}
		if got.OrgID != f.caller.OrgID || got.UserCount != 0 || got.LastActivity != nil || got.ETag() != `"1"` {
			t.Error(got)
		}
		r, err := f.Lookup(f.ctx, got.ID)
		must(t, err)
		if !r.HasSecret(made.ClientSecret) || r.HasSecret("") || r.HasSecret(made.ClientSecret+"x") || r.Epoch != 1 {
			t.Error("wrong secret or epoch")
		}
		if r.AccessLifetime() != 15*time.Minute || !r.Allows("a") || !r.Allows("z") || r.Allows("b") {
			t.Error("wrong lifetime or allowed users")
		}
	})
}

// TestAllowedClientsWaitForOlderReplicas has a replica of a version that does not know allowed_clients.
func TestAllowedClientsWaitForOlderReplicas(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		seen := func(processID string, schema any) {
			t.Helper()
			_, err := f.DB.Exec(f.ctx, `INSERT INTO processes (id, seen_at, schema) VALUES ($1, $2, $3)`,
				processID, stamp.Of(f.now()), schema)
			must(t, err)
		}
		update := func(c Client, s Settings) error {
			t.Helper()
			_, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Settings: s})
			return err
		}
		listed := Settings{AllowedClients: some([]string{"oac_1"})}
		c := f.client(listed).Client
		seen("rep_new", schemaOfAllowedClients)
		must(t, update(c, Settings{AllowedClients: some([]string{"oac_1", "oac_2"})}))
		seen("rep_old", nil)
		wantKind(t, update(c, listed), errs.Conflict)
		must(t, update(c, Settings{AllowedClients: some([]string{"oac_1", "oac_2"}), IsPublic: some(false)}))
		_, err := f.h.Create(f.ctx, &CreateRequest{Body: NewClient{Name: "N", HomepageURL: "https://n.example", Settings: listed}})
		wantKind(t, err, errs.Conflict)
		f.client(Settings{})
		f.advance(time.Minute) // it has died
		must(t, update(c, listed))
	})
}

func TestClientOfAnotherOrganizationIsNotFound(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		other := f.member(id.New(id.Org), auth.Owner)
		ctx := auth.With(t.Context(), other)
		for name, do := range map[string]func() error{
			"get":      func() error { _, err := f.Get(ctx, other.OrgID, c.ID); return err },
			"update":   func() error { _, err := f.Update(ctx, other, c.ID, page.IfMatch{}, ClientPatch{}); return err },
			"delete":   func() error { return f.Delete(ctx, other.OrgID, c.ID, page.IfMatch{}) },
			"rotate":   func() error { _, err := f.Rotate(ctx, other, c.ID); return err },
			"users":    func() error { _, err := f.Users(ctx, other.OrgID, c.ID, whole); return err },
			"revoke":   func() error { return f.RevokeUser(ctx, other.OrgID, c.ID, f.caller.UserID) },
			"all":      func() error { return f.RevokeAll(ctx, other.OrgID, c.ID) },
			"activity": func() error { _, err := f.ClientActivity(ctx, other.OrgID, c.ID, 30); return err },
			"own":      func() error { return f.RevokeConsent(ctx, c.ID, other.UserID, "") },
		} {
			err := do()
			wantKind(t, err, errs.NotFound)
			if err != nil && !strings.HasSuffix(err.Error(), c.ID+" not found") {
				t.Errorf("%s: %v", name, err)
			}
		}
		result, err := f.List(ctx, other.OrgID, whole)
		if err != nil || len(result.Items) != 0 {
			t.Error(result, err)
		}
		if _, err := f.Get(f.ctx, f.caller.OrgID, c.ID); err != nil {
			t.Errorf("the client was changed: %v", err)
		}
	})
}

func TestListIsNewestFirstAndPaged(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		var want []string
		for range 5 {
			want = append(want, f.client(Settings{}).Client.ID)
		}
		slices.Reverse(want)
		f.consent(want[2], "usr_1")
		f.consent(want[2], "usr_2")
		var got []string
		for p := (page.Paging{Limit: 2}); ; {
			result, err := f.List(f.ctx, f.caller.OrgID, p)
			must(t, err)
			for _, l := range result.Items {
				got = append(got, l.ID)
				if l.ID == want[2] && l.UserCount != 2 || l.ID != want[2] && l.UserCount != 0 {
					t.Errorf("%s has %d users", l.ID, l.UserCount)
				}
			}
			if result.Total != 5 {
				t.Error(result.Total)
			}
			if p.Cursor = result.Next; p.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestSecretIsStoredAsHash(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		made := f.client(Settings{})
		var hash []byte
		must(t, f.DB.Read(f.ctx).Row(`SELECT secret_hash FROM oidc_clients WHERE id = $1`, made.Client.ID).Scan(&hash))
		if !bytes.Equal(hash, seal.Hash(made.ClientSecret)) {
			t.Error("not the SHA-256 of the secret")
		}
	})
}

func TestRotateReplacesTheSecret(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		made := f.client(Settings{})
		check := func(secret string) error { _, err := f.CheckSecret(f.ctx, made.Client.ID, secret); return err }
		must(t, check(made.ClientSecret))
		fresh, err := f.Rotate(f.ctx, f.caller, made.Client.ID)
		must(t, err)
		must(t, check(fresh))
		wantKind(t, check(made.ClientSecret), errs.Unauthorized)
		if len(fresh) != 43 || fresh == made.ClientSecret {
			t.Error("not a new secret")
		}
		c, err := f.Get(f.ctx, f.caller.OrgID, made.Client.ID)
		if err != nil || c.ETag() != `"2"` {
			t.Error(c.ETag(), err)
		}
		public := f.client(Settings{ClientType: some(Public)})
		if public.ClientSecret != "" {
			t.Error("a public client has a secret")
		}
		_, err = f.Rotate(f.ctx, f.caller, public.Client.ID)
		wantKind(t, err, errs.Invalid)
		for _, secret := range []string{"", "x", fresh} {
			_, err = f.CheckSecret(f.ctx, public.Client.ID, secret)
			wantKind(t, err, errs.Unauthorized)
			_, err = f.CheckSecret(f.ctx, id.New(id.Client), secret)
			wantKind(t, err, errs.Unauthorized)
			_, err = f.CheckSecret(f.ctx, "no id at all\x00", secret)
			wantKind(t, err, errs.Unauthorized)
		}
	})
}

func TestUpdateOfTheTypeReplacesTheSecret(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		made := f.client(Settings{})
		update := func(p ClientPatch) Updated {
			u, err := f.Update(f.ctx, f.caller, made.Client.ID, page.IfMatch{}, p)
			must(t, err)
			return u
		}
		check := func(secret string) error { _, err := f.CheckSecret(f.ctx, made.Client.ID, secret); return err }
		if u := update(ClientPatch{Name: some("b")}); u.ClientSecret != "" || check(made.ClientSecret) != nil {
			t.Error("an update of the name has changed the secret")
		}
		public := update(ClientPatch{Settings: Settings{ClientType: some(Public)}})
		if public.ClientSecret != "" || public.Client.ClientType != Public {
			t.Error(public)
		}
		wantKind(t, check(made.ClientSecret), errs.Unauthorized)
		wantKind(t, check(""), errs.Unauthorized)
		u := update(ClientPatch{Settings: Settings{ClientType: some(Confidential)}})
		must(t, check(u.ClientSecret))
		wantKind(t, check(made.ClientSecret), errs.Unauthorized)
	})
}

func TestIfMatchIsChecked(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		patch := ClientPatch{Description: some("changed")}
		_, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{IfMatch: `"7"`}, patch)
		wantKind(t, err, errs.PreconditionFailed)
		u, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{IfMatch: c.ETag()}, patch)
		must(t, err)
		got, err := f.Get(f.ctx, f.caller.OrgID, c.ID)
		must(t, err)
		if diff := cmp.Diff(u.Client, got.Client, cmp.AllowUnexported(Client{})); diff != "" || got.Description != "changed" {
			t.Error(diff)
		}
		f.consent(c.ID, f.caller.UserID, "openid")
		if again, err := f.Get(f.ctx, f.caller.OrgID, c.ID); err != nil || again.ETag() != got.ETag() {
			t.Error("a consent has changed the ETag", err)
		}
		wantKind(t, f.Delete(f.ctx, f.caller.OrgID, c.ID, page.IfMatch{IfMatch: `"1"`}), errs.PreconditionFailed)
		must(t, f.Delete(f.ctx, f.caller.OrgID, c.ID, page.IfMatch{IfMatch: `"2"`}))
		wantKind(t, f.Delete(f.ctx, f.caller.OrgID, c.ID, page.IfMatch{}), errs.NotFound)
	})
}

func TestConcurrentUpdatesOfDifferentFieldsAreAllApplied(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		patches := []ClientPatch{
			{Name: some("n")},
			{Description: some("d")},
			{HomepageURL: some("https://h.example")},
			{Settings: Settings{Icon: some("https://h.example/i")}},
			{Settings: Settings{Scopes: some([]string{"email"})}},
			{Settings: Settings{IsPublic: some(false)}},
			{Settings: Settings{AccessSeconds: some(int64(77))}},
			{Settings: Settings{AllowedUserIDs: some([]string{"u"})}},
		}
		var group sync.WaitGroup
		for _, p := range patches {
			group.Go(func() {
				if _, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, p); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		got, err := f.Get(f.ctx, f.caller.OrgID, c.ID)
		must(t, err)
		if got.Name != "n" || got.Description != "d" || got.HomepageURL != "https://h.example" ||
			*got.Icon != "https://h.example/i" ||
			got.Scopes[0] != "email" || got.IsPublic || *got.AccessSeconds != 77 || got.AllowedUserIDs[0] != "u" ||
			got.ETag() != fmt.Sprintf(`"%d"`, 1+len(patches)) {
			t.Errorf("%+v", got)
		}
	})
}

func TestInvalidUpdateChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		for _, s := range []Settings{{Scopes: some([]string{"no"})}, {ProjectID: some("not an id")}} {
			_, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Name: some("b"), Settings: s})
			wantKind(t, err, errs.Invalid)
		}
		got, err := f.Get(f.ctx, f.caller.OrgID, c.ID)
		must(t, err)
		if diff := cmp.Diff(c, got.Client, cmp.AllowUnexported(Client{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestForgetProjectKeepsTheClients(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		in := f.client(Settings{ProjectID: some("prj_1")}).Client
		out := f.client(Settings{ProjectID: some("prj_2")}).Client
		must(t, f.DB.Write(f.ctx, func(tx *db.Tx) error { return f.ForgetProject(tx, f.caller.OrgID, "prj_1") }))
		gone, err := f.Get(f.ctx, f.caller.OrgID, in.ID)
		must(t, err)
		kept, err := f.Get(f.ctx, f.caller.OrgID, out.ID)
		must(t, err)
		if gone.ProjectID != nil || gone.ETag() != `"2"` || *kept.ProjectID != "prj_2" || kept.ETag() != `"1"` {
			t.Error(gone.ProjectID, kept.ProjectID)
		}
	})
}

func TestChangesAreAudited(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		_, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Name: some("b")})
		must(t, err)
		_, err = f.Rotate(f.ctx, f.caller, c.ID)
		must(t, err)
		for _, user := range []string{"usr_1", "usr_2", "usr_3"} {
			f.consent(c.ID, user, "openid")
		}
		must(t, f.RevokeUser(f.ctx, f.caller.OrgID, c.ID, "usr_1"))
		must(t, f.RevokeConsent(f.ctx, c.ID, "usr_2", ""))
		must(t, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
		must(t, f.Delete(f.ctx, f.caller.OrgID, c.ID, page.IfMatch{}))
		want := []string{
			"client.create " + c.ID, "client.update " + c.ID, "client.rotate_secret " + c.ID,
			"consent.grant " + c.ID, "consent.grant " + c.ID, "consent.grant " + c.ID,
			"client.revoke_user " + c.ID + "/usr_1", "consent.revoke " + c.ID,
			"client.revoke_all " + c.ID, "client.delete " + c.ID,
		}
		if diff := cmp.Diff(want, f.audits()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestIconsOfEarlierVersionsStay changes a client whose icon would be refused now.
func TestIconsOfEarlierVersionsStay(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		const old = "data:image/png;base64,AA=="
		must(t, f.DB.Write(f.ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE oidc_clients SET icon = $1`, old)
			return err
		}))
		u, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Name: some("Other")})
		if err != nil || u.Client.Icon == nil || *u.Client.Icon != old {
			t.Errorf("%v, %v", u.Client.Icon, err)
		}
		_, err = f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Settings: Settings{Icon: some(old)}})
		wantKind(t, err, errs.Invalid)
		u, err = f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Settings: Settings{Icon: null[string]()}})
		if err != nil || u.Client.Icon != nil {
			t.Errorf("%v, %v", u.Client.Icon, err)
		}
	})
}
