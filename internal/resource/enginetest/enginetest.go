// Package enginetest has the tests that every engine for databases and key-value stores must pass.
//
// An engine's own test calls Run with a function that starts the engine. The tests call it in the same
// order as the manager does, with the same rows, and use the new resources through an ordinary client.
package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/stamp"
)

// Fixture is a running engine and its clients.
type Fixture struct {
	Engine resource.Engine
	Type   resource.Type
	// Node is the resources' Node; empty if the engine is another server.
	Node string
	// Connect connects as a client that knows only what Engine.Connection returned. It returns an error
	// if the credentials are refused.
	Connect func(ctx context.Context, c resource.Connection) (Client, error)
	// Redis returns a client for a key-value store. If it is nil, RunKeys connects to REDIS_URL.
	Redis func(c resource.Connection) redis.UniversalClient
}

// Client is a client's connection. For a database, Set creates a table to keep the values in.
type Client interface {
	Set(ctx context.Context, key, value string) error
	// Get returns a key's value, or "" if there is none.
	Get(ctx context.Context, key string) (string, error)
	Close()
}

// Run runs the tests. Every test starts an engine with its own rows.
func Run(t *testing.T, start func(t *testing.T, rows *Rows) Fixture) {
	tests := map[string]func(s *suite){
		"UsableAtOnce":          usableAtOnce,
		"CreateTwice":           createTwice,
		"WrongPassword":         wrongPassword,
		"DeleteCutsConnections": deleteCutsConnections,
		"DeleteRemovesData":     deleteRemovesData,
		"DeleteTwice":           deleteTwice,
		"DeleteOfNothing":       deleteOfNothing,
		"RotateReplaces":        rotateReplaces,
		"RotateTwice":           rotateTwice,
		"Separate":              separate,
		"OddTexts":              oddTexts,
		"CancelledThenRepeated": cancelledThenRepeated,
		"ManyAtOnce":            manyAtOnce,
		"ConcurrentWithItself":  concurrentWithItself,
		"CheckOfWorkingEngine":  checkWorking,
		"ConnectionIsOwn":       connectionIsOwn,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rows := NewRows()
			test(&suite{t: t, rows: rows, Fixture: start(t, rows)})
		})
	}
}

// suite is an engine under test.
type suite struct {
	Fixture
	t    *testing.T
	rows *Rows
}

// plan returns a resource that has not been created yet.
func (s *suite) plan() *resource.Provisioned {
	prefix := id.Database
	if s.Type == resource.KV {
		prefix = id.KVStore
	}
	now := stamp.Of(time.Now())
	return &resource.Provisioned{
		ID: id.New(prefix), Type: s.Type, OrgID: id.New(id.Org), Region: "local", Name: "invoices",
		Engine: s.Engine.Name(), Node: s.Node, State: resource.Creating, Password: id.Secret(43),
		CreatedBy: id.New(id.User), CreatedAt: now, UpdatedAt: now,
	}
}

// create creates a planned resource as the manager does.
func (s *suite) create(p *resource.Provisioned) {
	s.t.Helper()
	s.rows.put(p)
	s.must(s.Engine.Create(s.t.Context(), p))
	s.activate(p)
}

func (s *suite) activate(p *resource.Provisioned) { s.rows.put(with(p, resource.Active, p.Password)) }

// created returns a new resource.
func (s *suite) created() *resource.Provisioned {
	s.t.Helper()
	p := s.plan()
	s.create(p)
	return p
}

// delete deletes a resource as the manager does.
func (s *suite) delete(p *resource.Provisioned) {
	s.t.Helper()
	s.rows.put(with(p, resource.Deleting, p.Password))
	s.must(s.Engine.Delete(s.t.Context(), p))
	s.rows.remove(p.ID)
}

// rotate gives a resource a new password, as the manager does, and returns the result.
func (s *suite) rotate(p *resource.Provisioned) *resource.Provisioned {
	s.t.Helper()
	p = with(p, resource.Rotating, id.Secret(43))
	s.rows.put(p)
	s.must(s.Engine.Rotate(s.t.Context(), p))
	s.activate(p)
	return p
}

// with returns a copy with another state and password.
func with(p *resource.Provisioned, state resource.State, password string) *resource.Provisioned {
	changed := *p
	changed.State = state
	changed.Password = password
	return &changed
}

// connect connects a client until the test ends.
func (s *suite) connect(p *resource.Provisioned) Client {
	s.t.Helper()
	c, err := s.Connect(s.t.Context(), s.Engine.Connection(p))
	s.must(err)
	s.t.Cleanup(c.Close)
	return c
}

// refused fails the test if a client can connect.
func (s *suite) refused(p *resource.Provisioned) {
	s.t.Helper()
	c, err := s.Connect(s.t.Context(), s.Engine.Connection(p))
	if err == nil {
		c.Close()
		s.t.Error("a client that should be refused has connected")
	}
}

func (s *suite) set(c Client, key, value string) {
	s.t.Helper()
	s.must(c.Set(s.t.Context(), key, value))
}

func (s *suite) want(c Client, key, value string) {
	s.t.Helper()
	got, err := c.Get(s.t.Context(), key)
	s.must(err)
	if got != value {
		s.t.Errorf("%s is %q, want %q", key, got, value)
	}
}

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
