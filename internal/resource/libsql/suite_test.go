package libsql_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/libsql"
)

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, rows *enginetest.Rows) enginetest.Fixture {
		e := &libsql.Engine{
			Dir: t.TempDir(), Node: "local", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Rows: rows,
		}
		if err := e.Open(); err != nil {
			t.Fatal(err)
		}
		rows.Changed = e.Forget
		listener := httptest.NewServer(e)
		e.BaseURL = listener.URL
		t.Cleanup(func() {
			_ = e.Close(context.Background())
			listener.Close()
		})
		connect := func(ctx context.Context, c resource.Connection) (enginetest.Client, error) {
			return connectStream(ctx, t, c)
		}
		return enginetest.Fixture{Engine: e, Type: resource.DB, Node: "local", Connect: connect}
	})
}

// streamClient is a client that keeps one stream.
type streamClient struct {
	database
	baton *string
}

func connectStream(ctx context.Context, t *testing.T, c resource.Connection) (*streamClient, error) {
	origin, rest, _ := strings.Cut(c.Env["DATABASE_URL"], "/db/")
	s := &streamClient{database: database{
		server: &server{url: origin}, t: t, token: c.Env["DATABASE_AUTH_TOKEN"],
		p: &resource.Provisioned{ID: strings.TrimSuffix(rest, "/")},
	}}
	_, err := s.run(ctx, "CREATE TABLE IF NOT EXISTS pairs (key TEXT PRIMARY KEY, value TEXT)")
	return s, err
}

// run executes a statement on the stream.
func (s *streamClient) run(ctx context.Context, sql string, args ...object) (*result, error) {
	got, err := s.send(ctx, "v3/pipeline", object{"baton": s.baton, "requests": []object{execute(sql, args...)}})
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusOK {
		return nil, errors.New(got.Message)
	}
	s.baton = got.Baton
	if got.Results[0].Type != "ok" {
		return nil, errors.New(got.Results[0].Error.Message)
	}
	return got.Results[0].result(s.t), nil
}

func (s *streamClient) Set(ctx context.Context, key, value string) error {
	_, err := s.run(ctx, "INSERT OR REPLACE INTO pairs VALUES (?, ?)", text(key), text(value))
	return err
}

func (s *streamClient) Get(ctx context.Context, key string) (string, error) {
	got, err := s.run(ctx, "SELECT value FROM pairs WHERE key = ?", text(key))
	if err != nil || len(got.Rows) == 0 {
		return "", err
	}
	return got.Rows[0][0]["value"].(string), nil
}

func (s *streamClient) Close() {}
