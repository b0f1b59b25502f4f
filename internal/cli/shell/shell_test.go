package shell

import (
	"strings"
	"testing"
)

func TestWordsOfACommand(t *testing.T) {
	for line, want := range map[string]string{
		`SET a b`: "SET|a|b", `  GET  'a b' `: "GET|a b", `SET k "x \"y\"\n"`: "SET|k|x \"y\"\n", `''`: "", "": "",
	} {
		got, err := splitWords(line)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`'a`, `"a`, `"\q"`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestStatementsEndWithASemicolon(t *testing.T) {
	for statement, want := range map[string]bool{
		"SELECT 1;": true, "SELECT 1": false, "SELECT 'a;": false, "SELECT 'a;';": true, ".tables": true, "INSERT\n": false, `SELECT "x;`: false,
	} {
		if got := completeStatement(statement); got != want {
			t.Errorf("%q: %t", statement, got)
		}
	}
}
