//go:build bench

package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// patterns are how many users there are: each has one thread that was made through the API, which is then copied. Project, channel and
// user follow from a thread's number, so that each user is in one project and one channel; a channel is shared by half of the threads.
const patterns = 200

// TestThreadLists measures the page of ten that GET /thread gives, with each filter and the common pairs.
func TestThreadLists(t *testing.T) {
	rows, ref := rowCount(t), startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		in.makePatterns()
		in.fill(rows, func(tx *db.Tx, from, to int) error { return copyPatterns(tx, from, to, rows) })
		meta := func(text string) string { return "metadata=" + url.QueryEscape(text) }
		mail, user, rare := meta(`{"channel":"mail"}`), `metadata={"user":"u{n}"}`, meta(`{"ticket":"rare"}`)
		in.lists(ref, "/thread", []list{
			{"no filter", "", 0, 10},
			{"no filter, pages of 100", "limit=100", 0, 100},
			{"no filter, pages of 1000", "limit=1000", 0, 1000},
			{"in the middle, by cursor", "cursor=" + in.middle("/thread", rows/2), 0, 10},
			{"oldest first", "direction=asc", 0, 10},
			{"by change", "sort=updated", 0, 10},
			{"by change, oldest first", "sort=updated&direction=asc", 0, 10},
			{"organization", "orgId=" + in.orgID, 0, 10},
			{"project", "projectId=p{n}", 10, 10},
			{"project, by change", "projectId=p{n}&sort=updated", 10, 10},
			{"metadata of half", mail, 0, 10},
			{"metadata of half, by change", mail + "&sort=updated", 0, 10},
			{"metadata of half, oldest first", mail + "&direction=asc", 0, 10},
			{"metadata of 1 in 200", user, patterns, 10},
			{"metadata of 11 threads", rare, 0, 10},
			{"metadata of none", meta(`{"channel":"none"}`), 0, 0},
			{"project, metadata of half", "projectId=p{n}&" + mail, 10, 10},
			{"project, metadata of half, by change", "projectId=p{n}&sort=updated&" + mail, 10, 10},
			{"project, metadata of 1 in 200", "projectId=p3&" + meta(`{"user":"u13"}`), 0, 10},
			{"another project, metadata of 1 in 200", "projectId=p4&" + meta(`{"user":"u13"}`), 0, 0},
			{"metadata of half and of 1 in 200", meta(`{"channel":"mail","user":"u13"}`), 0, 10},
			{"metadata of half and of 11", meta(`{"channel":"mail","ticket":"rare"}`), 0, 10},
			{"metadata of half and of 1 in 200 that never meet", meta(`{"channel":"web","user":"u13"}`), 0, 0},
			{"deleted ones", "deleted=true", 0, 0},
		})
	})
}

// makePatterns makes the threads to copy. What the API writes is copied, so that nothing of it need be known here.
func (in *installation) makePatterns() {
	put := func(id, project string, metadata map[string]any) {
		var made struct{ ID string }
		in.call("PUT", "/thread/pattern_"+id, map[string]any{"project_id": project, "user_data": userData, "metadata": metadata}, &made)
	}
	for k := range patterns {
		channel := []string{"web", "mail"}[k/10%2]
		put(fmt.Sprint(k), fmt.Sprintf("p%d", k%10), map[string]any{"channel": channel, "user": fmt.Sprintf("u%d", k)})
	}
	put("rare", "p0", map[string]any{"channel": "mail", "ticket": "rare"})
}

// userData is the state of a thread, of 300 bytes as the rows of the foundation's figure.
var userData = `{"state":{"text":"` + strings.Repeat("x", 280) + `"}}`

const (
	// copies are the numbers $2 to $3 with the pattern of each; ten in all are rare, one in $4.
	copies = `WITH RECURSIVE seq (i) AS (SELECT CAST($2 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i + 1 < CAST($3 AS BIGINT)),
		copies (i, pattern, created, updated) AS (SELECT i,
			CASE i % CAST($4 AS BIGINT) WHEN 7 THEN 'pattern_rare' ELSE 'pattern_' || CAST(i % 200 AS TEXT) END,
			CAST($1 AS BIGINT) + i * 100, CAST($1 AS BIGINT) + 3600000000 + i * 7919 % 1000003 FROM seq) `
	copyID      = `'thrd_' || CAST(100000000 + c.i AS TEXT)`
	copyThreads = `INSERT INTO threads (org_id, id, project_id, created_at, updated_at, deleted, version, facets, user_data_size, metadata,
		user_data) ` + copies + `SELECT t.org_id, ` + copyID + `, t.project_id, c.created, c.updated, t.deleted, 1, t.facets, t.user_data_size,
		t.metadata, t.user_data FROM copies c JOIN threads t ON t.org_id = (SELECT org_id FROM bench_patterns LIMIT 1) AND t.id = c.pattern`
	// A place is that of the pattern with another time, which each database has its own way to write: {place}.
	copyFacets = `INSERT INTO thread_facets (org_id, place, thread_id, mates) ` + copies +
		`SELECT p.org_id, {place}, ` + copyID + `, p.mates FROM copies c JOIN bench_patterns p ON p.thread_id = c.pattern ORDER BY 1, 2, 3`
	copyChanges = `INSERT INTO thread_changes (org_id, place, thread_id, mates) ` + copies +
		`SELECT p.org_id, {place}, ` + copyID + `, p.mates FROM copies c JOIN bench_patterns p ON p.thread_id = c.pattern ORDER BY 1, 2, 3`
	// Counts have slots; the copies take one that nobody else has.
	copyCounts = `INSERT INTO thread_counts (org_id, project_id, what, slot, n)
		SELECT org_id, project_id, 'thread', 1000, count(*) FROM threads WHERE id >= 'thrd_' GROUP BY org_id, project_id
		UNION ALL SELECT org_id, '', 'thread', 1000, count(*) FROM threads WHERE id >= 'thrd_' GROUP BY org_id`
	copySizes = `INSERT INTO thread_sizes (org_id, facet, deleted, slot, n)
		SELECT org_id, substr(place, 1, 16), false, 1000, count(*) FROM thread_facets WHERE thread_id >= 'thrd_'
		GROUP BY org_id, substr(place, 1, 16)`
)

