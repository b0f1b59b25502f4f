package libsql

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	driver "zombiezen.com/go/sqlite"

	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/sqlite"
)

// Query implements resource.Databases.
func (e *Engine) Query(ctx context.Context, p *resource.Provisioned, query string, args []any, limit int) (resource.Rows, error) {
	values, err := valuesOf(args)
	if err != nil {
		return resource.Rows{}, err
	}
	rows := resource.Rows{Columns: []string{}, Rows: [][]any{}}
	size := int64(0)
	err = e.inSession(ctx, p, func(ctx context.Context, s *stream) error {
		did, err := s.console(ctx, query, values, sink{
			columns: func(columns []column) error {
				for _, c := range columns {
					rows.Columns = append(rows.Columns, c.name)
				}
				return nil
			},
			row: func(stmt *driver.Stmt, columns int) error {
				if len(rows.Rows) == limit || size > e.limits.Response {
					rows.Truncated = true
					return nil
				}
				n := int64(0)
				for i := range columns {
					n += int64(columnSize(stmt, i))
				}
				if !s.memory.Take(n) {
					return errOutOfMemory
				}
				size += n
				row := make([]any, columns)
				for i := range row {
					row[i] = consoleValue(stmt, i)
				}
				rows.Rows = append(rows.Rows, row)
				return nil
			},
		})
		if err == nil && len(rows.Columns) == 0 {
			affected := s.conn.affected(did)
			rows.RowsAffected = &affected
		}
		return err
	})
	return rows, err
}

// console runs a statement with positional arguments and returns its effects.
func (s *stream) console(ctx context.Context, sql string, values []any, to sink) (access, error) {
	bind := func(stmt *driver.Stmt) error {
		if n := stmt.BindParamCount(); n != len(values) {
			return failf("ARGS_INVALID", "%d arguments for %d parameters", len(values), n)
		}
		for i, v := range values {
			if err := sqlite.Bind(stmt, i+1, v); err != nil {
				return err
			}
		}
		return nil
	}
	return s.query(ctx, &stmt{SQL: &sql}, bind, to)
}

// inSession calls run with a stream, and closes the stream afterwards. It returns a statement's failure
// as Invalid, and releases the memory that run has charged.
func (e *Engine) inSession(ctx context.Context, p *resource.Provisioned, run func(context.Context, *stream) error) error {
	if err := e.onThisNode(p); err != nil {
		return err
	}
	ctx, session, err := e.begin(ctx, p)
	if err != nil {
		return asUnavailable(err)
	}
	defer session.end()
	s, done, err := session.stream(ctx, nil, true)
	if err != nil {
		return asUnavailable(err)
	}
	defer done("")
	s.memory = e.memory.Charge(p.OrgID, p.ID)
	defer s.memory.Release()
	err = run(ctx, s)
	if err == nil {
		return nil
	}
	f := explain(ctx, err)
	if f == errOutOfMemory {
		return asUnavailable(f)
	}
	return errs.New(errs.Invalid, "%s", f.Message)
}

func asUnavailable(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return errs.Unavailablef(err, "%s", f.Message)
	}
	return err
}

// valuesOf converts a query's arguments, as encoding/json decodes them.
func valuesOf(args []any) ([]any, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case nil, bool, int64, string:
			values[i] = v
		case float64:
			values[i] = numberOf(v)
		default:
			return nil, errs.InvalidField(fmt.Sprintf("body.args[%d]", i), "expected null, a boolean, a number or a text")
		}
	}
	return values, nil
}

// numberOf returns an integer if a JSON number is one, so that it compares as clients expect.
func numberOf(f float64) any {
	if n := int64(f); float64(n) == f && n > -1<<53 && n < 1<<53 {
		return n
	}
	return f
}

// consoleValue returns a column's value for resource.Rows.
func consoleValue(stmt *driver.Stmt, i int) any {
	switch v := sqlite.Value(stmt, i).(type) {
	case string:
		return strings.ToValidUTF8(v, "\ufffd")
	case []byte:
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(v)}
	default:
		return v
	}
}

// maxTables caps the list of tables.
const maxTables = 1000

// Tables implements resource.Databases.
func (e *Engine) Tables(ctx context.Context, p *resource.Provisioned) ([]resource.Table, error) {
	const list = `SELECT t.name, t.type, c.name, c.type, c."notnull" = 0 AND c.pk = 0, c.pk > 0
		FROM (SELECT name, type FROM pragma_table_list
			WHERE schema = 'main' AND type IN ('table', 'view', 'virtual') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
			ORDER BY name LIMIT ?) t
		JOIN pragma_table_xinfo(t.name) c WHERE c.hidden <> 1 ORDER BY t.name, c.cid`
	tables := []resource.Table{}
	limit := []any{maxTables}
	err := e.inSession(ctx, p, func(ctx context.Context, s *stream) error {
		_, err := s.console(ctx, list, limit, sink{
			columns: func([]column) error { return nil },
			row: func(stmt *driver.Stmt, _ int) error {
				tables = addColumn(tables, stmt)
				return nil
			},
		})
		return err
	})
	return tables, err
}

// addColumn adds the column in the current row to the last table, or starts a new table.
func addColumn(tables []resource.Table, stmt *driver.Stmt) []resource.Table {
	name := stmt.ColumnText(0)
	if n := len(tables); n == 0 || tables[n-1].Name != name {
		kind := "table"
		if stmt.ColumnText(1) == "view" {
			kind = "view"
		}
		tables = append(tables, resource.Table{Schema: "main", Name: name, Type: kind})
	}
	last := &tables[len(tables)-1]
	last.Columns = append(last.Columns, resource.Column{
		Name: stmt.ColumnText(2), Type: stmt.ColumnText(3), Nullable: stmt.ColumnBool(4), PrimaryKey: stmt.ColumnBool(5),
	})
	return tables
}
