package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cli/contexts"
)

func TestContextIsThatOfTheFlagElseTheEnvironmentElseTheCurrentOne(t *testing.T) {
	all := contexts.All{Current: "a", Contexts: map[string]contexts.Context{
		"a": {URL: "http://a", Key: "key-a"}, "b": {URL: "http://b", Key: "key-b"},
	}}
	for name, test := range map[string]struct {
		flag    string
		environ []string
		all     contexts.All
		want    string // URL and key, or the exit code
	}{
		"current":            {"", nil, all, "http://a key-a"},
		"flag":               {"b", nil, all, "http://b key-b"},
		"flag over both":     {"b", []string{"STEWARD_URL=http://c", "STEWARD_KEY=key-c"}, all, "http://b key-b"},
		"both variables":     {"", []string{"STEWARD_URL=http://c/", "STEWARD_KEY=key-c"}, all, "http://c key-c"},
		"URL of a context":   {"", []string{"STEWARD_URL=http://b"}, all, "http://b key-b"},
		"unknown URL":        {"", []string{"STEWARD_URL=http://c"}, all, "code 4"},
		"wrong URL":          {"", []string{"STEWARD_URL=c"}, all, "code 2"},
		"key alone":          {"", []string{"STEWARD_KEY=key-c"}, all, "http://a key-c"},
		"key without server": {"", []string{"STEWARD_KEY=key-c"}, contexts.All{}, "code 4"},
		"empty variables":    {"", []string{"STEWARD_URL=", "STEWARD_KEY="}, all, "http://a key-a"},
		"nothing":            {"", nil, contexts.All{}, "code 4"},
		"unknown context":    {"c", nil, all, "code 2"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &env{Program: Program{Environ: test.environ}, context: test.flag}
			_, c, err := e.choose(test.all)
			got := c.URL + " " + c.Key
			if err != nil {
				got = "code " + string(rune('0'+ExitCode(err)))
			}
			if got != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}
}

func TestOriginsOfServers(t *testing.T) {
	for text, want := range map[string]string{
		"https://Steward.example.com/": "https://steward.example.com", "http://127.0.0.1:8080": "http://127.0.0.1:8080",
		"localhost:8080": "", "ftp://h": "", "https://h/path": "", "https://u:p@h": "", "https://h?q": "", "https://": "",
	} {
		if got, err := parseOrigin(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	documented := map[int]bool{}
	for _, c := range Codes() {
		documented[c.Code] = true
	}
	for status, want := range map[int]int{
		400: 7, 401: 4, 403: 4, 404: 3, 405: 1, 409: 5, 412: 5, 413: 7, 415: 7, 422: 7, 429: 6, 500: 1, 502: 6, 503: 6,
	} {
		if got := codeOf(status); got != want || !documented[got] {
			t.Errorf("status %d: code %d, want %d", status, got, want)
		}
	}
	for err, want := range map[error]int{nil: 0, errors.New("x"): 1, context.Canceled: 130, usagef("x"): 2} {
		if got := ExitCode(err); got != want || !documented[got] {
			t.Errorf("%v: code %d, want %d", err, got, want)
		}
	}
}

func TestTimesAreDurationsOrDates(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour} {
		at, err := pastTime(text)
		if err != nil || (time.Since(at)-want).Abs() > time.Minute {
			t.Errorf("%s: %v, %v", text, at, err)
		}
	}
	for text, want := range map[string]string{
		"2026-11-15T08:30:00+01:00": "2026-11-15T07:30:00.000Z", "2026-11-15 08:30:00": "2026-11-15T08:30:00.000Z",
		"2026-11-15": "2026-11-15T00:00:00.000Z",
	} {
		if got, err := moment(text, -1); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "d", "-d", "99999d"} {
		if got, err := moment(text, -1); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestFieldsBecomeMembers(t *testing.T) {
	members := map[string]any{}
	for _, f := range []struct {
		field
		texts []string
	}{
		{field{path: "name"}, []string{"x"}},
		{field{path: "cleared"}, []string{""}},
		{field{path: "config.url"}, []string{"u"}},
		{field{path: "config.retries", kind: number}, []string{"3"}},
		{field{path: "config.headers", kind: pairs}, []string{"A=b=c", "D="}},
		{field{path: "ttl", kind: seconds}, []string{"1d"}},
		{field{path: "scopes", kind: list}, []string{"a", "", "b"}},
		{field{path: "public", kind: boolean}, []string{"false"}},
		{field{path: "cors", kind: object}, []string{`{"a":[1]}`}},
	} {
		if err := f.set(members, f.texts); err != nil {
			t.Errorf("%s: %v", f.path, err)
		}
	}
	want := map[string]any{
		"name": "x", "cleared": nil, "ttl": int64(86400), "scopes": []string{"a", "b"}, "public": false,
		"config": map[string]any{"url": "u", "retries": int64(3), "headers": map[string]any{"A": "b=c", "D": ""}},
		"cors":   map[string]any{"a": []any{1.0}},
	}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Error(diff)
	}
	for _, f := range []field{{kind: number}, {kind: pairs}, {kind: object}, {kind: past}, {kind: seconds}, {values: []string{"y"}}} {
		if err := f.set(members, []string{"wrong"}); ExitCode(err) != ExitUsage {
			t.Errorf("kind %d: %v", f.kind, err)
		}
	}
}

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

// TestEveryPlaceholderCanBeLookedUp checks the tables of nouns.
func TestEveryPlaceholderCanBeLookedUp(t *testing.T) {
	var check func(n noun)
	check = func(n noun) {
		for _, v := range n.verbs {
			if v.short == "" || v.route == "" || v.list && v.columns == nil && n.columns == nil {
				t.Errorf("%s %s is not complete", n.name, v.name)
			}
			for _, p := range v.placeholders() {
				if _, ok := lookups()[p]; !ok {
					t.Errorf("%s %s: no lookup of %s", n.name, v.name, p)
				}
			}
		}
		for _, below := range n.nouns {
			check(below)
		}
	}
	for _, n := range append(nouns(), replayNoun()) {
		check(n)
	}
}
