package postgres

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"steward/internal/errs"
	"steward/internal/resource"
)

const (
	// statementTimeout bounds a statement. The server enforces it.
	statementTimeout = 30 * time.Second
	// maxBytes caps a result, and each row, in bytes.
	maxBytes = 8 << 20
)

// Query runs one statement as the database's own role, on a new connection.
//
// It asks for limit+1 rows: a SELECT stops there, whereas a statement that changes rows and returns them
// always completes.
func (e *Engine) Query(ctx context.Context, p *resource.Provisioned, query string, args []any, limit int) (resource.Rows, error) {
	if strings.Contains(query, "\x00") {
		return resource.Rows{}, errs.InvalidField("body.query", "expected text without NUL")
	}
	parameters, err := encodeArgs(args)
	if err != nil {
		return resource.Rows{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout+2*connectTimeout)
	defer cancel()
	conn, err := e.connectAs(ctx, p, nil)
	if err != nil {
		return resource.Rows{}, e.explainQuery(err)
	}
	defer closeConn(conn.PgConn())
	front := conn.PgConn().Frontend()
	front.SetMaxBodyLen(maxBytes)
	front.SendParse(&pgproto3.Parse{Query: query})
	front.SendBind(&pgproto3.Bind{Parameters: parameters})
	front.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
	front.SendExecute(&pgproto3.Execute{MaxRows: uint32(limit + 1)})
	front.SendSync(&pgproto3.Sync{})
	if err := front.Flush(); err != nil {
		return resource.Rows{}, e.explainQuery(err)
	}
	r := &reader{limit: limit, rows: resource.Rows{Columns: []string{}, Rows: [][]any{}}}
	if err := r.read(ctx, conn.PgConn()); err != nil {
		if !errors.As(err, new(*pgconn.PgError)) {
			cancelStatement(conn.PgConn()) // the statement may still be running
		}
		return resource.Rows{}, e.explainQuery(err)
	}
	if len(r.rows.Columns) == 0 {
		r.rows.RowsAffected = &r.affected
	}
	return r.rows, nil
}

// cancelStatement asks the server to stop the connection's statement. If the request gets lost, the
// server stops the statement after statementTimeout.
func cancelStatement(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.CancelRequest(ctx)
}

// connectAs connects as a database's own role. The parameters override the role's settings for its sessions.
func (e *Engine) connectAs(ctx context.Context, p *resource.Provisioned, parameters map[string]string) (*pgx.Conn, error) {
	config := e.admin.Config().ConnConfig
	config.User = p.ID
	config.Password = p.Password
	config.Database = p.ID
	config.RuntimeParams = map[string]string{
		"application_name": "steward", "client_encoding": "UTF8", "datestyle": "ISO", "bytea_output": "hex",
		"statement_timeout": strconv.FormatInt(statementTimeout.Milliseconds(), 10),
	}
	maps.Copy(config.RuntimeParams, parameters)
	return pgx.ConnectConfig(ctx, config)
}

// explainQuery returns Invalid with the server's message, unless the server is at fault.
func (e *Engine) explainQuery(err error) error {
	var pg *pgconn.PgError
	var large *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &large):
		return errs.New(errs.Invalid, "a row is larger than %d bytes", maxBytes)
	case isCode(err, "28P01", "28000"):
		return errs.New(errs.Invalid, "the database's role cannot log in: rotate the credentials if its password was changed")
	case errors.As(err, &pg) && (pg.Code == "57014" || pg.Code == "08P01" || !unavailable(err)):
		return errs.New(errs.Invalid, "%s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	return e.explain("query", err)
}

// reader collects a statement's result.
type reader struct {
	limit  int
	rows   resource.Rows
	fields []pgproto3.FieldDescription
	size   int
	// affected is the number of rows that the statement changed or returned.
	affected int64
}

// read reads messages until the statement has ended.
func (r *reader) read(ctx context.Context, conn *pgconn.PgConn) error {
	var failed error
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pgproto3.RowDescription:
			r.describe(m)
		case *pgproto3.DataRow:
			r.add(m)
		case *pgproto3.CommandComplete:
			r.affected = pgconn.NewCommandTag(string(m.CommandTag)).RowsAffected()
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyInResponse, *pgproto3.CopyOutResponse, *pgproto3.CopyBothResponse:
			return errs.New(errs.Invalid, "expected another statement than COPY from or to the client")
		case *pgproto3.ReadyForQuery:
			return failed
		}
	}
}

func (r *reader) describe(m *pgproto3.RowDescription) {
	for _, field := range m.Fields {
		field.Name = []byte(string(field.Name)) // the message is reused
		r.fields = append(r.fields, field)
		r.rows.Columns = append(r.rows.Columns, string(field.Name))
	}
}

// add adds a row, unless the result has reached its limit.
func (r *reader) add(m *pgproto3.DataRow) {
	for _, value := range m.Values {
		r.size += len(value)
	}
	if len(r.rows.Rows) == r.limit || r.size > maxBytes {
		r.rows.Truncated = true
		return
	}
	row := make([]any, len(m.Values))
	for i, value := range m.Values {
		row[i] = decode(r.fields[i].DataTypeOID, value)
	}
	r.rows.Rows = append(r.rows.Rows, row)
}

// decode converts a value that the server sent as text.
func decode(oid uint32, value []byte) any {
	if value == nil {
		return nil
	}
	text := string(value)
	switch oid {
	case pgtype.BoolOID:
		return text == "t"
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		if json.Valid(value) { // NaN and infinity are not valid
			return json.Number(text)
		}
	case pgtype.ByteaOID:
		raw, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
		if err == nil {
			return map[string]string{"base64": base64.StdEncoding.EncodeToString(raw)}
		}
	}
	return text
}

// encodeArgs converts arguments to the server's text format.
func encodeArgs(args []any) ([][]byte, error) {
	if len(args) > math.MaxUint16 {
		return nil, errs.InvalidField("body.args", "expected at most %d values", math.MaxUint16)
	}
	parameters := make([][]byte, len(args))
	for i, arg := range args {
		parameter, err := encodeArg(arg)
		if err != nil {
			return nil, errs.InvalidField("body.args["+strconv.Itoa(i)+"]", "%s", err)
		}
		parameters[i] = parameter
	}
	return parameters, nil
}

// encodeArg converts a JSON value to text: {"base64": …} to bytes, other objects and arrays to JSON.
func encodeArg(arg any) ([]byte, error) {
	switch v := arg.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case map[string]any:
		if text, ok := v["base64"].(string); ok && len(v) == 1 {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, errors.New("expected base64")
			}
			return []byte(`\x` + hex.EncodeToString(raw)), nil
		}
	}
	return json.Marshal(arg)
}
