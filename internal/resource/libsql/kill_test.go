package libsql_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"steward/internal/resource"
	"steward/internal/resource/libsql"
)

// killVariable has TestWritersUntilKilled write to a database until its process is killed.
const killVariable = "STEWARD_LIBSQL_KILL"

// killOrder is what such a process writes to.
type killOrder struct {
	Dir string
	Row *resource.Provisioned
}

// acknowledged begins the lines of such a process about rows that it was told are stored.
const acknowledged = "acknowledged "

// TestWritersUntilKilled is the process that is killed. Without an order it does nothing.
func TestWritersUntilKilled(t *testing.T) {
	order := os.Getenv(killVariable)
	if order == "" {
		return
	}
	var o killOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		t.Fatal(err)
	}
	d := &database{server: startIn(t, o.Dir, libsql.Limits{}, o.Row), t: t, p: o.Row, token: o.Row.Password}
	var group sync.WaitGroup
	for writer := range 16 {
		group.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d", writer, i)
				out, err := d.send(t.Context(), "v3/pipeline", object{"requests": []object{execute("INSERT INTO t VALUES (?)", text(key)), {"type": "close"}}})
				if err != nil || len(out.Results) != 2 || out.Results[0].Type != "ok" {
					t.Errorf("%v: %+v", err, out)
					return
				}
				fmt.Println(acknowledged + key)
			}
		})
	}
	group.Wait()
}

// TestKilledProcessKeepsAcknowledgedRows kills a process while 16 clients insert single rows.
func TestKilledProcessKeepsAcknowledgedRows(t *testing.T) {
	s := start(t, libsql.Limits{})
	d := s.create()
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	s.must(s.Close(t.Context()))
	order, err := json.Marshal(killOrder{Dir: s.Dir, Row: d.p})
	s.must(err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestWritersUntilKilled$")
	cmd.Env = append(os.Environ(), killVariable+"="+string(order))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	var keys []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		key, ok := strings.CutPrefix(lines.Text(), acknowledged)
		if !ok {
			t.Error(lines.Text())
			continue
		}
		keys = append(keys, key)
		if len(keys) == 300 {
			s.must(cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // it was killed
	again := &database{server: startIn(t, s.Dir, libsql.Limits{}, d.p), t: t, p: d.p, token: d.token}
	stored := map[any]bool{}
	for _, row := range again.exec("SELECT k FROM t").Rows {
		stored[row[0]["value"]] = true
	}
	for _, key := range keys {
		if !stored[key] {
			t.Errorf("%s was acknowledged and is not stored", key)
		}
	}
	if len(keys) < 300 {
		t.Errorf("only %d rows were acknowledged", len(keys))
	}
}
