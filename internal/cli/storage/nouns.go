package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
	"steward/internal/cli/shell"
)

type resourceType struct{ thing, placeholder string }

// resourceTypes maps the API's names to the types.
func resourceTypes() map[string]resourceType {
	return map[string]resourceType{
		"s3": {"bucket", "bucket"}, "db": {"database", "database"}, "kv": {"key-value store", "store"},
	}
}

// oneNew returns the body for a request that creates one resource.
func oneNew(resource map[string]any) any {
	return map[string][]any{"resources": {resource}}
}

func created(_ noun.Input, body json.RawMessage) (json.RawMessage, error) {
	var res struct{ Created []json.RawMessage }
	if err := json.Unmarshal(body, &res); err != nil || len(res.Created) != 1 {
		return body, nil // printed as it is
	}
	return res.Created[0], nil
}

// resourceVerbs returns the verbs that buckets, databases and stores share.
func resourceVerbs(kind, thing, placeholder string) []noun.Verb {
	return []noun.Verb{
		{
			Name: "list", Short: "List " + thing + "s of all regions", Route: "GET /resource", List: true,
			Pick: kind, Fixed: map[string]any{"type": kind},
		},
		{Name: "get", Short: "Show a " + thing + " with its credentials", Route: "GET /resource/{org}/{region}/{" + placeholder + "}", Run: noun.FromList(placeholder)},
		{
			Name: "create", Short: "Create a " + thing + " and print its credentials", Route: "POST /resource/{org}/{region}",
			Args:   []noun.Field{{Name: "NAME", Path: "name", Optional: true}},
			Fields: []noun.Field{{Name: "description", Path: "description", Usage: "`text`"}},
			Fixed:  map[string]any{"type": kind}, Wrap: oneNew, Show: created,
		},
		{
			Name: "delete", Short: "Delete a " + thing + " with all that it holds", Route: "DELETE /resource/{org}/{region}/{" + placeholder + "}",
			With: " with all that it holds",
			Run:  deleteResource(kind, thing, placeholder),
		},
		{
			Name: "env", Short: "Print the environment variables with which programs use a " + thing,
			Route: "GET /resource/{org}/{region}/{" + placeholder + "}", Run: printEnv(placeholder),
		},
		{
			Name: "rotate", Short: "Replace the credentials of a " + thing + "; the old ones are refused at once",
			Route: "POST /resource/{org}/{region}/{" + placeholder + "}/rotate", Run: rotate(kind, thing, placeholder),
		},
	}
}

// rotate returns the run function for a verb that replaces a resource's credentials.
func rotate(kind, thing, placeholder string) func(ctx context.Context, s *session.Session, in noun.Input) error {
	return func(ctx context.Context, s *session.Session, in noun.Input) error {
		what := fmt.Sprintf("the credentials of %s %s in %s, which programs may use,", thing, in.Path[placeholder], in.Path["region"])
		if err := s.Confirm(ctx, "Replacing "+what); err != nil {
			return err
		}
		path := in.Expand("/resource/{org}/{region}/{" + placeholder + "}/rotate")
		res, err := s.API.Send(ctx, session.Request{Method: "POST", Path: path, Query: url.Values{"type": {kind}}})
		if err != nil {
			return err
		}
		return s.Printer.Item(res.Body)
	}
}

// deleteResource returns the run function for a verb that deletes a resource.
func deleteResource(kind, thing, placeholder string) func(ctx context.Context, s *session.Session, in noun.Input) error {
	return func(ctx context.Context, s *session.Session, in noun.Input) error {
		name := in.Path[placeholder]
		what := fmt.Sprintf("%s %s in %s with all that it holds", thing, name, in.Path["region"])
		if err := s.Confirm(ctx, "Deleting "+what); err != nil {
			return err
		}
		body := client.ResourceDeletion{Resources: []client.NamedResource{{Type: client.ResourceType(kind), Name: name}}}
		if _, err := s.API.Send(ctx, session.Request{Method: "DELETE", Path: in.Expand("/resource/{org}/{region}"), Body: body}); err != nil {
			return err
		}
		return s.Printer.Text("Deleted %s.", what)
	}
}

