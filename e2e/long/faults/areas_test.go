package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"
)

// areas returns the areas of an organization. What must exist before the first write is created here.
func (u *tenant) areas() []*area {
	return []*area{
		u.webhooks(), u.threads(), u.sockets(), u.runs(), u.objects(), u.projects(), u.keys(), u.clients(), u.resources(), u.database(),
		u.store(),
	}
}

// missingOf returns the numbers for which stored is false.
func missingOf(acked []int, stored func(n int) (bool, error)) (missing []int, err error) {
	for _, n := range acked {
		ok, err := stored(n)
		if err != nil {
			return nil, fmt.Errorf("look for %d: %w", n, err)
		}
		if !ok {
			missing = append(missing, n)
		}
	}
	return missing, nil
}

// ignoreMissing returns nil for 404, which is an answer.
func ignoreMissing(err error) error {
	var e *statusError
	if errors.As(err, &e) && e.status == http.StatusNotFound {
		return nil
	}
	return err
}

// savedThreads is how many threads are saved in turn. A save replaces the one before it.
const savedThreads = 20

// threads saves threads in turn.
func (u *tenant) threads() *area {
	path := func(n int) string { return fmt.Sprintf("%s/thread/thread-%d", u.cluster.api, n%savedThreads) }
	return &area{
		name: "threads",
		write: func(ctx context.Context, n int) error {
			return u.call(ctx, "PUT", path(n), object{"project_id": "prj", "metadata": object{"n": n}, "user_data": "{}"}, nil)
		},
		missing:      func(ctx context.Context, acked []int) ([]int, error) { return u.missingThreads(ctx, acked, path) },
		inconsistent: func(ctx context.Context) error { _, err := u.list(ctx, "/thread?limit=1000"); return err },
	}
}

// missingThreads returns the numbers of saves that are not there, nor later ones.
func (u *tenant) missingThreads(ctx context.Context, acked []int, path func(n int) string) ([]int, error) {
	latest := acked[max(0, len(acked)-savedThreads):] // of each thread
	return missingOf(latest, func(n int) (bool, error) {
		var thread struct{ Metadata struct{ N int } }
		err := u.call(ctx, "GET", path(n), nil, &thread)
		return err == nil && thread.Metadata.N >= n, ignoreMissing(err)
	})
}

// runs starts evaluation runs and completes every other one.
func (u *tenant) runs() *area {
	return &area{
		name: "runs",
		write: func(ctx context.Context, n int) error {
			run := object{
				"id": fmt.Sprintf("run-%d", n), "sessionId": "s", "evalId": "e", "evalIdentifier": "e", "orgId": u.orgID,
				"projectId": "prj", "devmode": false,
			}
			err := u.call(ctx, "POST", u.cluster.api+"/evalrun", run, nil)
			if err != nil || n%2 == 0 {
				return err
			}
			return u.call(ctx, "PUT", u.cluster.api+"/evalrun", object{"id": run["id"], "result": object{"n": n}}, nil)
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			return missingOf(acked, func(n int) (bool, error) {
				var run struct {
					Pending bool
					Result  struct{ N int }
				}
				err := u.call(ctx, "GET", fmt.Sprintf("%s/cli/eval-run/run-%d", u.cluster.api, n), nil, &run)
				return err == nil && (n%2 == 0 || !run.Pending && run.Result.N == n), ignoreMissing(err)
			})
		},
		inconsistent: func(ctx context.Context) error { _, err := u.list(ctx, "/cli/eval-run?limit=1000"); return err },
	}
}

// created is a resource as it is created.
type created struct {
	Created []struct {
		Name string
		Env  map[string]string
	}
}

// create creates a resource through one process, on which its files are if it is embedded.
func (u *tenant) create(kind, name string) map[string]string {
	u.t.Helper()
	var c created
	body := object{"resources": []object{{"type": kind, "name": name}}}
	u.must(u.call(context.Background(), "POST", u.cluster.nodes[0].URL+"/resource/"+u.orgID+"/local", body, &c))
	return c.Created[0].Env
}

// once returns the header of a request that takes effect once, however often it is sent.
func once(what string, n int) []string {
	return []string{"Idempotency-Key", fmt.Sprintf("%s-%d", what, n)}
}

// stores returns the key-value stores.
func (u *tenant) stores(ctx context.Context, path string) ([]entry, error) {
	var all struct{ KV []entry }
	err := u.call(ctx, "GET", u.cluster.api+path, nil, &all)
	return all.KV, err
}

// count returns how many entries have each name.
func count(list []entry) map[string]int {
	counts := map[string]int{}
	for _, entry := range list {
		counts[entry.Name]++
	}
	return counts
}

