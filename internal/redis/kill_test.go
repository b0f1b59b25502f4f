package redis

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"steward/internal/waittest"
)

// killedDir is the variable that makes TestServeUntilKilled serve the store of a directory.
const killedDir = "REDIS_KILLED_DIR"

// TestServeUntilKilled is the process that TestKill kills.
func TestServeUntilKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("it is run by TestKill")
	}
	s := newStore(Dir(dir), Options{})
	s.minRewrite = 64 << 10
	s.rewriteStep = 1 << 10
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	go s.loop()
	fmt.Println(serve(t, s))
	<-s.ended
}

// killable is a process that serves a store.
type killable struct {
	cmd  *exec.Cmd
	addr string
}

func startKillable(t *testing.T, dir string) *killable {
	t.Helper()
	p := &killable{cmd: exec.Command(os.Args[0], "-test.run=^TestServeUntilKilled$")}
	p.cmd.Env = append(os.Environ(), killedDir+"="+dir)
	p.cmd.Stderr = t.Output()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.addr = strings.TrimSpace(line)
	return p
}

func (p *killable) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// TestKill kills a process while clients run transactions, and checks that no transaction that was
// acknowledged is lost, and none is there in part.
func TestKill(t *testing.T) {
	const clients = 8
	dir := t.TempDir()
	acked := make([]int64, clients)
	for round := range 4 {
		p := startKillable(t, dir)
		checkTransactions(t, dial(t, p.addr), acked)
		var wait sync.WaitGroup
		var total atomic.Int64
		enough := make(chan struct{}, 1)
		for i := range clients {
			conn, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			wait.Go(func() {
				in := bufio.NewReader(conn)
				for runTransaction(t, conn, in, i, acked[i]+1) == nil {
					acked[i]++
					if total.Add(1) == int64(300*(round+1)) {
						enough <- struct{}{}
					}
				}
			})
		}
		waittest.Receive(t, "transactions", enough)
		p.kill()
		wait.Wait()
	}
	p := startKillable(t, dir)
	checkTransactions(t, dial(t, p.addr), acked)
}

// runTransaction runs the transaction of a client that makes its three keys n.
func runTransaction(t *testing.T, conn net.Conn, in *bufio.Reader, client int, n int64) error {
	value := strconv.FormatInt(n, 10)
	keys := []string{fmt.Sprint("count", client), fmt.Sprint("value", client), fmt.Sprint("list", client)}
	requests := [][]string{
		{"MULTI"}, {"INCR", keys[0]}, {"SET", keys[1], value + strings.Repeat(".", 100)}, {"RPUSH", keys[2], value}, {"EXEC"},
	}
	var b reply
	for _, args := range requests {
		b.array(len(args))
		for _, arg := range args {
			b.bulk(arg)
		}
	}
	if _, err := conn.Write(b.b); err != nil {
		return err
	}
	var last any
	for range requests {
		var err error
		if last, err = readReply(in); err != nil {
			return err
		}
	}
	if want := []any{n, simple("OK"), n}; !reflect.DeepEqual(last, want) {
		t.Errorf("%v, want %v", last, want)
	}
	return nil
}

// checkTransactions checks the keys of all clients, and that their count is what was acknowledged or one
// more, and sets that.
func checkTransactions(t *testing.T, w *wire, acked []int64) {
	t.Helper()
	for i := range acked {
		replies := w.pipeline(t, [][]string{
			{"GET", fmt.Sprint("count", i)}, {"GET", fmt.Sprint("value", i)}, {"LLEN", fmt.Sprint("list", i)},
		})
		count, _ := replies[0].(string)
		value, _ := replies[1].(string)
		n, ok := replies[2].(int64)
		if !ok || n > 0 && (count != formatInt(n) || strings.TrimRight(value, ".") != count) {
			t.Errorf("client %d: a transaction is there in part: %q", i, replies)
		}
		if n < acked[i] || n > acked[i]+1 {
			t.Errorf("client %d: %d was acknowledged, %d is stored", i, acked[i], n)
		}
		acked[i] = n
	}
}
