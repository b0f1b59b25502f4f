package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/apikey"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/auth"
	"steward/internal/blob"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/oidc/keys/keystest"
	"steward/internal/seal"
	"steward/internal/server"
	"steward/internal/stamp"
	"steward/internal/web"
)

// fixture is the API of one organization that has a member and an API key for each role, and a key
// confined to a project.
type fixture struct {
	t       testing.TB
	parts   *parts
	server  *server.Server
	orgID   string
	handler http.Handler
	routes  []web.Route
	keys    map[string]string // by role, or projectKey
}

const projectKey = "project key"

// newParts connects the slices over an open database as Serve does, without listeners and loops.
func newParts(t testing.TB, d *db.DB) *parts {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.OpenDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(map[string]string{"data": t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wire(base{
		database:  &database{db: d, ring: ring, blobs: blobs, node: "local"},
		cfg:       cfg,
		addresses: datadir.Addresses{BaseURL: "http://steward.test", KVURL: "redis://steward.test:6380"},
		log:       slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		now:       time.Now,
		poolSizes: poolSizesWithin(budget.MemoryLimit()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.provider.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.engines.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.engines.close(context.Background()) })
	p.oauth.Keys.NewRSA = keystest.NewRSA()
	return p
}

// newFixture returns a fixture over an open database; done may be nil.
func newFixture(t testing.TB, d *db.DB, done func(web.Served)) *fixture {
	p := newParts(t, d)
	s := p.server
	s.Done = done
	orgID := id.New(id.Org)
	f := &fixture{t: t, parts: p, server: s, orgID: orgID, handler: s.Handler(), routes: s.Routes(), keys: map[string]string{}}
	err := d.Write(context.Background(), func(tx *db.Tx) (err error) {
		if _, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'test', 0)`, orgID); err != nil {
			return err
		}
		for _, role := range auth.Roles {
			if f.keys[string(role)], err = addMember(tx, s, orgID, role); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	created := f.send("owner", "POST", "/cli/apikey", `{"name":"confined","projectId":"prj_test"}`)
	f.keys[projectKey] = field(created, "value")
	return f
}

// addMember adds a user with a role and returns an API key of the user.
func addMember(tx *db.Tx, s *server.Server, orgID string, role auth.Role) (string, error) {
	userID := id.New(id.User)
	now := stamp.Of(time.Now())
	if _, err := tx.Exec(`INSERT INTO users (id, version, created_at, updated_at) VALUES ($1, 1, $2, $2)`,
		userID, now); err != nil {
		return "", err
	}
	if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, orgID, userID, role, now); err != nil {
		return "", err
	}
	value := apikey.NewValue()
	return value, s.Key.Store.MakeRoot(tx, orgID, userID, value)
}

// send sends a request with the key of a role, or with a key as given; "" sends none.
func (f *fixture) send(who, method, path, body string) *httptest.ResponseRecorder {
	return f.sendOnce(f.handler, who, method, path, body, "")
}

// sendOnce sends a request to a handler, with an Idempotency-Key unless that is "".
func (f *fixture) sendOnce(handler http.Handler, who, method, path, body, once string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if once != "" {
		req.Header.Set("Idempotency-Key", once)
	}
	if key, ok := f.keys[who]; ok {
		req.Header.Set("Authorization", "Bearer "+key)
	} else if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, req)
	return rec
}

// field returns a text of a JSON response, or "".
func field(rec *httptest.ResponseRecorder, name string) string {
	var m map[string]any
	if json.Unmarshal(rec.Body.Bytes(), &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}
