package libsql

import "strings"

// skipSpace strips leading spaces, comments and semicolons. It returns "" if no statement follows.
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

// keyword returns the first word in upper case, and the rest.
func keyword(sql string) (word, rest string) {
	sql = skipSpace(sql)
	end := 0
	for end < len(sql) && isLetter(sql[end]) {
		end++
	}
	return strings.ToUpper(sql[:end]), sql[end:]
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

// verb marks statements whose effects SQLite does not tell the authorizer.
type verb int

const (
	otherVerb verb = iota
	beginVerb      // BEGIN IMMEDIATE or EXCLUSIVE, which takes the write lock
	readVerb       // BEGIN TRANSACTION READONLY; SQLite thinks READONLY is a name
	vacuumVerb
	explainVerb
)

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

// quote quotes a name for SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
