package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"steward/internal/errs"
	"steward/internal/resource"
)

// maxColumns caps the columns that Tables returns, across all tables.
const maxColumns = 20000

const selectColumns = `
SELECT n.nspname::text, c.relname::text, c.relkind IN ('v', 'm'), a.attname::text,
       coalesce(format_type(a.atttypid, a.atttypmod), ''), coalesce(NOT a.attnotnull, false),
       coalesce(a.attnum = ANY (i.indkey), false)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT starts_with(n.nspname::text, 'pg_') AND n.nspname <> 'information_schema'
ORDER BY n.nspname, c.relname, a.attnum
LIMIT $1`

// Tables returns the tables and views in all schemas except the system's, as the database's role sees them.
func (e *Engine) Tables(ctx context.Context, p *resource.Provisioned) ([]resource.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	conn, err := e.connectAs(ctx, p, map[string]string{"search_path": "pg_catalog", "role": "none"})
	if err != nil {
		return nil, e.explainQuery(err)
	}
	defer closeConn(conn.PgConn())
	rows, err := conn.Query(ctx, selectColumns, maxColumns+1)
	if err != nil {
		return nil, e.explainQuery(err)
	}
	columns, err := pgx.CollectRows(rows, scanColumn)
	if err != nil {
		return nil, e.explainQuery(err)
	}
	if len(columns) > maxColumns {
		return nil, errs.New(errs.Invalid, "the database has more than %d columns: query the catalog instead", maxColumns)
	}
	return group(columns), nil
}

// tableColumn is a column with its table, or a table that has no columns.
type tableColumn struct {
	schema, table string
	view          bool
	name          *string
	resource.Column
}

func scanColumn(row pgx.CollectableRow) (c tableColumn, err error) {
	err = row.Scan(&c.schema, &c.table, &c.view, &c.name, &c.Type, &c.Nullable, &c.PrimaryKey)
	if err != nil {
		return c, fmt.Errorf("scan column: %w", err)
	}
	return c, nil
}

// group groups columns, which are sorted by table, into tables.
func group(columns []tableColumn) []resource.Table {
	tables := []resource.Table{}
	for _, c := range columns {
		last := len(tables) - 1
		if last < 0 || tables[last].Schema != c.schema || tables[last].Name != c.table {
			tables = append(tables, resource.Table{Schema: c.schema, Name: c.table, Type: kind(c.view), Columns: []resource.Column{}})
			last++
		}
		if c.name != nil {
			c.Column.Name = *c.name
			tables[last].Columns = append(tables[last].Columns, c.Column)
		}
	}
	return tables
}

func kind(view bool) string {
	if view {
		return "view"
	}
	return "table"
}
