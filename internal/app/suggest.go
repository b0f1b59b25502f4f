package app

import "strings"

const serveHelp = "steward serve --help"

// suggestion returns the end of a message about an unknown name: the most similar known one, or the
// command that lists them.
func suggestion(name string, known []string, help string) string {
	best := ""
	least := max(2, len(bare(name))/3) + 1
	for _, k := range known {
		if d := levenshtein(bare(name), bare(k)); d < least {
			best = k
			least = d
		}
	}
	if best == "" {
		return "; see `" + help + "`"
	}
	return "; did you mean " + best + "?"
}

// bare returns a name without what all names of its kind share.
func bare(name string) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, envPrefix), "--"))
}

// levenshtein returns the least number of bytes to insert, delete or replace to turn a into b.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
