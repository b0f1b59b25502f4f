package resource

// Tables and rows in the form that platform SDKs expect.

type sdkTable struct {
	Name    string      `json:"table_name"`
	Columns []sdkColumn `json:"columns"`
}

type sdkColumn struct {
	Name       string `json:"name"`
	Type       string `json:"data_type"`
	Nullable   bool   `json:"is_nullable"`
	PrimaryKey bool   `json:"is_primary_key"`
}

// SDK returns the value's form in an envelope.
func (t Tables) SDK() any {
	all := make([]sdkTable, len(t))
	for i, table := range t {
		columns := make([]sdkColumn, len(table.Columns))
		for j, c := range table.Columns {
			columns[j] = sdkColumn(c)
		}
		all[i] = sdkTable{Name: table.Name, Columns: columns}
	}
	return struct {
		Tables []sdkTable `json:"tables"`
	}{all}
}

type sdkRows struct {
	Columns   []sdkResultColumn `json:"columns"`
	Rows      []map[string]any  `json:"rows"`
	RowCount  int               `json:"rowCount"`
	Truncated bool              `json:"truncated"`
}

// sdkResultColumn is a column in a result. We do not know its type.
type sdkResultColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// SDK returns the value's form in an envelope, where each row is an object.
func (r Rows) SDK() any {
	out := sdkRows{Columns: []sdkResultColumn{}, Rows: make([]map[string]any, len(r.Rows)), RowCount: len(r.Rows), Truncated: r.Truncated}
	for _, name := range r.Columns {
		out.Columns = append(out.Columns, sdkResultColumn{Name: name})
	}
	for i, row := range r.Rows {
		out.Rows[i] = map[string]any{}
		for j, value := range row[:min(len(row), len(r.Columns))] {
			out.Rows[i][r.Columns[j]] = value
		}
	}
	return out
}
