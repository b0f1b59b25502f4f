package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Named is a row that people find by its name or id. Parent is the id that the row belongs to, if
// people can only find it there.
type Named struct{ ID, Name, Parent string }

// lastChar sorts after all other characters.
const lastChar = "\U0010FFFF"

// maxNames caps the names in an organization that we search for words inside, in index order. Past
// that, we find names only by their beginning.
const maxNames = 100_000

// NameIndex finds an organization's rows by id, or by words in their name (Words), in a table with
// an index on org_id, the condition columns, and lower(name). The index also covers the columns that
// we read, so that searching names for words does not read the rows.
type NameIndex struct {
	Table string
	// ID names the id column. Where has conditions that hold for all rows, such as state = 'active'.
	ID, Where string
	// Index is the index to use. Left alone, SQLite prefers one without the condition columns.
	Index string

	conditions []condition
}

// condition requires a value in a column.
type condition struct {
	column string
	value  any
}

// With returns an index limited to rows with a value in a column.
func (n NameIndex) With(column string, value any) NameIndex {
	n.conditions = append(slices.Clip(n.conditions), condition{column, value})
	return n
}

// Find returns at most limit rows: first the one with that id, then those whose name begins with the
// text, then those that contain its words elsewhere.
func (n NameIndex) Find(q Querier, orgID, text string, limit int) ([]Named, error) {
	s := n.scan(q, orgID)
	byID, err := s.byID(text)
	if err != nil {
		return nil, fmt.Errorf("find in %s by id: %w", n.Table, err)
	}
	byName, err := s.byName(text, limit)
	if err != nil {
		return nil, fmt.Errorf("find in %s by name: %w", n.Table, err)
	}
	all := appendNew(byID, byName)
	if words := NewWords(text); len(all) < limit && len(words) > 0 {
		byWords, err := s.byWords(words, limit)
		if err != nil {
			return nil, fmt.Errorf("find in %s by words: %w", n.Table, err)
		}
		all = appendNew(all, byWords)
	}
	return all[:min(len(all), limit)], nil
}

// appendNew appends the rows that are not there yet.
func appendNew(all, more []Named) []Named {
	for _, row := range more {
		if !slices.Contains(all, row) {
			all = append(all, row)
		}
	}
	return all
}

// nameScan reads an organization's rows through an index.
type nameScan struct {
	NameIndex
	q     Querier
	where string
	// args has the arguments for where. A statement's own arguments follow them.
	args []any
}

// scan prepares to read an organization's rows.
func (n NameIndex) scan(q Querier, orgID string) nameScan {
	s := nameScan{NameIndex: n, q: q, where: " WHERE org_id = $1", args: []any{orgID}}
	for _, c := range n.conditions {
		s.args = append(s.args, c.value)
		s.where += fmt.Sprintf(" AND %s = $%d", c.column, len(s.args))
	}
	if n.Where != "" {
		s.where += " AND " + n.Where
	}
	return s
}

// and returns a statement's arguments: the ones for where, then its own.
func (s nameScan) and(args ...any) []any { return append(slices.Clip(s.args), args...) }

// byID returns the row with an id, if there is one.
func (s nameScan) byID(id string) ([]Named, error) {
	query := fmt.Sprintf(`SELECT %s, name FROM %s%s AND %s = $%d`, s.ID, s.Table, s.where, s.ID, len(s.args)+1)
	return Collect(s.q, scanNamed, query, s.and(id)...)
}

// byName returns the first rows whose names begin with a text.
func (s nameScan) byName(text string, limit int) ([]Named, error) {
	from, name := s.source()
	next := len(s.args) + 1
	query := fmt.Sprintf(`SELECT %s, name FROM %s%s AND %s >= lower($%d) AND %s < lower($%d) ORDER BY %s LIMIT $%d`,
		s.ID, from, s.where, name, next, name, next+1, name, next+2)
	return Collect(s.q, scanNamed, query, s.and(text, text+lastChar, limit)...)
}

// errEnough ends a query once it has found enough rows.
var errEnough = errors.New("db: enough rows")

// byWords returns the first rows whose names have these words, among the first maxNames names. The
// database rules out most other rows by the index alone.
func (s nameScan) byWords(words Words, limit int) ([]Named, error) {
	from, name := s.source()
	query := fmt.Sprintf(`SELECT id, name FROM (SELECT %s AS id, name, %s AS lowered FROM %s%s ORDER BY %s LIMIT %d) AS names
		WHERE lowered LIKE $%d`, s.ID, name, from, s.where, name, maxNames, len(s.args)+1)
	var found []Named
	_, err := Collect(s.q, func(row Row) (struct{}, error) {
		one, err := scanNamed(row)
		if err == nil && words.In(one.Name) {
			found = append(found, one)
		}
		if len(found) == limit {
			return struct{}{}, errEnough
		}
		return struct{}{}, err
	}, query, s.and(words.pattern())...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// Words are a search text's words in lower case. Any character that is neither a letter nor a digit
// separates them.
type Words []string

// NewWords splits a text into words.
func NewWords(text string) Words {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { // marks belong to the letter before them
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c)
	})
}

// In reports whether each word is a word in the name, or the beginning of one. Without words it
// returns false.
func (w Words) In(name string) bool {
	words := NewWords(name)
	for _, wanted := range w {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, wanted) }) {
			return false
		}
	}
	return len(w) > 0
}

// pattern returns a LIKE pattern that matches every lower-cased name with these words. It uses the
// longest word, and skips characters whose case a database may not know.
func (w Words) pattern() string {
	longest := slices.MaxFunc(w, func(a, b string) int { return len(a) - len(b) })
	return "%" + strings.Map(func(c rune) rune {
		if c >= utf8.RuneSelf {
			return '%'
		}
		return c
	}, longest) + "%"
}

// source returns the table with the index to use, and the index's expression.
func (s nameScan) source() (from, name string) {
	if s.q.Dialect() == Postgres {
		return s.Table, `lower(name) COLLATE "C"`
	}
	return s.Table + " INDEXED BY " + s.Index, "lower(name)"
}

func scanNamed(row Row) (n Named, err error) { return n, row.Scan(&n.ID, &n.Name) }
