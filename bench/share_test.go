//go:build bench

package bench

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
)

// beside measures how much longer the requests of one organization take while another one attacks, at
// the 99th percentile. victim measures for a while; attack begins the attack and returns how to end it.
func beside(t *testing.T, what string, victim func() result, attack func() (stop func())) {
	t.Helper()
	var ratios []float64
	var quiet, attacked result
	for range 5 {
		quiet = victim()
		stop := attack()
		attacked = victim()
		stop()
		ratios = append(ratios, float64(attacked.quantile(0.99))/float64(quiet.quantile(0.99)))
	}
	report(what, median(ratios), atMost(3), "%s of %s; median %s of %s", ms(attacked.quantile(0.99)), ms(quiet.quantile(0.99)),
		ms(attacked.quantile(0.5)), ms(quiet.quantile(0.5)))
}

// organization creates another organization and returns the installation with its key and id.
func (in *installation) organization(name string) *installation {
	in.t.Helper()
	process := *in.Steward
	process.Key = in.Organization(name)
	other := &installation{Steward: &process, server: in.server, t: in.t}
	var orgs []struct{ ID string }
	other.call("GET", "/cli/organization", nil, &orgs)
	other.orgID = orgs[0].ID
	return other
}

// connections are those of an attack.
type connections struct {
	sync.Mutex
	all []net.Conn
}

func (c *connections) add(conn net.Conn) {
	c.Lock()
	defer c.Unlock()
	c.all = append(c.all, conn)
}

func (c *connections) close() {
	c.Lock()
	defer c.Unlock()
	for _, conn := range c.all {
		conn.Close()
	}
}

// TestThreadsBesideStalledSockets has 40 sockets with a key that may only read and 40 with one that may
// write, which stall inside of frames of 4 MiB. Another organization saves threads of 500 KB.
func TestThreadsBesideStalledSockets(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		saves := socket(in.organization("victim").Key)
		data := map[string]any{"thread_id": "t", "user_data": `"` + strings.Repeat("x", 500_000) + `"`}
		text, err := json.Marshal(map[string]any{"id": "1", "action": "save", "data": data})
		in.Must(err)
		large := append(frameHead(len(text)), text...)
		var viewer struct{ Value string }
		in.call("POST", "/cli/apikey", map[string]any{"name": "viewer", "scopes": []string{"thread:read"}}, &viewer)
		part := append(frameHead(4<<20), strings.Repeat("x", 1<<20)...)
		attack := func() func() {
			var stalled connections
			for i := range 80 {
				key := []string{in.Key, viewer.Value}[i%2]
				conn, _, err := socket(key).dial(in.server.address)
				in.Must(err)
				stalled.add(conn)
				go func() { _, _ = conn.Write(part) }() // the server may close it
			}
			return stalled.close
		}
		victim := func() result { return saves.load(t, in.server, 2, span, always(large)) }
		victim() // warms up
		beside(t, database+": large saves beside 80 sockets that stall", victim, attack)
	})
}

// frameHead returns the head of a text frame of a size, with a mask of zeros.
func frameHead(size int) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, uint64(size)), 0, 0, 0, 0)
}

// TestLoginsBesideSilentConnections has 1,005 silent connections of one address to the Redis listener.
// From another address, a client of another organization connects, signs in, writes and leaves.
func TestLoginsBesideSilentConnections(t *testing.T) {
	in := install(t, "sqlite")
	other := in.organization("victim")
	var made struct {
		Created []struct{ URL, Username, Password string }
	}
	other.call("POST", "/resource/"+other.orgID+"/local", map[string]any{"resources": []any{map[string]any{"type": "kv", "name": "cache"}}}, &made)
	store := made.Created[0]
	u, err := url.Parse(store.URL)
	in.Must(err)
	password, _ := u.User.Password()
	command := fmt.Sprintf("AUTH %s %s\r\nSET k v\r\n", u.User.Username(), password)
	attack := func() func() {
		var silent connections
		for range 1005 {
			conn, err := net.Dial("tcp", u.Host)
			in.Must(err)
			silent.add(conn)
		}
		return silent.close
	}
	victim := func() result {
		return measure(t, in.server, 2, func(_ int, start time.Time) (times []time.Duration, err error) {
			for time.Since(start) < span {
				took, err := signIn(u.Host, command)
				if err != nil {
					return times, err
				}
				times = append(times, took)
			}
			return times, nil
		})
	}
	victim() // warms up
	beside(t, "kv: sign in and SET beside 1,005 silent connections", victim, attack)
}

// signIn connects from an address of its own, sends two commands, and returns how long that took.
func signIn(address, commands string) (time.Duration, error) {
	start := time.Now()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, commands); err != nil {
		return 0, err
	}
	in := bufio.NewReader(conn)
	for range 2 {
		line, err := in.ReadString('\n')
		if err != nil || line != "+OK\r\n" {
			return 0, fmt.Errorf("%q: %w", line, errors.Join(err))
		}
	}
	return time.Since(start), nil
}

// TestTailBesideBacklogs has 170 tails of one organization that read a log of 200 events of 50 KB again
// and again. Another one reads its log of 100 events of 10 KB.
func TestTailBesideBacklogs(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		other := in.organization("victim")
		in.events(200, 50_000)
		other.events(100, 10_000)
		attack := func() func() {
			var tails connections
			stop := make(chan struct{})
			var group sync.WaitGroup
			for range 170 {
				group.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							_, _ = in.readLog(&tails) // ends with its connection
						}
					}
				})
			}
			return func() {
				close(stop)
				tails.close()
				group.Wait()
			}
		}
		victim := func() result {
			return measure(t, in.server, 1, func(_ int, start time.Time) (times []time.Duration, err error) {
				for len(times) < 5 || time.Since(start) < span {
					took, err := other.readLog(&connections{})
					if err != nil {
						return times, err
					}
					times = append(times, took)
				}
				return times, nil
			})
		}
		victim() // warms up
		beside(t, database+": a log beside 170 backlog tails", victim, attack)
	})
}

// events sends events of a size to a new webhook.
func (in *installation) events(n, size int) {
	in.t.Helper()
	h := in.hook()
	body := []byte(`"` + strings.Repeat("x", size) + `"`)
	load(in.t, in.server, 4, time.Minute, always(request("POST", h.path, "", body)).first(n, 4))
}

// readLog reads all events of an organization, and returns how long that took.
func (in *installation) readLog(tails *connections) (time.Duration, error) {
	start := time.Now()
	conn, err := net.Dial("tcp", in.server.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	tails.add(conn)
	if _, err := conn.Write(request("GET", "/webhook/tail?since=2026-01-01T00:00:00Z&follow=false", in.Key, nil)); err != nil {
		return 0, err
	}
	lines := bufio.NewReaderSize(conn, 64<<10)
	status, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(status, " 200 ") {
		return 0, fmt.Errorf("status %q: %w", status, err)
	}
	for { // the end of a chunked body
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
		if string(line) == "0\r\n" {
			return time.Since(start), nil
		}
	}
}
