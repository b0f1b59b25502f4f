package thread

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// BenchmarkSocketSave measures saves over 64 sockets, each of which has 1 or 16 in flight.
func BenchmarkSocketSave(b *testing.B) {
	for _, inFlight := range []int{1, 16} {
		b.Run(fmt.Sprintf("in_flight=%d", inFlight), func(b *testing.B) {
			const sockets = 64
			s := newStore(b, dbtest.Open(b, db.SQLite))
			must(b, s.DB.Write(b.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, 'p1', 'p1', 0, 1)`, org)
				return err
			}))
			authenticate := func(context.Context, string) (*auth.Caller, error) { return confined("p1"), nil }
			srv := httptest.NewServer(NewSocket(s, authenticate, 1000, 64<<20))
			defer srv.Close()
			conns := make([]*websocket.Conn, sockets)
			for i := range conns {
				conn, _, err := websocket.Dial(b.Context(), srv.URL, nil)
				must(b, err)
				defer func() { _ = conn.CloseNow() }()
				must(b, conn.Write(b.Context(), websocket.MessageText, []byte(`{"authorization":"key"}`)))
				_, _, err = conn.Read(b.Context())
				must(b, err)
				conns[i] = conn
			}
			state := strings.Repeat("x", 280)
			var all sync.WaitGroup
			b.ResetTimer()
			for i, conn := range conns {
				all.Go(func() {
					send := func(n int) error {
						return conn.Write(b.Context(), websocket.MessageText, fmt.Appendf(nil,
							`{"id":"%d","action":"save","data":{"thread_id":"t%d_%d","user_data":"{\"text\":\"%s\"}"}}`, n, i, n%32, state))
					}
					left := b.N / sockets
					sent := 0
					for received := 0; received < left; {
						for sent < left && sent-received < inFlight {
							if err := send(sent); err != nil {
								b.Error(err)
								return
							}
							sent++
						}
						if _, _, err := conn.Read(b.Context()); err != nil {
							b.Error(err)
							return
						}
						received++
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "saves/s")
		})
	}
}
