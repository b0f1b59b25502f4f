//go:build bench

package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestThreadSaves measures saves over the runtime's sockets, with a key of one project: one save at a
// time on each socket, and many.
func TestThreadSaves(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, dialect db.Dialect) {
		in, d := install(t, database), dbtest.Open(t, dialect)
		saves := socket(in.projectKey("p1"))
		bareTables(t, d)
		metadata := map[string]any{"user": "ada", "channel": "web", "plan": "pro"}
		round := 0
		for _, kind := range []struct {
			name string
			same func(tx *db.Tx, writer, i int) error
			next source
		}{
			{"save of new threads", newRows, func(conn, i int) []byte {
				return save(fmt.Sprintf("new_%d_%d_%d", round, conn, i), i, nil)
			}},
			{"save again", changedRows, func(conn, i int) []byte {
				return save(fmt.Sprintf("plain_%d_%d", conn, i%again), i, nil)
			}},
			{"save again with metadata of 3 keys", changedRows, func(conn, i int) []byte {
				return save(fmt.Sprintf("meta_%d_%d", conn, i%again), i, metadata)
			}},
		} {
			compareWrites(t, kind.name, ref, d, kind.same, func() result {
				round++
				return saves.load(t, in.server, clients, time.Second, kind.next)
			})
			compareWrites(t, fmt.Sprintf("%s, %d at once on each socket", kind.name, atOnce), ref, d, kind.same, func() result {
				round++
				return saves.stream(t, in.server, time.Second, kind.next)
			})
		}
	})
}

const (
	// atOnce is the number of saves that a socket has in flight.
	atOnce = 16
	// again is the number of threads that a socket saves again and again.
	again = 2 * atOnce
)

// stream sends requests over the clients' connections for a time, with atOnce in flight on each.
func (p protocol) stream(t *testing.T, s server, duration time.Duration, next source) result {
	t.Helper()
	return measure(t, s, clients, func(c int, start time.Time) ([]time.Duration, error) {
		return p.window(s.address, start.Add(duration), func(i int) []byte { return next(c, i) })
	})
}

// window keeps atOnce requests in flight on one connection: it reads the replies that have come, and
// sends as many requests. Replies come in any order; the nth time is from the nth request to the nth
// reply.
func (p protocol) window(address string, until time.Time, next func(i int) []byte) (times []time.Duration, err error) {
	conn, in, err := p.dial(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var sent []time.Time
	var out []byte
	for {
		out = out[:0]
		for now := time.Now(); now.Before(until) && len(sent)-len(times) < atOnce; {
			out = append(out, next(len(sent))...)
			sent = append(sent, now)
		}
		if len(sent) == len(times) {
			return times, nil
		}
		if _, err := conn.Write(out); err != nil {
			return times, err
		}
		for n := 0; n == 0 || in.Buffered() > 0; n++ {
			if err := p.read(in); err != nil {
				return times, err
			}
			times = append(times, time.Since(sent[len(times)]))
		}
	}
}

// bareTables creates the tables that newRows and changedRows write to, with ten rows for each writer.
func bareTables(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		if err := execAll(tx,
			`CREATE TABLE bench_threads (id TEXT PRIMARY KEY, updated_at BIGINT NOT NULL, body TEXT NOT NULL)`,
			`CREATE TABLE bench_index (id TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (id, at))`,
			`CREATE TABLE bench_counts (writer BIGINT PRIMARY KEY, n BIGINT NOT NULL)`); err != nil {
			return err
		}
		for n := range clients * 10 {
			key := fmt.Sprintf("thread_%d_%d", n%clients, n/clients)
			if err := insertThread(tx, key, 1); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO bench_index (id, at) VALUES ($1, 1)`, key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bareBody is as long as the row of a thread without its keys: the sealed state and the hashes.
var bareBody = strings.Repeat("x", 350)

func insertThread(tx *db.Tx, id string, at int) error {
	_, err := tx.Exec(`INSERT INTO bench_threads (id, updated_at, body) VALUES ($1, $2, $3)`, id, at, bareBody)
	return err
}

// newRows writes what a new thread needs: two look-ups, a row, a row in each of two indexes, a count.
func newRows(tx *db.Tx, writer, i int) error {
	id := fmt.Sprintf("new_%d_%d", writer, rows.Add(1))
	for range 2 {
		err := tx.Row(`SELECT body FROM bench_threads WHERE id = $1`, id).Scan(new(string))
		if !errors.Is(err, db.ErrNoRows) {
			return fmt.Errorf("found: %w", err)
		}
	}
	if err := insertThread(tx, id, i); err != nil {
		return err
	}
	for n := range 2 {
		if err := tx.Send(`INSERT INTO bench_index (id, at) VALUES ($1, $2)`, id, n); err != nil {
			return err
		}
	}
	return count(tx, writer)
}

// count increments the writer's own counter.
func count(tx *db.Tx, writer int) error {
	return tx.Send(`INSERT INTO bench_counts (writer, n) VALUES ($1, 1)
		ON CONFLICT (writer) DO UPDATE SET n = bench_counts.n + 1`, writer)
}

// changedRows writes what a change needs: the row is locked and changed, and its row in an index moves.
func changedRows(tx *db.Tx, writer, i int) error {
	id := fmt.Sprintf("thread_%d_%d", writer, i%10)
	suffix := ""
	if tx.Dialect() == db.Postgres {
		suffix = " FOR UPDATE"
	}
	var at int64
	if err := tx.Row(`SELECT updated_at FROM bench_threads WHERE id = $1`+suffix, id).Scan(&at); err != nil {
		return err
	}
	if err := tx.Send(`UPDATE bench_threads SET updated_at = $2, body = $3 WHERE id = $1`, id, at+1, bareBody); err != nil {
		return err
	}
	return tx.Send(`UPDATE bench_index SET at = $3 WHERE id = $1 AND at = $2`, id, at, at+1)
}

// socket returns the protocol of the runtime's WebSocket: an upgrade, the key, a frame for each action.
func socket(key string) protocol {
	return protocol{
		open: func(conn net.Conn, in *bufio.Reader) error {
			const upgrade = "GET /thread/ws HTTP/1.1\r\nHost: steward\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rld2FyZCBiZW5jaG1hcg==\r\n\r\n"
			if _, err := io.WriteString(conn, upgrade); err != nil {
				return err
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				return err
			}
			if res.StatusCode != http.StatusSwitchingProtocols {
				return fmt.Errorf("no upgrade: %s", res.Status)
			}
			if _, err := conn.Write(frame(map[string]any{"authorization": key})); err != nil {
				return err
			}
			return readFrame(in)
		},
		read: readFrame,
	}
}

// save returns a frame that saves a thread.
func save(threadID string, id int, metadata map[string]any) []byte {
	data := map[string]any{"thread_id": threadID, "user_data": userData}
	if metadata != nil {
		data["metadata"] = metadata
	}
	return frame(map[string]any{"id": strconv.Itoa(id), "action": "save", "data": data})
}

// frame returns a text frame of less than 64 KiB. Its mask, which clients must send, is zero.
func frame(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	out := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text)))
	return append(append(out, 0, 0, 0, 0), text...)
}

// readFrame reads a reply of at most 125 bytes. The load ends before the server's first ping.
func readFrame(in *bufio.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	text := make([]byte, head[1])
	if _, err := io.ReadFull(in, text); err != nil {
		return err
	}
	if head[0] != 0x81 || head[1] > 125 || !bytes.Contains(text, []byte(`"success":true`)) {
		return fmt.Errorf("not a success: %x %s", head, text)
	}
	return nil
}
