package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/e2e/installation"
)

// dialDatabase sends the beginning of a request on a new connection.
func dialDatabase(d *installation.SQLDatabase, length int, body string) {
	d.T.Helper()
	address, path, _ := strings.Cut(strings.TrimPrefix(d.Address, "http://"), "/")
	conn, err := net.Dial("tcp", address)
	d.Must(err)
	d.T.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /%sv2/pipeline HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", path, d.Token, length)
	d.Must(err)
	_, _ = io.WriteString(conn, body) // fails if the server refuses it
}

// attackDatabase uses as much as it can of the server until ctx ends: bodies that are not sent, idle
// transactions, statements without end.
func attackDatabase(ctx context.Context, d *installation.SQLDatabase, all *sync.WaitGroup) {
	d.T.Helper()
	for range 50 {
		dialDatabase(d, 16<<20, "{")
	}
	for range 3 {
		dialDatabase(d, 7_900_001, strings.Repeat(" ", 7_900_000))
	}
	for range 32 {
		d.Pipeline(nil, installation.ExecuteSQL("BEGIN"))
	}
	const endless = `{"requests":[{"type":"execute","stmt":{"sql":"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"}},{"type":"close"}]}`
	for range 4 {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "POST", d.Address+"v2/pipeline", strings.NewReader(endless))
			if err != nil {
				d.T.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+d.Token)
			if res, err := installation.Client.Do(r); err == nil { // fails when ctx ends
				_ = res.Body.Close()
			}
		})
	}
}

// TestDatabasesOfAnotherOrganizationAreServed: an organization uses as much as it can of the server.
// Another one is not refused anything, the memory stays bounded, and metrics tell who it is.
func TestDatabasesOfAnotherOrganizationAreServed(t *testing.T) {
	s := installation.Start(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	other := s.SecondOrganization()
	var profile struct{ Organizations []struct{ ID string } }
	other.Call("GET", "/cli/auth/user", nil).Want(200).Decode(&profile)
	other.OrgID = profile.Organizations[0].ID
	victim := other.NewDatabase("shop")
	victim.Exec("CREATE TABLE items (v)")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range 8 {
		attackDatabase(ctx, s.NewDatabase(fmt.Sprint("attacker", i)), &all)
	}
	for range 20 {
		victim.Exec("INSERT INTO items VALUES ('" + strings.Repeat("x", 100_000) + "')")
		victim.Exec("SELECT * FROM items")
	}
	begun := victim.Pipeline(nil, installation.ExecuteSQL("BEGIN"), installation.ExecuteSQL("INSERT INTO items VALUES (1)")).Want(200)
	victim.Pipeline(begun.At("baton"), installation.ExecuteSQL("COMMIT"), object{"type": "close"}).Want(200)
	victim.WantCount("items", "21")
	if peak := s.PeakRSS() >> 20; peak > 400 {
		t.Errorf("the server has used %d MB", peak)
	}
	res, err := installation.Client.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
	s.Must(err)
	metrics, err := installation.ReadResponse(t, res)
	s.Must(err)
	_, id, _ := strings.Cut(strings.TrimSuffix(victim.Address, "/"), "/db/")
	counted := fmt.Sprintf(`steward_database_statements_total{org="%s",resource="%s"} 45`, other.OrgID, id)
	if !strings.Contains(string(metrics.Body), counted) {
		t.Errorf("the metrics have no %s", counted)
	}
}
