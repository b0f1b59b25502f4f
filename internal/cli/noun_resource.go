package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/cli/output"
)

// resourceTypes are the types of resources with the placeholder of each.
func resourceTypes() map[string]string {
	return map[string]string{"s3": "bucket", "db": "database", "kv": "store"}
}

// resourceBody returns the wrap of a request about one resource.
func resourceBody(kind string) func(map[string]any) any {
	return func(body map[string]any) any {
		if kind != "" {
			body["type"] = kind
		}
		return map[string]any{"resources": []any{body}}
	}
}

// created returns the entry of the resource that was created.
func created(_ input, body json.RawMessage) (json.RawMessage, error) {
	var res struct{ Created []json.RawMessage }
	if err := json.Unmarshal(body, &res); err != nil || len(res.Created) != 1 {
		return body, nil // printed as it is
	}
	return res.Created[0], nil
}

// resourceVerbs returns the verbs that buckets, databases and stores share.
func resourceVerbs(kind, thing, placeholder string) []verb {
	return []verb{
		{
			name: "list", short: "List " + thing + "s of all regions", route: "GET /resource", list: true,
			pick: kind, fixed: map[string]any{"type": kind},
		},
		{name: "get", short: "Show a " + thing + " with its credentials", route: "GET /resource/{" + placeholder + "}", run: fromList(placeholder)},
		{
			name: "create", short: "Create a " + thing + " and print its credentials", route: "POST /resource/{org}/{region}",
			args:   []field{{name: "NAME", path: "name", optional: true}},
			fields: []field{{name: "description", path: "description", usage: "`text`"}},
			wrap:   resourceBody(kind), show: created,
		},
		{
			name: "delete", short: "Delete a " + thing + " with all that it holds", route: "DELETE /resource/{org}/{region}/{" + placeholder + "}",
			with: " with all that it holds",
			run:  deleteResource(kind, thing, placeholder),
		},
		{
			name: "env", short: "Print the environment variables with which programs use a " + thing,
			route: "GET /resource/{" + placeholder + "}", run: printEnv(placeholder),
		},
		{
			name: "rotate", short: "Replace the credentials of a " + thing + "; the old ones are refused at once",
			route: "POST /resource/{org}/{region}/{" + placeholder + "}/rotate", run: rotate(kind, placeholder),
		},
	}
}

// rotate returns the run of a verb that replaces the credentials of a resource.
func rotate(kind, placeholder string) func(ctx context.Context, s *session, in input) error {
	return func(ctx context.Context, s *session, in input) error {
		path := in.expand("/resource/{org}/{region}/{" + placeholder + "}/rotate")
		res, err := s.api.send(ctx, request{method: "POST", path: path, query: url.Values{"type": {kind}}})
		if err != nil {
			return err
		}
		return s.out.Item(res.Body)
	}
}

// deleteResource returns the run of a verb that deletes a resource.
func deleteResource(kind, thing, placeholder string) func(ctx context.Context, s *session, in input) error {
	return func(ctx context.Context, s *session, in input) error {
		name := in.path[placeholder]
		what := fmt.Sprintf("%s %s in %s with all that it holds", thing, name, in.path["region"])
		if err := s.confirm(ctx, "Deleting "+what); err != nil {
			return err
		}
		body := resourceBody(kind)(map[string]any{"name": name})
		if _, err := s.api.send(ctx, request{method: "DELETE", path: in.expand("/resource/{org}/{region}"), body: body}); err != nil {
			return err
		}
		return s.out.Text("Deleted %s.", what)
	}
}

// printEnv returns the run of a verb that prints the variables of a resource, quoted for a shell.
func printEnv(placeholder string) func(ctx context.Context, s *session, in input) error {
	return func(ctx context.Context, s *session, in input) error {
		raw, err := s.find(ctx, placeholder, in)
		if err != nil {
			return err
		}
		var entry struct{ Env map[string]string }
		if err := decodeInto(raw, &entry); err != nil {
			return err
		}
		if !s.out.Tabular() {
			text, err := json.Marshal(entry.Env)
			if err != nil {
				return err
			}
			return s.out.Item(text)
		}
		for _, name := range slices.Sorted(maps.Keys(entry.Env)) {
			quoted := "'" + strings.ReplaceAll(entry.Env[name], "'", `'\''`) + "'"
			if err := s.out.Text("export %s=%s", name, quoted); err != nil {
				return err
			}
		}
		return nil
	}
}