// printEnv returns the run function for a verb that prints a resource's variables, quoted for a
// shell.
func printEnv(placeholder string) func(ctx context.Context, s *session.Session, in noun.Input) error {
	return func(ctx context.Context, s *session.Session, in noun.Input) error {
		raw, err := noun.Find(ctx, s, placeholder, in)
		if err != nil {
			return err
		}
		var entry struct{ Env map[string]string }
		if err := session.Decode(raw, &entry); err != nil {
			return err
		}
		if !s.Printer.Tabular() {
			text, err := json.Marshal(entry.Env)
			if err != nil {
				return err
			}
			return s.Printer.Item(text)
		}
		for _, name := range slices.Sorted(maps.Keys(entry.Env)) {
			quoted := "'" + strings.ReplaceAll(entry.Env[name], "'", `'\''`) + "'"
			if err := s.Printer.Text("export %s=%s", name, quoted); err != nil {
				return err
			}
		}
		return nil
	}
}

func bucketNoun() noun.Noun {
	return noun.Noun{
		Name: "bucket", Thing: "bucket", Short: "Manage buckets and their configuration",
		Columns: append([]output.Column{
			output.Name("NAME", "bucket_name"), noun.Column("REGION", "cloud_region"), noun.CountColumn("OBJECTS", "object_count"),
			{Title: "SIZE", Path: "total_size", Kind: output.Bytes},
			noun.TimeColumn("LAST EVENT", "last_event_at"), noun.Column("DESCRIPTION", "description"),
		}, noun.Wide(noun.Column("ENDPOINT", "endpoint"), noun.Column("ACCESS KEY", "access_key"))...),
		Verbs: append(resourceVerbs("s3", "bucket", "bucket"),
			noun.Verb{Name: "config", Short: "Show the configuration of a bucket", Route: "GET /bucket/config/{bucket}"},
			noun.Verb{
				Name: "update", Short: "Change the configuration of a bucket; an empty value resets a setting",
				Route: "PUT /bucket/config/{bucket}",
				Fields: []noun.Field{
					{Name: "public", Path: "public", Kind: noun.Boolean, Usage: "whether anybody can read objects"},
					{Name: "ttl", Path: "ttl", Kind: noun.Seconds, Usage: "`duration` after which objects are deleted"},
					{Name: "tier", Path: "storage_tier", Values: []string{"STANDARD", "INFREQUENT_ACCESS", "ARCHIVE", ""}, Usage: "storage `tier`: STANDARD, INFREQUENT_ACCESS or ARCHIVE"},
					{Name: "cache-control", Path: "cache_control", Usage: "Cache-Control `header` of objects"},
					{Name: "header", Path: "additional_headers", Kind: noun.Pairs, Usage: "`name=value` of a further header of objects"},
					{Name: "cors", Path: "cors", Kind: noun.Object, Usage: "CORS rules as `JSON`, such as {\"allowed_origins\":[\"*\"]}"},
				},
			},
			noun.Verb{Name: "reset", Short: "Reset the configuration of a bucket to its defaults", Route: "DELETE /bucket/config/{bucket}", With: "'s configuration"},
			noun.Verb{Name: "stats", Short: "Show how much a bucket holds", Route: "GET /storage/stats/{bucket}"}),
	}
}

func databaseNoun() noun.Noun {
	return noun.Noun{
		Name: "db", Aliases: []string{"database"}, Thing: "database", Short: "Manage databases and query them",
		Columns: resourceColumns(), More: []func(*session.Env) *cobra.Command{shell.Query, shell.Database},
		Verbs: append(resourceVerbs("db", "database", "database"), noun.Verb{
			Name: "tables", Short: "List the tables and views of a database",
			Route: "GET /resource/{org}/{region}/{database}/tables", List: true, Columns: shell.TableColumns(),
		}),
	}
}

func storeNoun() noun.Noun {
	return noun.Noun{
		Name: "kv", Thing: "key-value store", Short: "Manage key-value stores and use them",
		Columns: resourceColumns(),
		More:    []func(*session.Env) *cobra.Command{storeGet, storeSet, storeDelete, storeTTL, shell.Store},
		Verbs: append(slices.DeleteFunc(resourceVerbs("kv", "key-value store", "store"), isGet), noun.Verb{
			Name: "keys", Aliases: []string{"scan"}, Short: "List the keys of a key-value store",
			Route: "GET /resource/{org}/{region}/{store}/keys",
			List:  true, Pick: "keys", Columns: []output.Column{
				{Title: "KEY", Path: "key", Cut: output.CutNever},
				noun.Column("TYPE", "type"),
				{Title: "EXPIRES IN", Path: "ttl_ms", Kind: output.Millis},
			},
			Fields: []noun.Field{
				{Name: "prefix", Path: "prefix", Usage: "only those that begin with this `text`"},
				{
					Name: "type", Path: "type", Values: []string{"string", "hash", "list", "set", "zset", "stream"},
					Usage: "only those with values of this `type`: string, hash, list, set, zset or stream",
				},
			},
		}),
	}
}

