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

func TestTextsAreSplitIntoStatements(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1;":                "SELECT 1;|",
		"SELECT 1":                 "|SELECT 1",
		"SELECT 1; SELECT 2; x":    "SELECT 1;| SELECT 2;| x",
		"SELECT 'a;":               "|SELECT 'a;",
		"SELECT 'it''s;', \"x;\";": "SELECT 'it''s;', \"x;\";|",
		"-- don't; do\nSELECT 1;":  "-- don't; do\nSELECT 1;|",
		"/* ; ' */ SELECT 1;":      "/* ; ' */ SELECT 1;|",
		".tables":                  ".tables|",
		".tables\nSELECT 1;":       ".tables|SELECT 1;|",
		"DO $$ BEGIN; END $$;":     "DO $$ BEGIN; END $$;|",
		"SELECT $a$;$$;$a$;":       "SELECT $a$;$$;$a$;|",
		"SELECT $1;":               "SELECT $1;|",
		"CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END;":               "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END;|",
		"CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;":                    "|CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;",
		"CREATE TRIGGER t AFTER INSERT ON a EXECUTE FUNCTION f(); SELECT 1;":         "CREATE TRIGGER t AFTER INSERT ON a EXECUTE FUNCTION f();| SELECT 1;|",
		"-- a\n/* b */ CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;": "|-- a\n/* b */ CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;",
		"": "|",
	} {
		statements, rest := splitSQL(text)
		if got := strings.Join(append(statements, rest), "|"); got != want && "|"+got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
