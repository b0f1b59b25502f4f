package libsql

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// columns returns the columns of a statement with the given text.
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

// nameRepeated names the columns whose names are repeated further on: the library knows only the last
// column of a name. SQLite gives the columns of a subquery different names, `id` and `id:1`, from which
// they are found.
func (c *conn) nameRepeated(stmt *sqlite.Stmt, sql string, columns []column) {
	sql = strings.TrimRight(sql, "; \t\r\n")
	subquery, _, err := c.PrepareTransient("SELECT * FROM (" + sql + "\n)")
	if err != nil {
		return // such as RETURNING: the columns stay without a name
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

// decltype returns the declared type of the table's column that a column shows, or "". A column with
// another name than in its table has none.
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

// readTypes returns the types of a table's columns, by their names in lower case.
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
