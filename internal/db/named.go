package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Named is a row that people find by its name or id. Parent is the id of what it is part of, if it is
// found there only.
type Named struct{ ID, Name, Parent string }

// lastChar sorts after all other characters.
const lastChar = "\U0010FFFF"

// maxNames is how many names of an organization are looked at for words inside of them: the first ones
// in the order of the index. Beyond that, names are found by their beginning.
const maxNames = 100_000

// NameIndex finds rows of an organization by their id, or by words of their name (Words), in a table with
// an index on org_id, the columns of conditions, and lower(name). The index also has the columns that are
// read, so that looking for words inside names does not read the rows.
type NameIndex struct {
	Table string
	// ID is the column of the id. Conditions that hold for all rows, such as state = 'active', are in
	// Where.
	ID, Where string
	// Index is the index to use. SQLite prefers one without the columns of conditions.
	Index string
}

// Find returns at most limit rows: the one with an id first, then those whose name begins with the text,
// then those that have its words elsewhere. conditions are further columns with the values that they must
// have.
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
	byName, err := Collect(q, scanNamed, n.byName(q.Dialect(), where, next), append(args, text, text+lastChar, limit)...)
	if err != nil {
		return nil, fmt.Errorf("find in %s by name: %w", n.Table, err)
	}
	all := appendNew(byID, byName)
	if words := NewWords(text); len(all) < limit && len(words) > 0 {
		byWords, err := n.findWords(q, where, args, words, limit)
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

// errEnough ends a query that has found as many rows as were wanted.
var errEnough = errors.New("db: enough rows")

// findWords returns the first rows whose names have these words, of the first maxNames names. The database
// leaves out most other rows, by the index alone.
func (n NameIndex) findWords(q Querier, where string, args []any, words Words, limit int) ([]Named, error) {
	from, name := n.source(q.Dialect())
	query := fmt.Sprintf(`SELECT id, name FROM (SELECT %s AS id, name, %s AS lowered FROM %s%s ORDER BY %s LIMIT %d) AS names
		WHERE lowered LIKE $%d`, n.ID, name, from, where, name, maxNames, len(args)+1)
	var found []Named
	_, err := Collect(q, func(row Row) (struct{}, error) {
		one, err := scanNamed(row)
		if err == nil && words.In(one.Name) {
			found = append(found, one)
		}
		if len(found) == limit {
			return struct{}{}, errEnough
		}
		return struct{}{}, err
	}, query, append(slices.Clone(args), words.pattern())...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// Words are the words of a text that people search for, in lower case: what stands between characters
// that are neither letters nor digits.
type Words []string

// NewWords returns the words of a text.
func NewWords(text string) Words {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !isWordChar(c) })
}

// isWordChar reports whether a character is part of a word. Marks belong to the letter before them.
func isWordChar(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) }

// In reports whether each word is a word of a name, or the beginning of one. There is no word in "".
func (w Words) In(name string) bool {
	words := NewWords(name)
	for _, wanted := range w {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, wanted) }) {
			return false
		}
	}
	return len(w) > 0
}

// pattern returns a pattern for LIKE that every name with these words matches when it is in lower case. It
// has the longest word, without the characters whose case a database may not know.
func (w Words) pattern() string {
	longest := slices.MaxFunc(w, func(a, b string) int { return len(a) - len(b) })
	return "%" + strings.Map(func(c rune) rune {
		if c >= utf8.RuneSelf {
			return '%'
		}
		return c
	}, longest) + "%"
}

// byName returns the statement that finds rows by name. Its parameters from next on are the first name,
// the end of the names, and the limit.
func (n NameIndex) byName(dialect Dialect, where string, next int) string {
	from, name := n.source(dialect)
	return fmt.Sprintf(`SELECT %s, name FROM %s%s AND %s >= lower($%d) AND %s < lower($%d) ORDER BY %s LIMIT $%d`,
		n.ID, from, where, name, next, name, next+1, name, next+2)
}

// source returns the table with the index to use, and the expression of the index.
func (n NameIndex) source(dialect Dialect) (from, name string) {
	if dialect == Postgres {
		return n.Table, `lower(name) COLLATE "C"`
	}
	return n.Table + " INDEXED BY " + n.Index, "lower(name)"
}

func scanNamed(row Row) (n Named, err error) { return n, row.Scan(&n.ID, &n.Name) }
