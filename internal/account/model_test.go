package account_test

import (
	"testing"

	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
)

// modelInvitation is an invitation of one of two organizations to an address, with its valid link.
type modelInvitation struct {
	id, token string
	role      auth.Role
}

// TestNobodyIsAMemberWithoutConsent lets two organizations invite, renew, change, revoke and remove the
// same person at random, who accepts some of it. The person is a member exactly where the person has
// accepted, with the role of that invitation or of a later change, and no link works that is void.
func TestNobodyIsAMemberWithoutConsent(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	orgs := []*auth.Caller{f.owner, f.organization("other@example.com")}
	rapid.Check(t, func(rt *rapid.T) {
		email := rapid.StringMatching(`[a-z]{30}`).Draw(rt, "name") + "@example.com"
		userID := ""
		pending := map[int]*modelInvitation{}
		joined := map[int]auth.Role{}
		var void []string
		roles := rapid.SampledFrom(auth.Roles)
		end := func(o int) {
			void = append(void, pending[o].token)
			delete(pending, o)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"invite": func(rt *rapid.T) {
				o, role := rapid.IntRange(0, 1).Draw(rt, "org"), roles.Draw(rt, "role")
				m, token, err := f.store.Invite(f.as(orgs[o]), orgs[o].OrgID, orgs[o].UserID, account.NewMember{Email: email, Role: role})
				if free := pending[o] == nil && joined[o] == ""; free != (err == nil) {
					rt.Fatalf("invite: %v", err)
				}
				if err == nil {
					pending[o] = &modelInvitation{m.ID, token, role}
				}
			},
			"renew": func(rt *rapid.T) {
				o := rapid.IntRange(0, 1).Draw(rt, "org")
				if pending[o] == nil {
					rt.Skip()
				}
				token, err := f.reinvite(orgs[o], pending[o].id)
				must(t, err)
				void = append(void, pending[o].token)
				pending[o].token = token
			},
			"change": func(rt *rapid.T) {
				o, role := rapid.IntRange(0, 1).Draw(rt, "org"), roles.Draw(rt, "role")
				p := account.MemberPatch{Role: page.Some(role)}
				switch {
				case pending[o] != nil:
					must(t, f.change(orgs[o], pending[o].id, p))
					if pending[o].role != role {
						void = append(void, pending[o].token)
						pending[o].token = "void"
						pending[o].role = role
					}
				case joined[o] != "":
					must(t, f.change(orgs[o], userID, p))
					joined[o] = role
				}
			},
			"remove": func(rt *rapid.T) {
				o := rapid.IntRange(0, 1).Draw(rt, "org")
				switch {
				case pending[o] != nil:
					must(t, f.remove(orgs[o], pending[o].id))
					end(o)
				case joined[o] != "":
					must(t, f.remove(orgs[o], userID))
					delete(joined, o)
				}
			},
			"accept": func(rt *rapid.T) {
				o := rapid.IntRange(0, 1).Draw(rt, "org")
				if pending[o] == nil || pending[o].token == "void" {
					rt.Skip()
				}
				registered, err := f.register(pending[o].token)
				if (err == nil) != (userID == "") {
					rt.Fatalf("register: %v", err)
				}
				if err == nil {
					userID = registered
				} else {
					must(t, f.join(pending[o].token, userID))
				}
				joined[o] = pending[o].role
				end(o)
			},
			"": func(rt *rapid.T) {
				for o, org := range orgs {
					role, err := f.store.Role(t.Context(), org.OrgID, userID)
					if (err == nil) != (joined[o] != "") || role != joined[o] {
						rt.Fatalf("in organization %d the person is %q (%v), want %q", o, role, err, joined[o])
					}
				}
				for _, token := range void {
					if _, err := f.store.InvitationByToken(t.Context(), token); err == nil {
						rt.Fatal("a void link works")
					}
				}
			},
		})
	})
}
