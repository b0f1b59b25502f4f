package web

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
)

// parseQuery parses a URL's query. It returns Malformed if url.ParseQuery rejects it or it is not UTF-8.
func parseQuery(u *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if decoded, _ := url.QueryUnescape(u.RawQuery); err != nil || !utf8.ValidString(decoded) {
		return nil, errs.New(errs.Malformed, "the query string is malformed; special characters must be percent-encoded, as UTF-8")
	}
	return query, nil
}

// checkRepeats adds a fault for each of the route's parameters that is repeated, since we would use only
// one value.
func (s *servedRoute) checkRepeats(faults *errs.Faults, query url.Values) {
	for _, p := range s.parameters {
		if p.in == "query" {
			faults.Check(len(query[p.name]) <= 1, "query."+p.name, "expected one value; the parameter is given more than once")
		}
	}
}

// suggest adds a fault for each unknown name that is nearly a known one, because a misspelt filter must
// not list everything. It ignores other unknown names.
func (s *servedRoute) suggest(faults *errs.Faults, query url.Values) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.ContainsFunc(s.parameters, func(p parameter) bool { return p.in == "query" && p.name == name }) {
			continue
		}
		for _, p := range s.parameters {
			if p.in == "query" && isNearly(name, p.name) {
				faults.Add("query."+name, "unknown parameter; did you mean `%s`?", p.name)
			}
		}
	}
}

// isNearly reports whether two names differ only in case, `_` and `-`, or in at most two edits that are
// also at most a third of the known name's length.
func isNearly(name, known string) bool {
	a, b := plainName(name), plainName(known)
	allowed := min(2, len(b)/3)
	if len(b) <= 3 {
		allowed = 0 // a single edit makes another word
	}
	if max(len(a)-len(b), len(b)-len(a)) > allowed {
		return false
	}
	return distance(a, b) <= allowed
}

func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// distance counts the edits between two texts: bytes inserted, removed or replaced, and neighbours
// swapped (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
