package db

import (
	"fmt"
	"slices"
)

// Named is a row that people find by its name or id. Parent is the id of what it is part of, if it is
// found there only.
type Named struct{ ID, Name, Parent string }

// NameIndex finds rows of an organization by their id, or by the beginning of their name whatever its
// case, in a table with an index on org_id, the columns of conditions, and lower(name). On SQLite only
// letters of ASCII have a case.
type NameIndex struct {
	Table string
	// ID is the column of the id. Conditions that hold for all rows, such as state = 'active', are in
	// Where.
	ID, Where string
	// Index is the index to use. SQLite prefers one without the columns of conditions.
	Index string
}

// Find returns at most limit rows: the one with an id first, then by name. conditions are further
// columns with the values that they must have.
func (n NameIndex) Find(q Querier, orgID, text string, limit int, conditions ...any) ([]Named, error) {
	where := " WHERE org_id = $1"
	args := []any{orgID}
	for i := 0; i+1 < len(conditions); i += 2 {
		args = append(args, conditions[i+1])
		where += fmt.Sprintf(" AND %s = $%d", conditions[i], len(args))
	}
	if n.Where != "" {
		where += " AND " + n.Where
	}
	next := len(args) + 1
	byID, err := Collect(q, scanNamed, fmt.Sprintf(`SELECT %s, name FROM %s%s AND %s = $%d`, n.ID, n.Table, where, n.ID, next),
		append(slices.Clone(args), text)...)
	if err != nil {
		return nil, fmt.Errorf("find in %s by id: %w", n.Table, err)
	}
	// The last character sorts after all others.
	byName, err := Collect(q, scanNamed, n.byName(q.Dialect(), where, next), append(args, text, text+"\U0010FFFF", limit)...)
	if err != nil {
		return nil, fmt.Errorf("find in %s by name: %w", n.Table, err)
	}
	byName = slices.DeleteFunc(byName, func(row Named) bool { return slices.Contains(byID, row) })
	all := append(byID, byName...)
	return all[:min(len(all), limit)], nil
}

// byName returns the statement that finds rows by name. Its parameters from next on are the first name,
// the end of the names, and the limit.
func (n NameIndex) byName(dialect Dialect, where string, next int) string {
	from, name := n.Table+" INDEXED BY "+n.Index, "lower(name)"
	if dialect == Postgres {
		from, name = n.Table, `lower(name) COLLATE "C"`
	}
	return fmt.Sprintf(`SELECT %s, name FROM %s%s AND %s >= lower($%d) AND %s < lower($%d) ORDER BY %s LIMIT $%d`,
		n.ID, from, where, name, next, name, next+1, name, next+2)
}

func scanNamed(row Row) (n Named, err error) { return n, row.Scan(&n.ID, &n.Name) }
