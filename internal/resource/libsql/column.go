package libsql

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// columns returns the statement's columns. sql is its text.
func (c *conn) columns(stmt *sqlite.Stmt, sql string) []column {
	columns := make([]column, stmt.ColumnCount())
	repeated := false
	for i := range columns {
		columns[i].name = stmt.ColumnName(i)
		columns[i].decltype = c.decltype(stmt, i, columns[i].name)
		repeated = repeated || columns[i].name == ""
	}
	if repeated {
		c.nameRepeated(stmt, sql, columns)
	}
	return columns
}

// nameRepeated names the columns whose name occurs again later: the library only knows the last column with a
// name. In a subquery, SQLite makes the names distinct, `id` and `id:1`, and we take them from there.
func (c *conn) nameRepeated(stmt *sqlite.Stmt, sql string, columns []column) {
	sql = strings.TrimRight(sql, "; \t\r\n")
	subquery, _, err := c.PrepareTransient("SELECT * FROM (" + sql + "\n)")
	if err != nil {
		return // such as RETURNING, which leaves the columns without names
	}
	defer func() { _ = subquery.Finalize() }()
	for i := range columns {
		if columns[i].name != "" {
			continue
		}
		name := subquery.ColumnName(i)
		if stmt.ColumnIndex(name) < 0 {
			name = name[:max(0, strings.LastIndexByte(name, ':'))]
		}
		columns[i].name = name
		columns[i].decltype = c.decltype(stmt, i, name)
	}
}

// decltype returns the type that the table declares for a result column, or "". A column that was renamed
// in the result has none.
func (c *conn) decltype(stmt *sqlite.Stmt, i int, name string) string {
	table := stmt.ColumnTableName(i)
	if table == "" || name == "" {
		return ""
	}
	from := quote(stmt.ColumnDatabaseName(i)) + ".table_xinfo(" + quote(table) + ")"
	types, known := c.types[from]
	if !known {
		types = c.readTypes(from)
		c.types[from] = types
	}
	return types[strings.ToLower(name)]
}

// readTypes returns the columns' types by lower-case name.
func (c *conn) readTypes(from string) map[string]string {
	types := map[string]string{}
	stmt, _, err := c.PrepareTransient("PRAGMA " + from)
	if err != nil {
		return types
	}
	defer func() { _ = stmt.Finalize() }()
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return types
		}
		types[strings.ToLower(stmt.GetText("name"))] = stmt.GetText("type")
	}
}
