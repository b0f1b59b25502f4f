package oidc

import (
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
)

const documentURI = "https://editor.example/client.json"

func document(t *testing.T, name string) Document {
	t.Helper()
	d, err := ParseDocument(documentURI, []byte(`{"client_id": "`+documentURI+`", "client_name": "`+name+`",
		"redirect_uris": ["https://editor.example/callback"]}`), time.Hour)
	must(t, err)
	return d
}

// TestDocumentIsStoredOnce stores a document from several replicas at once, in two organizations.
func TestDocumentIsStoredOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := f.member(id.New(id.Org), auth.Owner)
		d := document(t, "Editor")
		var wg sync.WaitGroup
		for i := range 8 {
			caller := []*auth.Caller{f.caller, other}[i%2]
			wg.Go(func() {
				if _, err := f.replica(f.DB).StoreDocument(f.ctx, caller.OrgID, caller.UserID, d); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := f.rows("oidc_clients"); n != 2 {
			t.Errorf("%d clients", n)
		}
		one, fresh, err := f.Documented(f.ctx, f.caller.OrgID, documentURI)
		must(t, err)
		two, _, err := f.Documented(f.ctx, other.OrgID, documentURI)
		must(t, err)
		if !fresh || one.ID == two.ID || one.OrgID != f.caller.OrgID || two.OrgID != other.OrgID || one.ProtocolID() != documentURI {
			t.Errorf("got %+v and %+v", one, two)
		}
		f.advance(2 * time.Hour)
		again, fresh, err := f.Documented(f.ctx, f.caller.OrgID, documentURI)
		must(t, err)
		if fresh || again.ETag() != one.ETag() {
			t.Errorf("fresh is %t, and the version %s", fresh, again.ETag())
		}
		renamed, err := f.StoreDocument(f.ctx, f.caller.OrgID, f.caller.UserID, document(t, "Renamed"))
		must(t, err)
		if renamed.ID != one.ID || renamed.Name != "Renamed" || renamed.ETag() == one.ETag() {
			t.Errorf("got %+v", renamed)
		}
		_, _, err = f.Documented(f.ctx, id.New(id.Org), documentURI)
		wantKind(t, err, errs.NotFound)
	})
}

func TestNewestDocumentAuthenticatesItsClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := f.member(id.New(id.Org), auth.Owner)
		for _, s := range []struct {
			orgID, name string
		}{{other.OrgID, "Old"}, {f.caller.OrgID, "Older"}, {other.OrgID, "Newest"}} {
			_, err := f.StoreDocument(f.ctx, s.orgID, f.caller.UserID, document(t, s.name))
			must(t, err)
			f.advance(time.Minute)
		}
		r, err := f.Lookup(f.ctx, documentURI)
		must(t, err)
		if r.Name != "Newest" || r.OrgID != other.OrgID {
			t.Errorf("got %+v", r.Client)
		}
		_, err = f.Lookup(f.ctx, documentURI+"2")
		wantKind(t, err, errs.NotFound)
	})
}