// copyPatterns writes threads as if a day ago.
func copyPatterns(tx *db.Tx, from, to, rows int) error {
	yesterday := time.Now().Add(-24 * time.Hour).Truncate(24 * time.Hour).UnixMicro()
	if from == 0 {
		if err := execAll(tx, `CREATE TABLE bench_patterns AS SELECT org_id, substr(place, 1, 17) AS facet, thread_id, mates FROM thread_facets`,
			`CREATE INDEX bench_patterns_id ON bench_patterns (thread_id)`); err != nil {
			return err
		}
	}
	place := "CAST(p.facet || unhex(printf('%%016x', c.%s)) AS BLOB)"
	if tx.Dialect() == db.Postgres {
		place = "p.facet || int8send(c.%s)"
	}
	facets := strings.ReplaceAll(copyFacets, "{place}", fmt.Sprintf(place, "created"))
	changes := strings.ReplaceAll(copyChanges, "{place}", fmt.Sprintf(place, "updated"))
	for _, text := range []string{copyThreads, facets, changes} {
		if _, err := tx.Exec(text, yesterday, from, to, max(10, rows/10)); err != nil {
			return err
		}
	}
	if to < rows {
		return nil
	}
	return execAll(tx, copyCounts, copySizes, `DROP TABLE bench_patterns`)
}

func execAll(tx *db.Tx, texts ...string) error {
	for _, text := range texts {
		if _, err := tx.Exec(text); err != nil {
			return err
		}
	}
	return nil
}

// TestThreadSaves measures saves over the runtime's sockets, with a key of one project, as runtimes have: each socket with one save at a
// time, and with as many as a runtime that serves requests at once has.
func TestThreadSaves(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, dialect db.Dialect) {
		in, d := install(t, database), dbtest.Open(t, dialect)
		speak := socket(in.projectKey("p1"))
		bareTables(t, d)
		metadata, round := map[string]any{"user": "ada", "channel": "web", "plan": "pro"}, 0
		for _, kind := range []struct {
			name string
			same func(tx *db.Tx, writer, i int) error
			next func(conn, i int) []byte
		}{
			{"save of new threads", newRows, func(conn, i int) []byte { return save(fmt.Sprintf("new_%d_%d_%d", round, conn, i), i, nil) }},
			{"save again", changedRows, func(conn, i int) []byte { return save(fmt.Sprintf("plain_%d_%d", conn, i%again), i, nil) }},
			{"save again with metadata of 3 keys", changedRows, func(conn, i int) []byte {
				return save(fmt.Sprintf("meta_%d_%d", conn, i%again), i, metadata)
			}},
		} {
			durable(t, kind.name, ref, d, kind.same, func() result {
				round++
				return loadBy(t, speak, in.server, clients, time.Second, kind.next)
			})
			durable(t, fmt.Sprintf("%s, %d at once on each socket", kind.name, atOnce), ref, d, kind.same, func() result {
				round++
				return speak.stream(t, in.server, time.Second, kind.next)
			})
		}
	})
}

const (
	// atOnce is how many saves of a socket are under way.
	atOnce = 16
	// again is how many threads a socket saves again and again.
	again = 2 * atOnce
)

// stream sends requests over the clients' connections, on each of which atOnce are under way, for a while.
func (p protocol) stream(t *testing.T, s server, lasts time.Duration, next func(conn, i int) []byte) result {
	t.Helper()
	all := make([][]time.Duration, clients)
	var loads sync.WaitGroup
	before, start := process.CPUTime(t, s.pid), time.Now()
	for c := range clients {
		loads.Go(func() {
			var err error
			if all[c], err = p.window(s.address, start.Add(lasts), func(i int) []byte { return next(c, i) }); err != nil {
				t.Errorf("client %d: %v", c, err)
			}
		})
	}
	loads.Wait()
	took, used := time.Since(start), process.CPUTime(t, s.pid)-before
	times := slices.Concat(all...)
	slices.Sort(times)
	count := float64(max(1, len(times)))
	return result{rate: count / took.Seconds(), cpu: used.Seconds() * 1000 / count, times: times}
}