func bucketNoun() noun {
	return noun{
		name: "bucket", thing: "bucket", group: groupData, short: "Manage buckets and their configuration",
		columns: append([]output.Column{
			output.ID("NAME", "bucket_name"), column("REGION", "cloud_region"), column("OBJECTS", "object_count"),
			{Title: "SIZE", Path: "total_size", Kind: output.Bytes},
			timeColumn("LAST EVENT", "last_event_at"), column("DESCRIPTION", "description"),
		}, wide(column("ENDPOINT", "endpoint"), column("ACCESS KEY", "access_key"))...),
		verbs: append(resourceVerbs("s3", "bucket", "bucket"),
			verb{name: "config", short: "Show the configuration of a bucket", route: "GET /bucket/config/{bucket}"},
			verb{
				name: "update", short: "Change the configuration of a bucket; an empty value resets a setting",
				route: "PUT /bucket/config/{bucket}",
				fields: []field{
					{name: "public", path: "public", kind: boolean, usage: "whether anybody can read objects"},
					{name: "ttl", path: "ttl", kind: seconds, usage: "`duration` after which objects are deleted"},
					{name: "tier", path: "storage_tier", values: []string{"STANDARD", "INFREQUENT_ACCESS", "ARCHIVE", ""}, usage: "storage `tier`: STANDARD, INFREQUENT_ACCESS or ARCHIVE"},
					{name: "cache-control", path: "cache_control", usage: "Cache-Control `header` of objects"},
					{name: "header", path: "additional_headers", kind: pairs, usage: "`name=value` of a further header of objects"},
					{name: "cors", path: "cors", kind: object, usage: "CORS rules as `JSON`, such as {\"allowed_origins\":[\"*\"]}"},
				},
			},
			verb{name: "reset", short: "Reset the configuration of a bucket to its defaults", route: "DELETE /bucket/config/{bucket}", with: "'s configuration"},
			verb{name: "stats", short: "Show how much a bucket holds", route: "GET /storage/stats/{bucket}"}),
	}
}

func databaseNoun() noun {
	return noun{
		name: "db", aliases: []string{"database"}, thing: "database", group: groupData, short: "Manage databases and query them",
		columns: resourceColumns(), more: (*env).databaseCommands,
		verbs: append(resourceVerbs("db", "database", "database"), verb{
			name: "tables", short: "List the tables and views of a database",
			route: "GET /resource/{org}/{region}/{database}/tables", list: true, columns: tableColumns(),
		}),
	}
}

func storeNoun() noun {
	return noun{
		name: "kv", thing: "key-value store", group: groupData, short: "Manage key-value stores and use them",
		columns: resourceColumns(), more: (*env).storeCommands,
		verbs: append(resourceVerbs("kv", "key-value store", "store"), verb{
			name: "keys", short: "List the keys of a key-value store", route: "GET /resource/{org}/{region}/{store}/keys",
			list: true, pick: "keys", columns: keyColumns(),
			fields: []field{{name: "prefix", path: "prefix", usage: "only those that begin with this `text`"}},
		}),
	}
}

func resourceColumns() []output.Column {
	return append([]output.Column{
		output.ID("NAME", "name"), column("REGION", "cloud_region"), column("ENGINE", "engine"), column("DESCRIPTION", "description"),
	}, wide(column("URL", "url"), column("USERNAME", "username"))...)
}

