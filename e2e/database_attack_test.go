package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// dial sends the beginning of a request on a new connection.
func (d *sqlDatabase) dial(length int, body string) {
	d.t.Helper()
	address, path, _ := strings.Cut(strings.TrimPrefix(d.url, "http://"), "/")
	conn, err := net.Dial("tcp", address)
	d.must(err)
	d.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /%sv2/pipeline HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", path, d.token, length)
	d.must(err)
	_, _ = io.WriteString(conn, body) // fails if the server refuses it
}

// attack uses as much as it can of the server until ctx ends: bodies that are not sent, idle
// transactions, statements without end.
func (d *sqlDatabase) attack(ctx context.Context, all *sync.WaitGroup) {
	d.t.Helper()
	for range 50 {
		d.dial(16<<20, "{")
	}
	for range 3 {
		d.dial(7_900_001, strings.Repeat(" ", 7_900_000))
	}
	for range 32 {
		d.pipeline(nil, executeSQL("BEGIN"))
	}
	const endless = `{"requests":[{"type":"execute","stmt":{"sql":"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"}},{"type":"close"}]}`
	for range 4 {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "POST", d.url+"v2/pipeline", strings.NewReader(endless))
			if err != nil {
				d.t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+d.token)
			if res, err := client.Do(r); err == nil { // fails when ctx ends
				_ = res.Body.Close()
			}
		})
	}
}

// TestDatabasesOfAnotherOrganizationAreServed: an organization uses as much as it can of the server.
// Another one is not refused anything, the memory stays bounded, and metrics tell who it is.
func TestDatabasesOfAnotherOrganizationAreServed(t *testing.T) {
	s := start(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	other := s.secondOrganization()
	var profile struct{ Organizations []struct{ ID string } }
	other.call("GET", "/cli/auth/user", nil).want(200).decode(&profile)
	other.orgID = profile.Organizations[0].ID
	victim := other.database("shop")
	victim.exec("CREATE TABLE items (v)")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range 8 {
		s.database(fmt.Sprint("attacker", i)).attack(ctx, &all)
	}
	for range 20 {
		victim.exec("INSERT INTO items VALUES ('" + strings.Repeat("x", 100_000) + "')")
		victim.exec("SELECT * FROM items")
	}
	begun := victim.pipeline(nil, executeSQL("BEGIN"), executeSQL("INSERT INTO items VALUES (1)")).want(200)
	victim.pipeline(begun.at("baton"), executeSQL("COMMIT"), object{"type": "close"}).want(200)
	victim.wantCount("items", "21")
	if peak := s.PeakRSS() >> 20; peak > 400 {
		t.Errorf("the server has used %d MB", peak)
	}
	res, err := client.Get("http://" + s.addresses().Listen["metrics"] + "/metrics")
	s.must(err)
	metrics, err := read(t, res)
	s.must(err)
	_, id, _ := strings.Cut(strings.TrimSuffix(victim.url, "/"), "/db/")
	counted := fmt.Sprintf(`steward_database_statements_total{org="%s",resource="%s"} 45`, other.orgID, id)
	if !strings.Contains(string(metrics.body), counted) {
		t.Errorf("the metrics have no %s", counted)
	}
}
