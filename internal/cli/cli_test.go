package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

func TestTablesAreComplete(t *testing.T) {
	for _, n := range []noun.Noun{threadNoun(), sessionNoun(), evalNoun(), runNoun(), regionNoun()} {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestFieldsOfABody(t *testing.T) {
	for text, want := range map[string]string{
		"a=1":                       `{"a":1}`,
		"a=x b=true c=null d=1.50":  `{"a":"x","b":true,"c":null,"d":1.50}`,
		"a=007 b=+1 c=NaN d=0x1 e=": `{"a":"007","b":"+1","c":"NaN","d":"0x1","e":""}`,
		"a=12345678901234567890":    `{"a":12345678901234567890}`,
		`a={"b":[1]} c=[] d={`:      `{"a":{"b":[1]},"c":[],"d":"{"}`,
		"a.b=1 a.c.d=2":             `{"a":{"b":1,"c":{"d":2}}}`,
		"a[b]=1 a[x.y]=2":           `{"a":{"b":1,"x.y":2}}`,
		"a[]=1 a[]=x":               `{"a":[1,"x"]}`,
		"a[][b]=1 a[][b]=2":         `{"a":[{"b":1},{"b":2}]}`,
		"a.b[]=1":                   `{"a":{"b":[1]}}`,
		"a=b=c":                     `{"a":"b=c"}`,
		"a=1 a=2":                   "",
		"a=1 a.b=2":                 "",
		"a[]=1 a.b=2":               "",
		"a.b=1 a[]=2":               "",
		"a..b=1":                    "",
		".a=1":                      "",
		"a[=1":                      "",
		"a]=1":                      "",
		"[a]=1":                     "",
		"a":                         "",
		"=1":                        "",
	} {
		fields, err := parseFields(apiFlags{fields: strings.Fields(text)}, nil)
		var got []byte
		if err == nil {
			var made any
			if made, err = body(fields); err == nil {
				got, err = json.Marshal(made)
			}
		}
		if string(got) != want || (exit.Code(err) == exit.Usage) != (want == "") {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestRawFieldsAreTexts(t *testing.T) {
	fields, err := parseFields(apiFlags{raw: []string{"a=1", "b=@x", "c.d=true"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := body(fields)
	if diff := cmp.Diff(map[string]any{"a": "1", "b": "@x", "c": map[string]any{"d": "true"}}, made); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestEveryListCanBeWatched finds the commands that print lists by their flag --limit and by their name.
func TestEveryListCanBeWatched(t *testing.T) {
	root := &cobra.Command{Use: "steward"}
	AddCommands(root, session.Program{})
	lists := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		isList := slices.Contains([]string{"list", "ls", "users", "activity", "keys", "tables"}, cmd.Name())
		if isList || cmd.Flags().Lookup("limit") != nil {
			lists++
			if cmd.Flags().Lookup("watch") == nil {
				t.Errorf("%s cannot be watched", cmd.CommandPath())
			}
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(root)
	if lists < 20 {
		t.Errorf("only %d lists", lists)
	}
}
