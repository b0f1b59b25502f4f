//go:build bench

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/resource/rediskv/redistest"
)

// resourceRounds is how many resources of each type are created and deleted.
const resourceRounds = 50

// TestResources measures creating and deleting one resource of each type and engine, beside creating and
// deleting a project, which is two small writes.
func TestResources(t *testing.T) {
	postgres := dbtest.NewServer(t)
	redis := redistest.Start(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		s := process.New(t, database)
		config := filepath.Join(t.TempDir(), "steward.yaml")
		s.Must(os.WriteFile(config, fmt.Appendf(nil,
			"regions: [{region: local}, {region: servers, db: %q, kv: %q}]\n", postgres.URL, redis.URL), 0o600))
		s.Args = []string{"--config", config}
		in := begin(t, s)
		write, remove := in.project()
		for _, c := range []struct{ resourceType, region, engine string }{
			{"s3", "local", "embedded"},
			{"db", "local", "embedded"},
			{"kv", "local", "embedded"},
			{"db", "servers", "PostgreSQL"},
			{"kv", "servers", "Redis"},
		} {
			created, deleted := in.resources(c.resourceType, c.region)
			report(fmt.Sprintf("%s: create %s, %s, to a project", database, c.resourceType, c.engine), float64(created)/float64(write), goal{},
				"%s (project %s)", ms(created), ms(write))
			report(fmt.Sprintf("%s: delete %s, %s, to a project", database, c.resourceType, c.engine), float64(deleted)/float64(remove), goal{},
				"%s (project %s)", ms(deleted), ms(remove))
		}
	})
}

// project returns how long creating and deleting a project takes.
func (in *installation) project() (create, remove time.Duration) {
	var made struct{ ID string }
	return inTurn(
		func(n int) { in.call("POST", "/cli/project", map[string]any{"name": fmt.Sprint("p", n)}, &made) },
		func(int) { in.call("DELETE", "/cli/project/"+made.ID, nil, nil) })
}

// resources returns how long creating and deleting a resource takes.
func (in *installation) resources(resourceType, region string) (create, remove time.Duration) {
	path := "/resource/" + in.orgID + "/" + region
	one := func(n int) map[string]any {
		return map[string]any{"resources": []any{map[string]any{"type": resourceType, "name": fmt.Sprintf("bench-%d", n)}}}
	}
	var made any
	return inTurn(
		func(n int) { in.call("POST", path, one(n), &made) },
		func(n int) { in.call("DELETE", path, one(n), nil) })
}

// inTurn returns the median times of two functions that are called in turn.
func inTurn(first, second func(n int)) (a, b time.Duration) {
	var firsts, seconds []float64
	for n := range resourceRounds {
		began := time.Now()
		first(n)
		middle := time.Now()
		second(n)
		firsts = append(firsts, float64(middle.Sub(began)))
		seconds = append(seconds, float64(time.Since(middle)))
	}
	return time.Duration(median(firsts)), time.Duration(median(seconds))
}
