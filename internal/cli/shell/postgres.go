package shell

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"steward/internal/cli/session"
)

// postgres is a database on a PostgreSQL server.
type postgres struct{ conn *pgconn.PgConn }

// withoutURL returns a connection error's message without the user and the database at its
// beginning.
func withoutURL(err error) string {
	_, message, found := strings.Cut(err.Error(), ": ")
	if !found {
		return err.Error()
	}
	return strings.TrimSpace(message)
}

// query implements database. If a text has several statements, it returns the last one's results.
func (p *postgres) query(ctx context.Context, statement string) (out result, err error) {
	results, err := p.conn.Exec(ctx, statement).ReadAll()
	if err != nil {
		return out, postgresFailure(err)
	}
	if len(results) == 0 {
		return out, nil
	}
	last := results[len(results)-1]
	out.changed = last.CommandTag.RowsAffected()
	for _, c := range last.FieldDescriptions {
		out.columns = append(out.columns, c.Name)
	}
	for _, row := range last.Rows {
		values := make([]json.RawMessage, len(row))
		for i, text := range row {
			values[i] = postgresValue(last.FieldDescriptions[i].DataTypeOID, text)
		}
		out.rows = append(out.rows, values)
	}
	return out, nil
}

func postgresFailure(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return session.Unreachable(err, "the database")
	}
	e := sqlError(refused.Message)
	e.Advice, e.Cause = refused.Hint, err
	if refused.Detail != "" {
		e.Details = []string{refused.Detail}
	}
	return e
}

// postgresValue returns a value in the text protocol as JSON: numbers, booleans and JSON as such,
// anything else as a text.
func postgresValue(oid uint32, text []byte) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	switch oid {
	case pgtype.BoolOID:
		return json.RawMessage(map[string]string{"t": "true", "f": "false"}[string(text)])
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID,
		pgtype.JSONOID, pgtype.JSONBOID:
		if json.Valid(text) { // NaN is not
			return text
		}
	}
	return quoted(string(text))
}

// close implements database.
func (p *postgres) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.conn.Close(ctx) // the server ends it otherwise
}
