package resource

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// nodeEngine is an engine with the files of a node, which does nothing with those of others.
type nodeEngine struct {
	*fileEngine
	node string
}

func (e nodeEngine) Rotate(ctx context.Context, p *Provisioned) error {
	if p.Node != e.node {
		return nil
	}
	return e.fileEngine.Rotate(ctx, p)
}

func (e nodeEngine) Delete(ctx context.Context, p *Provisioned) error {
	if p.Node != e.node {
		return nil
	}
	return e.fileEngine.Delete(ctx, p)
}

// newNodes returns two replicas with files of their own. The function sets the error of all calls from the
// second to the first.
func newNodes(t *testing.T, d *db.DB) (first, second *fixture, fail func(error)) {
	t.Helper()
	var failure error
	first, second = newFixture(t, d, t.TempDir(), "node_1"), newFixture(t, d, t.TempDir(), "node_2")
	for _, f := range []*fixture{first, second} {
		f.dbs.remote = false
		f.kvs.remote = false
		f.Regions[0].DB = nodeEngine{f.dbs, f.Node}
		f.Regions[0].KV = nodeEngine{f.kvs, f.Node}
	}
	first.Nodes = otherNode{second, &failure}
	second.Nodes = otherNode{first, &failure}
	return first, second, func(err error) { failure = err }
}

// otherNode is the only other node.
type otherNode struct {
	*fixture
	failure *error
}

func (n otherNode) Call(ctx context.Context, _, path string, in, out any) error {
	if *n.failure != nil {
		return *n.failure
	}
	return callThere(ctx, n.Manager, path, in, out)
}

func (n otherNode) Others(context.Context) ([]string, error) {
	if errs.KindOf(*n.failure) == errs.NotFound {
		return nil, nil
	}
	return []string{n.Node}, nil
}

// callThere calls Remote as it is called over the network.
func callThere(ctx context.Context, m *Manager, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var request RemoteRequest
	if err := json.Unmarshal(text, &request); err != nil {
		return err
	}
	parts := strings.Split(path, "/")
	value, err := m.Remote(ctx, parts[2], parts[3], request)
	if err != nil || out == nil {
		return err
	}
	if text, err = json.Marshal(value); err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	return dec.Decode(out)
}

func TestFilesOfAnotherNodeAreDeletedThere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		first, second, fail := newNodes(t, d)
		_, err := first.create(NewResource{Type: DB, Name: new("a")}, NewResource{Type: DB, Name: new("b")}, NewResource{Type: KV, Name: new("c")})
		first.must(err)
		second.must(second.delete(Named{Type: DB, Name: "a"}))
		if files := first.dbs.files(t); len(files) != 1 {
			t.Errorf("files: %v", files)
		}

		fail(errs.Unavailablef(nil, "it is down"))
		second.want(errs.Unavailable, second.delete(Named{Type: DB, Name: "b"}))
		second.now = second.now.Add(claimTime)
		second.must(second.Recover(t.Context())) // leaves it to the node that has the files
		if _, err := second.Store.one(d.Read(t.Context()), `WHERE name = 'b'`); err != nil {
			t.Errorf("the row went before the files: %v", err)
		}
		first.must(first.restart(t.Context()))
		first.now = second.now
		first.must(first.Recover(t.Context()))
		if files := first.dbs.files(t); len(files) != 0 {
			t.Errorf("files after the recovery: %v", files)
		}

		fail(errs.New(errs.NotFound, "it is gone for good"))
		second.must(second.delete(Named{Type: KV, Name: "c"}))
		rows, err := second.Store.all(t.Context(), ``)
		if err != nil || len(rows) != 0 {
			t.Errorf("%d rows are left (%v)", len(rows), err)
		}
	})
}

func TestRotationReachesTheNodeOfTheFiles(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		first, second, fail := newNodes(t, d)
		_, err := first.create(NewResource{Type: DB, Name: new("a")})
		first.must(err)
		p, err := second.Store.Get(t.Context(), "org_1", "local", DB, "a")
		second.must(err)
		p, err = second.Rotate(t.Context(), p, nil)
		second.must(err)
		if got := first.dbs.files(t)[p.ID]; got != p.Password {
			t.Errorf("the node of the files accepts %q, want %q", got, p.Password)
		}
		fail(errs.Unavailablef(nil, "it is down"))
		if p, err = second.Rotate(t.Context(), p, nil); err != nil || p.State != Active {
			t.Errorf("a node that does not answer fails the rotation: %v", err)
		}
	})
}

func TestContentsOfAnotherNodeAreTheSame(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	first, second, fail := newNodes(t, d)
	_, err := first.create(NewResource{Type: DB, Name: new("a")}, NewResource{Type: KV, Name: new("a")})
	first.must(err)
	name := nameInput{regionInput: regionInput{OrgID: "org_1", Region: "local"}, Name: "a"}
	contents := func(f *fixture) string {
		t.Helper()
		h := &Handler{Manager: f.Manager}
		ctx := auth.With(t.Context(), f.caller)
		tables, err := h.Tables(ctx, &name)
		f.must(err)
		var query NewQuery
		f.must(json.Unmarshal([]byte(`{"query": "q", "args": [null, true, 9007199254740993, 1.5, 1e300, "ä", {"base64": "AP8="}]}`), &query))
		rows, err := h.Query(ctx, &struct {
			nameInput
			Body NewQuery
		}{name, query})
		f.must(err)
		keys, err := h.Keys(ctx, &KeysInput{nameInput: name, Prefix: "a", Cursor: "b", Limit: 7, Type: "string"})
		f.must(err)
		text, err := json.Marshal([]any{tables, rows, keys})
		f.must(err)
		return string(text)
	}
	if got, want := contents(second), contents(first); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	fail(errs.New(errs.NotFound, "it is gone"))
	_, err = (&Handler{Manager: second.Manager}).Tables(auth.With(t.Context(), second.caller), &name)
	second.want(errs.Unavailable, err)
}

func TestKeysThatAreNotTextSurvive(t *testing.T) {
	for _, key := range []string{"", "text", "\xff\xfe", "a\x00b"} {
		sent := Key{Key: key}
		sent.setBase64()
		text, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var got Key
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if err := got.restore(); err != nil || got.Key != key {
			t.Errorf("%q became %q (%v)", key, got.Key, err)
		}
	}
}

// TestNodeServesOnlyWhatItHas asks a node for resources of another node, another organization, and what it does
// not do.
func TestNodeServesOnlyWhatItHas(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	first, second, _ := newNodes(t, d)
	_, err := first.create(NewResource{Type: DB, Name: new("a")})
	first.must(err)
	p, err := first.Store.Get(t.Context(), "org_1", "local", DB, "a")
	first.must(err)
	ask := func(f *fixture, verb, org string) error {
		_, err := f.Remote(t.Context(), p.ID, verb, RemoteRequest{OrgID: org})
		return err
	}
	first.must(ask(first, askTables, "org_1"))
	first.want(errs.Unavailable, ask(second, askTables, "org_1")) // it does not pass it on
	first.want(errs.Unavailable, ask(first, askTables, "org_2"))
	first.want(errs.Conflict, ask(first, askDelete, "org_1"))
	first.want(errs.NotFound, ask(first, askQuery, "org_1"))
	first.want(errs.NotFound, ask(first, askKeys, "org_1"))
	first.want(errs.NotFound, ask(first, "drop", "org_1"))
	if files := first.dbs.files(t); len(files) != 1 {
		t.Errorf("files: %v", files)
	}
}