// resourceNoun manages the resources of all types.
func resourceNoun() noun {
	typeField := field{name: "TYPE", path: "type", values: []string{"s3", "db", "kv"}}
	return noun{
		name: "resource", thing: "resource", group: groupData, short: "Manage buckets, databases and key-value stores together",
		columns: []output.Column{
			column("TYPE", "type"),
			{Title: "NAME", Keep: true, Value: resourceName},
			column("REGION", "cloud_region"),
			column("ENGINE", "engine"), column("DESCRIPTION", "description"),
		},
		verbs: []verb{
			{
				name: "list", short: "List the resources of all regions", route: "GET /resource",
				fields: []field{
					{name: "type", path: "type", values: typeField.values, usage: "only of this `type`: s3, db or kv"},
					{name: "name", path: "name", usage: "only with this `name`"},
				},
				run: listResources,
			},
			{
				name: "get", short: "Show a resource with its credentials", route: "GET /resource",
				args: []field{typeField, {name: "NAME", path: "name"}}, run: getResource,
			},
			{
				name: "create", short: "Create a resource and print its credentials", route: "POST /resource/{org}/{region}",
				args:   []field{typeField, {name: "NAME", path: "name", optional: true}},
				fields: []field{{name: "description", path: "description", usage: "`text`"}},
				wrap:   resourceBody(""), show: created,
			},
			{
				name: "delete", short: "Delete a resource with all that it holds", route: "DELETE /resource/{org}/{region}",
				args: []field{typeField, {name: "NAME", path: "name"}},
				run: func(ctx context.Context, s *session, in input) error {
					kind, _ := in.fields["type"].(string)
					name, _ := in.fields["name"].(string)
					in.path[resourceTypes()[kind]] = name
					return deleteResource(kind, resourceTypes()[kind], resourceTypes()[kind])(ctx, s, in)
				},
			},
		},
	}
}

func resourceName(item map[string]any) any {
	if name := item["bucket_name"]; name != nil {
		return name
	}
	return item["name"]
}

// listResources prints the resources of all types as one list. Each has its type.
func listResources(ctx context.Context, s *session, in input) error {
	raw, err := s.api.get(ctx, "/resource", verb{}.query(in))
	if err != nil {
		return err
	}
	var res map[string][]json.RawMessage
	if err := decodeInto(raw, &res); err != nil {
		return err
	}
	list := s.out.List(resourceNoun().columns)
	for _, kind := range []string{"s3", "db", "kv"} {
		for _, entry := range res[kind] {
			typed := json.RawMessage(fmt.Sprintf(`{"type":%q,%s`, kind, strings.TrimPrefix(string(entry), "{")))
			if err := list.Add(typed); err != nil {
				return err
			}
		}
	}
	if list.Count() == 0 && s.out.Tabular() {
		s.note("Nothing found.")
	}
	return list.Close()
}

func getResource(ctx context.Context, s *session, in input) error {
	kind, _ := in.fields["type"].(string)
	name, _ := in.fields["name"].(string)
	placeholder := resourceTypes()[kind]
	raw, err := s.find(ctx, placeholder, input{path: map[string]string{placeholder: name}})
	if err != nil {
		return err
	}
	return s.out.Item(raw)
}

func tableColumns() []output.Column {
	return []output.Column{
		output.ID("NAME", "name"), column("TYPE", "type"), {Title: "COLUMNS", Value: columnNames}, {Title: "SCHEMA", Path: "schema", Wide: true},
	}
}

// columnNames returns the columns of a table, with their types.
func columnNames(table map[string]any) any {
	var names []any
	columns, _ := table["columns"].([]any)
	for _, c := range columns {
		if c, ok := c.(map[string]any); ok {
			names = append(names, strings.TrimSpace(fmt.Sprintf("%v %v", c["name"], c["type"])))
		}
	}
	return names
}

func keyColumns() []output.Column {
	return []output.Column{
		output.ID("KEY", "key"), column("TYPE", "type"), {Title: "EXPIRES IN", Value: func(key map[string]any) any {
			ms, ok := key["ttl_ms"].(json.Number)
			if !ok {
				return nil
			}
			left, err := time.ParseDuration(ms.String() + "ms")
			if err != nil {
				return ms
			}
			return left.Round(time.Second).String()
		}},
	}
}