// window keeps atOnce requests under way on one connection: it takes the answers that are there, and sends as many requests in their stead.
// Answers come in any order; a time is that from a request to the answer that took its place.
func (p protocol) window(address string, until time.Time, next func(i int) []byte) (times []time.Duration, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16<<10)
	if err := p.open(conn, in); err != nil {
		return nil, err
	}
	var sent []time.Time
	var out []byte
	for {
		out = out[:0]
		for now := time.Now(); now.Before(until) && len(sent)-len(times) < atOnce; {
			out, sent = append(out, next(len(sent))...), append(sent, now)
		}
		if len(sent) == len(times) {
			return times, nil
		}
		if _, err := conn.Write(out); err != nil {
			return times, err
		}
		for answered := 0; answered == 0 || in.Buffered() > 0; answered++ {
			if err := p.answer(in); err != nil {
				return times, err
			}
			times = append(times, time.Since(sent[len(times)]))
		}
	}
}

// projectKey makes a key that is confined to a project.
func (in *installation) projectKey(projectID string) string {
	var project struct{ ID string }
	in.call("PUT", "/thread/first", map[string]any{"project_id": projectID}, &project) // names the project, which makes it
	var made struct{ ID, Value string }
	in.call("POST", "/cli/apikey", map[string]any{
		"name": "bench", "projectId": projectID, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}, &made)
	return made.Value
}

// bareTables have the rows that newRows and changedRows write: 64 writers have ten each.
func bareTables(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		if err := execAll(tx, `CREATE TABLE bench_threads (id TEXT PRIMARY KEY, updated_at BIGINT NOT NULL, body TEXT NOT NULL)`,
			`CREATE TABLE bench_facets (id TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (id, at))`,
			`CREATE TABLE bench_counts (slot BIGINT PRIMARY KEY, n BIGINT NOT NULL)`); err != nil {
			return err
		}
		for n := range clients * 10 {
			key := fmt.Sprintf("thread_%d_%d", n%clients, n/clients)
			_, err := tx.Exec(`INSERT INTO bench_threads (id, updated_at, body) VALUES ($1, 1, $2)`, key, bareBody)
			if err == nil {
				_, err = tx.Exec(`INSERT INTO bench_facets (id, at) VALUES ($1, 1)`, key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bareBody is as long as what a thread's row has beside its keys: the sealed state and the hashes.
var bareBody = strings.Repeat("x", 350)

// newRows is what a new thread takes: two look-ups, a row, a line in each of two indexes, a count.
func newRows(tx *db.Tx, writer, i int) error {
	id := fmt.Sprintf("new_%d_%d", writer, rows.Add(1))
	for range 2 {
		if err := tx.Row(`SELECT body FROM bench_threads WHERE id = $1`, id).Scan(new(string)); err != db.ErrNoRows {
			return fmt.Errorf("found: %w", err)
		}
	}
	if _, err := tx.Exec(`INSERT INTO bench_threads (id, updated_at, body) VALUES ($1, $2, $3)`, id, i, bareBody); err != nil {
		return err
	}
	for n := range 2 {
		if err := tx.Send(`INSERT INTO bench_facets (id, at) VALUES ($1, $2)`, id, n); err != nil {
			return err
		}
	}
	return tx.Send(`INSERT INTO bench_counts (slot, n) VALUES ($1, 1) ON CONFLICT (slot) DO UPDATE SET n = bench_counts.n + 1`, writer)
}

// changedRows is what a change takes: the row is looked up and locked, it is written, and its line in an index moves.
func changedRows(tx *db.Tx, writer, i int) error {
	id, suffix := fmt.Sprintf("thread_%d_%d", writer, i%10), ""
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
	return tx.Send(`UPDATE bench_facets SET at = $3 WHERE id = $1 AND at = $2`, id, at, at+1)
}

// socket is the runtime's protocol: an upgrade, the key, then a frame for each action.
func socket(key string) protocol {
	return protocol{
		open: func(conn net.Conn, in *bufio.Reader) error {
			_, err := conn.Write([]byte("GET /thread/ws HTTP/1.1\r\nHost: steward\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rld2FyZCBiZW5jaG1hcg==\r\n\r\n"))
			if err != nil {
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
		answer: readFrame,
	}
}

func save(threadID string, id int, metadata map[string]any) []byte {
	data := map[string]any{"thread_id": threadID, "user_data": userData}
	if metadata != nil {
		data["metadata"] = metadata
	}
	return frame(map[string]any{"id": strconv.Itoa(id), "action": "save", "data": data})
}

// frame is one of less than 64 KiB. It is masked, as a client's must be, with zeros, which leave it as it is.
func frame(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	out := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text)))
	return append(append(out, 0, 0, 0, 0), text...)
}

// readFrame reads an answer, which is short. The load is over before the server's first ping.
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
