package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/redis/go-redis/v9"
)

// areas returns the areas of an organization. What must exist before the first write is created here.
func (u *tenant) areas() []*area {
	return []*area{
		u.webhooks(), u.threads(), u.runs(), u.objects(), u.keys(), u.clients(), u.resources(), u.database(), u.store(),
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

// webhooks sends events to a webhook whose destination counts them by receipt.
func (u *tenant) webhooks() *area {
	var mu sync.Mutex
	arrived := map[string]int{} // by receipt
	receipts := map[int]string{}
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the sender was killed
		}
		mu.Lock()
		defer mu.Unlock()
		arrived[r.Header.Get("Webhook-Id")]++
	}))
	u.t.Cleanup(sink.Close)
	u.t.Cleanup(sink.CloseClientConnections)
	ctx := context.Background()
	var hook struct{ ID, URL string }
	u.must(u.call(ctx, "POST", u.cluster.api+"/webhook/create", object{"name": "orders"}, &hook))
	u.must(u.call(ctx, "POST", u.cluster.api+"/webhook/destination-create/"+hook.ID,
		object{"type": "url", "config": object{"url": sink.URL}}, nil))
	return &area{
		name: "webhooks", once: true,
		write: func(ctx context.Context, n int) error {
			var receipt struct{ ID string }
			err := u.call(ctx, "POST", hook.URL, object{"n": n}, &receipt)
			mu.Lock()
			defer mu.Unlock()
			receipts[n] = receipt.ID
			return err
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			return missingOf(acked, func(n int) (bool, error) {
				mu.Lock()
				id := receipts[n]
				delivered := arrived[id] > 0
				mu.Unlock()
				var receipt struct{ Payload struct{ N int } }
				err := u.call(ctx, "GET", u.cluster.api+"/webhook/receipt-get/"+hook.ID+"/"+id, nil, &receipt)
				return delivered && receipt.Payload.N == n, ignoreMissing(err)
			})
		},
		repeated: func(context.Context) (extra int, err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, n := range arrived {
				extra += n - 1
			}
			return extra, nil
		},
	}
}

// ignoreMissing returns nil for 404, which is an answer.
func ignoreMissing(err error) error {
	var e *statusError
	if errors.As(err, &e) && e.status == http.StatusNotFound {
		return nil
	}
	return err
}

// threads saves 20 threads in turn. A save replaces the one before it.
func (u *tenant) threads() *area {
	path := func(n int) string { return fmt.Sprintf("%s/thread/thread-%d", u.cluster.api, n%20) }
	return &area{
		name: "threads",
		write: func(ctx context.Context, n int) error {
			return u.call(ctx, "PUT", path(n), object{"project_id": "prj", "metadata": object{"n": n}, "user_data": "{}"}, nil)
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			return missingOf(acked, func(n int) (bool, error) {
				var thread struct{ Metadata struct{ N int } }
				err := u.call(ctx, "GET", path(n), nil, &thread)
				return err == nil && thread.Metadata.N >= n, ignoreMissing(err)
			})
		},
	}
}

// runs starts and completes evaluation runs.
func (u *tenant) runs() *area {
	return &area{
		name: "runs",
		write: func(ctx context.Context, n int) error {
			run := object{
				"id": fmt.Sprintf("run-%d", n), "sessionId": "s", "evalId": "e", "evalIdentifier": "e", "orgId": u.orgID,
				"projectId": "prj", "devmode": false,
			}
			if err := u.call(ctx, "POST", u.cluster.api+"/evalrun", run, nil); err != nil {
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
				return err == nil && !run.Pending && run.Result.N == n, ignoreMissing(err)
			})
		},
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

// objects stores objects in a bucket.
func (u *tenant) objects() *area {
	name := strings.ToLower(strings.ReplaceAll(u.orgID, "_", "-"))
	env := u.create("s3", name)
	client, err := minio.New(strings.TrimPrefix(u.cluster.s3, "http://"), &minio.Options{
		Creds:  credentials.NewStaticV4(env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"], ""),
		Region: env["S3_REGION"], MaxRetries: 1,
	})
	u.must(err)
	key := func(n int) string { return fmt.Sprintf("object-%d", n) }
	return &area{
		name: "objects",
		write: func(ctx context.Context, n int) error {
			text := strings.Repeat(key(n), 100)
			_, err := client.PutObject(ctx, name, key(n), strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
			return err
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			return missingOf(acked, func(n int) (bool, error) {
				object, err := client.GetObject(ctx, name, key(n), minio.GetObjectOptions{})
				if err != nil {
					return false, err
				}
				defer func() { _ = object.Close() }()
				text, err := io.ReadAll(object)
				if minio.ToErrorResponse(err).Code == "NoSuchKey" {
					return false, nil
				}
				return string(text) == strings.Repeat(key(n), 100), err
			})
		},
	}
}

// once returns the header of a request that takes effect once, however often it is sent.
func once(what string, n int) []string {
	return []string{"Idempotency-Key", fmt.Sprintf("%s-%d", what, n)}
}

// named is an entry of a list.
type named struct{ Name string }

// list returns the entries of a list.
func (u *tenant) list(ctx context.Context, path string) (list []named, err error) {
	err = u.call(ctx, "GET", u.cluster.api+path, nil, &list)
	return list, err
}

// stores returns the key-value stores.
func (u *tenant) stores(ctx context.Context, path string) ([]named, error) {
	var all struct{ KV []named }
	err := u.call(ctx, "GET", u.cluster.api+path, nil, &all)
	return all.KV, err
}

// count returns how many entries have each name.
func count(list []named) map[string]int {
	counts := map[string]int{}
	for _, entry := range list {
		counts[entry.Name]++
	}
	return counts
}

// listed is an area whose writes create entries of a list with a name, and take effect once.
func (u *tenant) listed(name, path string, list func(context.Context, string) ([]named, error),
	write func(ctx context.Context, n int, name string) error,
) *area {
	entry := func(n int) string { return fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), n) }
	return &area{
		name: name,
		write: func(ctx context.Context, n int) error {
			err := write(ctx, n, entry(n))
			sleep(ctx, 10*pause) // lists have a thousand entries at most
			return err
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			entries, err := list(ctx, path)
			if err != nil {
				return nil, err
			}
			counts := count(entries)
			return missingOf(acked, func(n int) (bool, error) { return counts[entry(n)] > 0, nil })
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

func (u *tenant) resources() *area {
	return u.listed("resources", "/resource?type=kv", u.stores, func(ctx context.Context, n int, name string) error {
		body := object{"resources": []object{{"type": "kv", "name": name}}}
		err := u.call(ctx, "POST", u.cluster.api+"/resource/"+u.orgID+"/local", body, nil, once("resource", n)...)
		sleep(ctx, 10*pause) // a store is a file
		return err
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
