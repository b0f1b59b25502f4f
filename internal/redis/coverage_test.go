package redis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// notCompared are commands that are not among the examples, and why.
var notCompared = map[string]string{
	"auth":             "it authenticates for a store",
	"bgrewriteaof":     "redis-server forks",
	"bgsave":           "redis-server forks",
	"client|no-touch":  "Redis 7.2",
	"client|pause":     "it stops redis-server, too: TestPause",
	"client|reply":     "it has no reply: TestClientReply",
	"client|setinfo":   "Redis 7.2",
	"client|unpause":   "it stops redis-server, too: TestPause",
	"command":          "there are fewer commands",
	"command|docs":     "what it tells differs",
	"command|getkeys":  "the keys of each command are in the table",
	"command|info":     "what it tells differs",
	"command|list":     "there are fewer commands",
	"config|resetstat": "it has no other reply than OK",
	"config|set":       "there are fewer settings",
	"quit":             "it closes the connection: TestHello",
}

// notDrawn are options that are not among the examples, and why.
var notDrawn = map[string]string{
	"client|tracking BCAST": "redis-server sends the messages later: TestBroadcastTracking",
	"hello AUTH":            "it authenticates for a store",
}

// TestExamplesCoverCommands checks that all commands are compared with redis-server, with all options that it
// describes. Those of scripts have tests of their own.
func TestExamplesCoverCommands(t *testing.T) {
	drawn := drawnWords()
	for _, name := range comparedCommands() {
		if drawn[name] == nil {
			t.Errorf("%s has no example", name)
		}
	}
	w := dial(t, startRedis(t))
	docs := w.pipeline(t, [][]string{{"COMMAND", "DOCS"}})[0].([]any)
	for i := 0; i < len(docs); i += 2 {
		checkTokens(t, docs[i].(string), docs[i+1].([]any), drawn)
	}
}

// comparedCommands returns the names of the commands that must have examples, with | before subcommands.
func comparedCommands() []string {
	var names []string
	for _, cmd := range newTable() {
		for _, c := range append([]*command{cmd}, cmd.sub...) {
			if c.run != nil && notCompared[c.name] == "" && !strings.HasSuffix(c.name, "|help") && !slices.Contains(scriptCommands, cmd) {
				names = append(names, c.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// drawnWords returns the words that examples draw, in upper case, by the name of the command.
func drawnWords() map[string]map[string]bool {
	all := slices.Concat(examples(), connectionExamples, transactionExamples, pubSubExamples, trackingExamples, blockingExamples)
	drawn := map[string]map[string]bool{}
	for _, e := range all {
		requests := rapid.Custom(func(t *rapid.T) []string {
			rapid.Bool().Draw(t, "something")
			return e.request(t)
		})
		for seed := range 100 {
			args := requests.Example(seed)
			names := []string{strings.ToLower(args[0])}
			if len(args) > 1 {
				names = append(names, strings.ToLower(args[0]+"|"+args[1]))
			}
			for _, name := range names {
				if drawn[name] == nil {
					drawn[name] = map[string]bool{}
				}
				for _, arg := range args[1:] {
					drawn[name][strings.ToUpper(arg)] = true
				}
			}
		}
	}
	return drawn
}

// checkTokens checks that examples have the options that redis-server describes, of a command and of its
// subcommands.
func checkTokens(t *testing.T, name string, doc []any, drawn map[string]map[string]bool) {
	fields := map[string]any{}
	for i := 0; i+1 < len(doc); i += 2 {
		fields[doc[i].(string)] = doc[i+1]
	}
	if subcommands, ok := fields["subcommands"].([]any); ok {
		for i := 0; i < len(subcommands); i += 2 {
			checkTokens(t, subcommands[i].(string), subcommands[i+1].([]any), drawn)
		}
		return
	}
	if !slices.Contains(comparedCommands(), name) {
		return
	}
	tokens := map[string]bool{}
	findTokens(fields["arguments"], tokens)
	for _, token := range slices.Sorted(maps.Keys(tokens)) {
		if !drawn[name][token] && notDrawn[fmt.Sprint(name, " ", token)] == "" {
			t.Errorf("no example of %s has %s", name, token)
		}
	}
}

// findTokens adds the tokens of a description of arguments.
func findTokens(doc any, tokens map[string]bool) {
	all, _ := doc.([]any)
	for i, element := range all {
		if element == "token" && i+1 < len(all) {
			tokens[strings.ToUpper(all[i+1].(string))] = true
		}
		findTokens(element, tokens)
	}
}
