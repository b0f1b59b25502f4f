//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/porttest"
)

var pauseText = regexp.MustCompile(`Nothing was written for (\S+)\.`)

// TestMigrate moves BENCH_ROWS receipts and BENCH_OBJECTS objects to PostgreSQL and back while events
// arrive, and reports the pause. Every event that was acknowledged must be there afterwards.
func TestMigrate(t *testing.T) {
	rows, objects := rowCount(t), envInt(t, "BENCH_OBJECTS", 100_000)
	in := install(t, "sqlite")
	in.Args = append(in.Args, "--listen", porttest.Address(porttest.Free(t)))
	b := in.bucket()
	body := backupText(0, 512<<10)
	in.fill(rows, func(tx *db.Tx, from, to int) error { return insertReceipts(tx, body, from, to) })
	in.fill(objects, func(tx *db.Tx, from, to int) error { return insertObjects(tx, b.Name, from, to, objects) })
	traffic := startTraffic(in)
	target := dbtest.NewServer(t, "fsync=on", "full_page_writes=on").URL
	for _, to := range []string{target, "sqlite:" + in.Dir} {
		began := time.Now()
		out, err := in.Command("migrate", "--to", to).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		took := time.Since(began)
		pause, err := time.ParseDuration(pauseText.FindStringSubmatch(string(out))[1])
		in.Must(err)
		in.restart(func() {
			in.Database = to
			if strings.HasPrefix(to, "sqlite:") {
				in.Database = ""
			}
		})
		report("migrate to "+in.engine()+", pause in s", pause.Seconds(), atMost(5), "%d receipts, %d objects, %.0f s in all", rows, objects, took.Seconds())
	}
	traffic.check(in)
}

// traffic are clients that send events.
type traffic struct {
	hook hook
	stop chan struct{}
	all  sync.WaitGroup

	mu    sync.Mutex
	acked []string
}

// startTraffic has four clients send events to a webhook.
func startTraffic(in *installation) *traffic {
	in.t.Helper()
	f := &traffic{hook: in.hook(), stop: make(chan struct{})}
	address := in.URL + f.hook.path
	for range 4 {
		f.all.Go(func() {
			for {
				select {
				case <-f.stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				f.send(address)
			}
		})
	}
	return f
}

func (f *traffic) send(address string) {
	res, err := http.Post(address, "application/json", strings.NewReader(`{"a": 1}`))
	if err != nil {
		return // it is being started again
	}
	defer res.Body.Close()
	var receipt struct{ ID string }
	if json.NewDecoder(res.Body).Decode(&receipt) != nil || res.StatusCode != http.StatusOK {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked = append(f.acked, receipt.ID)
}

// check stops the clients, and reads every event that was acknowledged.
func (f *traffic) check(in *installation) {
	in.t.Helper()
	close(f.stop)
	f.all.Wait()
	for _, id := range f.acked {
		var receipt struct{ ID string }
		in.call("GET", "/webhook/receipt-get/"+f.hook.id+"/"+id, nil, &receipt)
	}
	fmt.Printf("%d events were acknowledged meanwhile and are there\n", len(f.acked))
}
