package libsql

import "strings"

// skipSpace returns SQL without leading spaces, comments and semicolons. It is empty if there is no
// statement.
func skipSpace(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f;")
		switch {
		case strings.HasPrefix(sql, "\ufeff"):
			sql = sql[len("\ufeff"):]
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		default:
			return sql
		}
	}
}

// keyword returns the first word of SQL in upper case, and the rest.
func keyword(sql string) (word, rest string) {
	sql = skipSpace(sql)
	end := 0
	for end < len(sql) && isLetter(sql[end]) {
		end++
	}
	return strings.ToUpper(sql[:end]), sql[end:]
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

// verb is the kind of a statement whose effect the authorizer is not told.
type verb int

const (
	otherVerb verb = iota
	beginVerb      // BEGIN IMMEDIATE or EXCLUSIVE, which take the write lock
	readVerb       // BEGIN TRANSACTION READONLY, which SQLite takes for the name of the transaction
	vacuumVerb
	explainVerb
)

// verbOf returns the verb of a statement.
func verbOf(sql string) verb {
	word, rest := keyword(sql)
	switch word {
	case "BEGIN":
		mode, rest := keyword(rest)
		name, _ := keyword(rest)
		switch {
		case mode == "IMMEDIATE" || mode == "EXCLUSIVE":
			return beginVerb
		case mode == "TRANSACTION" && name == "READONLY":
			return readVerb
		}
	case "VACUUM":
		return vacuumVerb
	case "EXPLAIN":
		return explainVerb
	}
	return otherVerb
}

// quote returns a name as SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
