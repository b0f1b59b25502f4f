package cli

import (
	"context"

	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

func projectFilter() noun.Field {
	return noun.Field{Name: "project", Path: "projectId", Noun: "project", Usage: "only of this `project`"}
}

func threadNoun() noun.Noun {
	fields := []noun.Field{
		{Name: "project", Path: "project_id", Noun: "project", Usage: "`project` of the thread"},
		{Name: "user-data", Path: "user_data", Usage: "`JSON` text that is encrypted at rest"},
		{Name: "metadata", Path: "metadata", Kind: noun.Object, Usage: "`JSON` object by which threads can be found"},
	}
	return noun.Noun{
		Name: "thread", Thing: "thread", Short: "Manage threads",
		Columns: append([]output.Column{
			output.Handle("ID", "id"), output.ID("PROJECT", "project_id"), noun.Column("METADATA", "metadata"), noun.TimeColumn("UPDATED", "updated_at"),
		}, noun.Wide(noun.TimeColumn("CREATED", "created_at"), noun.Column("DELETED", "deleted"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List threads, newest first", Route: "GET /thread", List: true,
				Fields: []noun.Field{
					projectFilter(),
					{Name: "metadata", Path: "metadata", Usage: "only with these members, as a `JSON` object"},
					{Name: "deleted", Path: "deleted", Kind: noun.Boolean, Usage: "list deleted threads"},
					{Name: "sort", Path: "sort", Values: []string{"created", "updated"}, Usage: "`order`: created or updated"},
					{Name: "direction", Path: "direction", Values: []string{"asc", "desc"}, Usage: "`direction`: asc or desc"},
				},
			},
			{Name: "get", Short: "Show a thread", Route: "GET /thread/{thread}"},
			{Name: "create", Short: "Create a thread", Route: "PUT /thread/{thread}", Fields: fields, New: true},
			{
				Name: "update", Short: "Change a thread; what is not given stays", Route: "PUT /thread/{thread}", Fields: fields,
				Base: noun.Current("/thread/{thread}", "project_id", "user_data", "metadata"),
			},
			{Name: "delete", Short: "Delete a thread", Route: "DELETE /thread/{thread}", With: " with its user data"},
		},
	}
}

func sessionNoun() noun.Noun {
	return noun.Noun{
		Name: "session", Thing: "session", Short: "Show the sessions of agents",
		Columns: append([]output.Column{
			output.Handle("ID", "id"), output.ID("THREAD", "threadId"), noun.Column("TRIGGER", "trigger"), noun.Column("METHOD", "method"),
			noun.Column("STATUS", "statusCode"), noun.Column("ERROR", "error"), noun.TimeColumn("STARTED", "startedAt"),
		}, noun.Wide(noun.Column("PROJECT", "projectId"), noun.Column("URL", "url"), noun.TimeColumn("COMPLETED", "completedAt"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List sessions, newest first", Route: "GET /session", List: true,
				Fields: []noun.Field{projectFilter(), {Name: "thread", Path: "threadId", Noun: "thread", Usage: "only of this `thread`"}},
			},
			{Name: "get", Short: "Show a session", Route: "GET /session/{session}"},
		},
	}
}

func evalNoun() noun.Noun {
	fields := []noun.Field{
		{Name: "name", Path: "name", Usage: "`name` of the evaluation"},
		{Name: "project", Path: "projectId", Noun: "project", Usage: "`project` of the agent"},
		{Name: "agent", Path: "agentIdentifier", Usage: "`identifier` of the agent"},
		{Name: "identifier", Path: "identifier", Usage: "`identifier` of the evaluation"},
		{Name: "description", Path: "description", Usage: "`text`"},
		{Name: "version", Path: "version", Usage: "`version` of the code"},
		{Name: "filename", Path: "filename", Usage: "`file` of the code"},
	}
	return noun.Noun{
		Name: "eval", Thing: "evaluation", Short: "Manage evaluations",
		Columns: append([]output.Column{
			output.Name("NAME", "name"), noun.Column("AGENT", "agentIdentifier"), output.ID("PROJECT", "projectId"),
			noun.TimeColumn("UPDATED", "updatedAt"), output.Handle("ID", "id"),
		}, noun.Wide(noun.Column("IDENTIFIER", "identifier"), noun.Column("VERSION", "version"), noun.Column("DESCRIPTION", "description"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List evaluations, newest first", Route: "GET /cli/eval", List: true,
				Fields: []noun.Field{projectFilter(), {Name: "agent", Path: "agentId", Usage: "only of the agent with this `identifier`"}},
			},
			{Name: "get", Short: "Show an evaluation", Route: "GET /cli/eval/{eval}"},
			{Name: "create", Short: "Create an evaluation", Route: "PUT /cli/eval/{eval}", Fields: fields, New: true},
			{
				Name: "update", Short: "Change an evaluation; what is not given stays", Route: "PUT /cli/eval/{eval}", Fields: fields,
				Base: noun.Current("/cli/eval/{eval}", "name", "projectId", "agentIdentifier", "identifier", "description", "version",
					"filename", "deploymentId", "devmode"),
			},
		},
	}
}

func runNoun() noun.Noun {
	outcome := func(item map[string]any) any {
		passed := item["success"]
		if item["passed"] != nil {
			passed = item["passed"]
		}
		switch {
		case item["pending"] == true:
			return "pending"
		case passed == true:
			return "passed"
		}
		return "failed"
	}
	return noun.Noun{
		Name: "run", Thing: "evaluation run", Short: "Show the runs of evaluations",
		Columns: append([]output.Column{
			output.Name("EVAL", "evalName"),
			{Title: "RESULT", Value: outcome, Kind: output.Status},
			noun.Column("SCORE", "score"),
			noun.Column("ERROR", "error"), noun.TimeColumn("CREATED", "createdAt"), output.Handle("ID", "id"),
		}, noun.Wide(noun.Column("EVAL ID", "evalId"), noun.Column("AGENT", "agentIdentifier"), noun.Column("SESSION", "sessionId"), noun.Column("PROJECT", "projectId"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List evaluation runs, newest first", Route: "GET /cli/eval-run", List: true,
				Fields: []noun.Field{
					projectFilter(),
					{Name: "eval", Path: "evalId", Noun: "eval", Usage: "only of the evaluation with this `id`"},
					{Name: "agent", Path: "agentId", Usage: "only of the agent with this `identifier`"},
					{Name: "session", Path: "sessionId", Noun: "session", Usage: "only of the session with this `id`"},
					{Name: "passed", Path: "passed", Kind: noun.Boolean, Usage: "only those that passed, or with --passed=false those that failed"},
					{Name: "min-score", Path: "minScore", Usage: "only with at least this `score`"},
					{Name: "max-score", Path: "maxScore", Usage: "only with at most this `score`"},
					{Name: "since", Path: "since", Kind: noun.Past, Usage: "only from this `time`, or duration before now such as 1h, on"},
					{Name: "until", Path: "until", Kind: noun.Past, Usage: "only before this `time`, or duration before now"},
				},
			},
			{Name: "get", Short: "Show an evaluation run", Route: "GET /cli/eval-run/{run}"},
		},
	}
}

func regionNoun() noun.Noun {
	return noun.Noun{
		Name: "region", Thing: "region", Short: "Show regions",
		Columns: []output.Column{output.Name("REGION", "region"), noun.Column("DESCRIPTION", "description")},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List regions", Route: "GET /cli/region", List: true},
			{
				Name: "get", Short: "Show a region", Route: "GET /cli/region", Args: []noun.Field{{Name: "REGION", Path: "region", Noun: "region"}},
				Run: func(ctx context.Context, s *session.Session, in noun.Input) error {
					name, _ := in.Fields["region"].(string)
					in.Path["region"] = name
					return noun.FromList("region")(ctx, s, in)
				},
			},
		},
	}
}
