package apikey_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// create creates a key with scopes as a caller.
func (f *fixture) create(t *testing.T, maker *auth.Caller, scopes []string) (apikey.Created, error) {
	h := &apikey.Handler{Store: f.store}
	return h.Create(auth.With(t.Context(), maker), &struct{ Body apikey.NewKey }{apikey.NewKey{Name: "k", Scopes: scopes}})
}

// maker returns the owner as a caller with scopes, of a client unless that is "".
func (f *fixture) maker(clientID string, scopes ...string) *auth.Caller {
	c := *f.caller
	c.ClientID = clientID
	c.Scopes = scopes
	return &c
}

func TestKeyHasNoMoreScopesThanItsMaker(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		many := make([]string, 101)
		for i := range many {
			many[i] = "eval:" + strconv.Itoa(i)
		}
		for name, test := range map[string]struct {
			maker  *auth.Caller
			scopes []string
			want   []string
			kind   errs.Kind
		}{
			"unrestricted, none":            {f.maker(""), nil, nil, ""},
			"unrestricted, some":            {f.maker(""), []string{"eval:read", "thread:read", "eval:read"}, []string{"eval:read", "thread:read"}, ""},
			"unrestricted, empty":           {f.maker(""), []string{}, nil, errs.Invalid},
			"unrestricted, unknown":         {f.maker(""), []string{"eval:read", "openid"}, nil, errs.Invalid},
			"unrestricted, too many":        {f.maker(""), many, nil, errs.Invalid},
			"key, none":                     {f.maker("", "eval:read", "thread:read"), nil, []string{"eval:read", "thread:read"}, ""},
			"key, fewer":                    {f.maker("", "eval:read", "thread:read"), []string{"thread:read"}, []string{"thread:read"}, ""},
			"key, others":                   {f.maker("", "eval:read"), []string{"eval:write"}, nil, errs.Forbidden},
			"token, none":                   {f.maker("oac_1", "openid", "eval:read"), nil, []string{"eval:read"}, ""},
			"token, fewer":                  {f.maker("oac_1", "openid", "eval:read", "thread:read"), []string{"thread:read"}, []string{"thread:read"}, ""},
			"token, others":                 {f.maker("oac_1", "eval:read"), []string{"eval:read", "thread:read"}, nil, errs.Forbidden},
			"token without scopes, none":    {f.maker("oac_1"), nil, []string{}, ""},
			"token without scopes, some":    {f.maker("oac_1"), []string{"eval:read"}, nil, errs.Forbidden},
			"unrestricted, both of an area": {f.maker(""), []string{"eval:read", "eval:write"}, []string{"eval:read", "eval:write"}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				made, err := f.create(t, test.maker, test.scopes)
				if errs.KindOf(err) != test.kind {
					t.Fatalf("got %v", err)
				}
				if err != nil {
					return
				}
				caller, err := f.checker.Authenticate(t.Context(), made.Value)
				if err != nil || caller.ClientID != test.maker.ClientID {
					t.Fatalf("got %+v, %v", caller, err)
				}
				if diff := cmp.Diff(test.want, caller.Scopes); diff != "" {
					t.Error(diff)
				}
				shown, err := f.store.Get(t.Context(), f.caller, made.ID)
				if err != nil || !slices.Equal(shown.Scopes, test.want) {
					t.Errorf("shown are %v, %v", shown.Scopes, err)
				}
			})
		}
	})
}

func TestKeyOfAProjectMakesNoWiderKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		confined := f.maker("")
		confined.ProjectID = "prj_1"
		h := &apikey.Handler{Store: f.store}
		for project, kind := range map[string]errs.Kind{"": errs.Forbidden, "prj_2": errs.Forbidden, "prj_1": ""} {
			body := apikey.NewKey{Name: "k"}
			if project != "" {
				body.ProjectID = &project
			}
			_, err := h.Create(auth.With(t.Context(), confined), &struct{ Body apikey.NewKey }{body})
			if errs.KindOf(err) != kind {
				t.Errorf("a key of project %q: %v", project, err)
			}
		}
	})
}

// TestKeysOfAClientAreDeletedWithItsConsent also covers keys that such a key has created.
func TestKeysOfAClientAreDeletedWithItsConsent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		values := map[string]string{}
		add := func(name string, maker *auth.Caller) {
			t.Helper()
			made, err := f.create(t, maker, nil)
			if err != nil {
				t.Fatal(err)
			}
			values[name] = made.Value
		}
		add("own", f.maker(""))
		add("of client 1", f.maker("oac_1", "eval:read"))
		child, err := f.checker.Authenticate(t.Context(), values["of client 1"])
		if err != nil {
			t.Fatal(err)
		}
		add("of a key of client 1", child)
		add("of client 2", f.maker("oac_2", "eval:read"))
		works := func() (names []string) {
			for name, value := range values {
				if _, err := f.checker.Authenticate(t.Context(), value); err == nil {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names
		}
		for _, step := range []struct {
			clientID, userID string
			want             []string
		}{
			{"oac_1", "usr_other", []string{"of a key of client 1", "of client 1", "of client 2", "own"}},
			{"oac_1", f.caller.UserID, []string{"of client 2", "own"}},
			{"oac_2", "", []string{"own"}},
		} {
			err := d.Write(t.Context(), func(tx *db.Tx) error {
				return f.store.DeleteOfClient(tx, f.caller.OrgID, step.clientID, step.userID)
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(step.want, works()); diff != "" {
				t.Errorf("%s %s: %s", step.clientID, step.userID, diff)
			}
		}
		if diff := cmp.Diff([]string{"oac_1 eval:read", "oac_1 eval:read", "oac_2 eval:read"}, f.consented); diff != "" {
			t.Errorf("consents checked: %s", diff)
		}
	})
}

func TestTokenOfARevokedConsentMakesNoKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.consent = errs.New(errs.Unauthorized, "revoked")
		if _, err := f.create(t, f.maker("oac_1", "eval:read"), nil); errs.KindOf(err) != errs.Unauthorized {
			t.Fatalf("got %v", err)
		}
		list, err := f.store.List(t.Context(), f.caller.OrgID, apikey.Filter{}, page.Paging{Limit: 10})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("the keys are %+v, %v", list.Items, err)
		}
	})
}

// TestKeyDoesNotOutliveItsMaker creates keys with a key that expires.
func TestKeyDoesNotOutliveItsMaker(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		create := func(maker *auth.Caller, expires *string) (apikey.Created, error) {
			body := apikey.NewKey{Name: "k", ExpiresAt: expires}
			return (&apikey.Handler{Store: f.store}).Create(auth.With(t.Context(), maker), &struct{ Body apikey.NewKey }{body})
		}
		at := func(d time.Duration) *string { return new(f.store.Now().Add(d).UTC().Format(time.RFC3339)) }
		first, err := create(f.maker(""), at(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		maker, err := f.checker.Authenticate(t.Context(), first.Value)
		if err != nil {
			t.Fatal(err)
		}
		second, err := create(maker, nil)
		if err != nil {
			t.Fatal(err)
		}
		child, err := f.checker.Authenticate(t.Context(), second.Value)
		if err != nil {
			t.Fatal(err)
		}
		if child.KeyExpires == nil || *child.KeyExpires != *maker.KeyExpires {
			t.Errorf("it expires at %v, its maker at %v", child.KeyExpires, maker.KeyExpires)
		}
		_, err = create(maker, at(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := create(maker, at(2*time.Hour)); errs.KindOf(err) != errs.Forbidden {
			t.Errorf("a key that expires later: %v", err)
		}
	})
}