// isGet reports whether a verb is get. Stores replace it with their own.
func isGet(v noun.Verb) bool { return v.Name == "get" }

func resourceColumns() []output.Column {
	return append([]output.Column{
		output.Name("NAME", "name"), noun.Column("REGION", "cloud_region"), noun.Column("ENGINE", "engine"), noun.Column("DESCRIPTION", "description"),
	}, noun.Wide(noun.Column("URL", "url"), noun.Column("USERNAME", "username"))...)
}

func resourceNoun() noun.Noun {
	typeField := noun.Field{Name: "TYPE", Path: "type", Values: []string{"s3", "db", "kv"}}
	return noun.Noun{
		Name: "resource", Thing: "resource", Short: "Manage buckets, databases and key-value stores together",
		Columns: []output.Column{
			{Title: "NAME", Cut: output.CutLast, Value: resourceName},
			noun.Column("TYPE", "type"), noun.Column("REGION", "cloud_region"),
			noun.Column("ENGINE", "engine"), noun.Column("DESCRIPTION", "description"),
		},
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List the resources of all regions", Route: "GET /resource", List: true, Items: allResources,
				Fields: []noun.Field{
					{Name: "type", Path: "type", Values: typeField.Values, Usage: "only of this `type`: s3, db or kv"},
					{Name: "name", Path: "name", Usage: "only with this `name`"},
				},
			},
			{
				Name: "get", Short: "Show a resource with its credentials", Route: "GET /resource",
				Args: []noun.Field{typeField, {Name: "NAME", Path: "name"}}, Fields: []noun.Field{regionField()},
				Run: oneResource(func(_, _, placeholder string) func(context.Context, *session.Session, noun.Input) error {
					return noun.FromList(placeholder)
				}),
			},
			{
				Name: "create", Short: "Create a resource and print its credentials", Route: "POST /resource/{org}/{region}",
				Args:   []noun.Field{typeField, {Name: "NAME", Path: "name", Optional: true}},
				Fields: []noun.Field{{Name: "description", Path: "description", Usage: "`text`"}},
				Wrap:   oneNew, Show: created,
			},
			{
				Name: "delete", Short: "Delete a resource with all that it holds", Route: "DELETE /resource",
				Args: []noun.Field{typeField, {Name: "NAME", Path: "name"}}, Fields: []noun.Field{regionField()},
				Run: oneResource(deleteResource),
			},
		},
	}
}

func regionField() noun.Field {
	return noun.Field{Name: "region", Path: "region", Noun: "region", Usage: "`region` (default: the only one that has it)"}
}

// oneResource returns the run function for a verb that does something with the resource that has a
// type and a name.
func oneResource(
	do func(kind, thing, placeholder string) func(context.Context, *session.Session, noun.Input) error,
) func(context.Context, *session.Session, noun.Input) error {
	return func(ctx context.Context, s *session.Session, in noun.Input) (err error) {
		kind, _ := in.Fields["type"].(string)
		name, _ := in.Fields["name"].(string)
		region, _ := in.Fields["region"].(string)
		t := resourceTypes()[kind]
		if region == "" {
			region, err = noun.Locate(ctx, s, t.placeholder, name)
			if err != nil {
				return err
			}
		}
		org, err := s.OrgID(ctx)
		if err != nil {
			return err
		}
		in.Path = map[string]string{"org": org, "region": region, t.placeholder: name}
		return do(kind, t.thing, t.placeholder)(ctx, s, in)
	}
}

func resourceName(item map[string]any) any {
	if name := item["bucket_name"]; name != nil {
		return name
	}
	return item["name"]
}

// allResources returns the resources of all types as one list. Each has its type.
func allResources(ctx context.Context, s *session.Session, in noun.Input) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		var all map[string][]json.RawMessage
		raw, err := s.API.Get(ctx, "/resource", in.Query())
		if err == nil {
			err = session.Decode(raw, &all)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, kind := range []string{"s3", "db", "kv"} {
			for _, entry := range all[kind] {
				typed := fmt.Appendf(nil, `{"type":%q,%s`, kind, strings.TrimPrefix(string(entry), "{"))
				if !yield(typed, nil) {
					return
				}
			}
		}
	}
}
