package app

import (
	"context"

	"steward/internal/resource"
	"steward/internal/server"
)

// addEngines gives regions without engines of databases and key-value stores one for tests of routes,
// whose resources have no contents.
func addEngines(s *server.Server) {
	regions := s.Resource.Manager.Regions
	for i := range regions {
		if regions[i].DB == nil {
			regions[i].DB = emptyEngine{}
		}
		if regions[i].KV == nil {
			regions[i].KV = emptyEngine{}
		}
	}
}

// emptyEngine is an engine of resources that hold nothing.
type emptyEngine struct{}

func (emptyEngine) Name() string                                        { return "empty" }
func (emptyEngine) Local() bool                                         { return true }
func (emptyEngine) Check(context.Context) error                         { return nil }
func (emptyEngine) Create(context.Context, *resource.Provisioned) error { return nil }
func (emptyEngine) Rotate(context.Context, *resource.Provisioned) error { return nil }
func (emptyEngine) Delete(context.Context, *resource.Provisioned) error { return nil }
func (emptyEngine) Connection(*resource.Provisioned) resource.Connection {
	return resource.Connection{URL: "empty:", Env: map[string]string{"DATABASE_URL": "empty:"}}
}

func (emptyEngine) Tables(context.Context, *resource.Provisioned) ([]resource.Table, error) {
	return nil, nil
}

func (emptyEngine) Query(context.Context, *resource.Provisioned, string, []any, int) (resource.Rows, error) {
	return resource.Rows{}, nil
}

func (emptyEngine) Keys(context.Context, *resource.Provisioned, string, string, int) (resource.Keys, error) {
	return resource.Keys{}, nil
}