// listed is an area whose writes create entries of a list with a name, and take effect once.
func (u *tenant) listed(name, path string, list func(context.Context, string) ([]entry, error),
	write func(ctx context.Context, n int, name string) error,
) *area {
	nameOf := func(n int) string { return fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), n) }
	return &area{
		name: name,
		write: func(ctx context.Context, n int) error {
			err := write(ctx, n, nameOf(n))
			sleep(ctx, 5*pause) // some lists have one page, of a thousand entries
			return err
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			entries, err := list(ctx, path)
			if err != nil {
				return nil, err
			}
			counts := count(entries)
			return missingOf(acked, func(n int) (bool, error) { return counts[nameOf(n)] > 0, nil })
		},
		repeated: func(ctx context.Context) (extra int, err error) {
			entries, err := list(ctx, path)
			for name, n := range count(entries) {
				if n > 1 {
					u.t.Errorf("%s was created %d times", name, n)
					extra += n - 1
				}
			}
			return extra, err
		},
	}
}

func (u *tenant) projects() *area {
	return u.listed("projects", "/cli/project", u.list, func(ctx context.Context, n int, name string) error {
		return u.call(ctx, "POST", u.cluster.api+"/cli/project", object{"name": name}, nil, once("project", n)...)
	})
}

func (u *tenant) keys() *area {
	return u.listed("API keys", "/cli/apikey", u.list, func(ctx context.Context, n int, name string) error {
		return u.call(ctx, "POST", u.cluster.api+"/cli/apikey", object{"name": name}, nil, once("key", n)...)
	})
}

func (u *tenant) clients() *area {
	return u.listed("OAuth clients", "/oidc/clients", u.list, func(ctx context.Context, n int, name string) error {
		body := object{"name": name, "description": "d", "homepage_url": "https://example.com"}
		return u.call(ctx, "POST", u.cluster.api+"/oidc/clients", body, nil, once("client", n)...)
	})
}

// isReserved reports whether a name belongs to a creation that was interrupted and could not be undone, since
// the database was gone. A process that lives frees it after six minutes, so the client takes another name.
func isReserved(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == http.StatusConflict && strings.Contains(e.body, "is being created")
}

func (u *tenant) resources() *area {
	return u.listed("resources", "/resource?type=kv", u.stores, func(ctx context.Context, n int, name string) error {
		body := object{"resources": []object{{"type": "kv", "name": name}}}
		return u.call(ctx, "POST", u.cluster.api+"/resource/"+u.orgID+"/local", body, nil, once("resource", n)...)
	})
}

// database inserts rows into an embedded database.
func (u *tenant) database() *area {
	env := u.create("db", "rows")
	_, path, _ := strings.Cut(env["DATABASE_URL"], "/db/")
	url := u.cluster.nodes[0].URL + "/db/" + path + "v2/pipeline"
	execute := func(ctx context.Context, sql string) (rows [][]struct{ Value string }, err error) {
		body := object{"requests": []object{{"type": "execute", "stmt": object{"sql": sql}}, {"type": "close"}}}
		var answer struct {
			Results []struct {
				Type     string
				Error    json.RawMessage
				Response struct {
					Result struct{ Rows [][]struct{ Value string } }
				}
			}
		}
		if err := u.call(ctx, "POST", url, body, &answer, "Authorization", "Bearer "+env["DATABASE_AUTH_TOKEN"]); err != nil {
			return nil, err
		}
		if answer.Results[0].Type != "ok" {
			return nil, fmt.Errorf("%s: %s", sql, answer.Results[0].Error)
		}
		return answer.Results[0].Response.Result.Rows, nil
	}
	_, err := execute(context.Background(), "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	u.must(err)
	return &area{
		name: "databases", elsewhere: true,
		write: func(ctx context.Context, n int) error {
			_, err := execute(ctx, fmt.Sprintf("INSERT INTO t VALUES (%d) ON CONFLICT DO NOTHING", n))
			return err
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			rows, err := execute(ctx, "SELECT n FROM t")
			if err != nil {
				return nil, err
			}
			there := map[string]bool{}
			for _, row := range rows {
				there[row[0].Value] = true
			}
			return missingOf(acked, func(n int) (bool, error) { return there[fmt.Sprint(n)], nil })
		},
	}
}

// store sets keys of an embedded store.
func (u *tenant) store() *area {
	options, err := redis.ParseURL(u.create("kv", "fixed")["REDIS_URL"])
	u.must(err)
	options.MaxRetries = -1
	client := redis.NewClient(options)
	u.t.Cleanup(func() { _ = client.Close() })
	key := func(n int) string { return fmt.Sprintf("key-%d", n) }
	return &area{
		name: "stores", elsewhere: true,
		write: func(ctx context.Context, n int) error { return client.Set(ctx, key(n), n, 0).Err() },
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			return missingOf(acked, func(n int) (bool, error) {
				got, err := client.Get(ctx, key(n)).Int()
				if errors.Is(err, redis.Nil) {
					return false, nil
				}
				return got == n, err
			})
		},
	}
}
