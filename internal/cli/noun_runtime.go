package cli

import "steward/internal/cli/output"

func projectFilter() field {
	return field{name: "project", path: "projectId", noun: "project", usage: "only of this `project`"}
}

func threadNoun() noun {
	fields := []field{
		{name: "project", path: "project_id", noun: "project", usage: "`project` of the thread"},
		{name: "user-data", path: "user_data", usage: "`JSON` text that is encrypted at rest"},
		{name: "metadata", path: "metadata", kind: object, usage: "`JSON` object by which threads can be found"},
	}
	return noun{
		name: "thread", thing: "thread", group: groupData, short: "Manage threads",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("PROJECT", "project_id"), column("METADATA", "metadata"), timeColumn("UPDATED", "updated_at"),
		}, wide(timeColumn("CREATED", "created_at"), column("DELETED", "deleted"))...),
		verbs: []verb{
			{
				name: "list", short: "List threads, newest first", route: "GET /thread", list: true,
				fields: []field{
					projectFilter(),
					{name: "metadata", path: "metadata", usage: "only with these members, as a `JSON` object"},
					{name: "deleted", path: "deleted", kind: boolean, usage: "list deleted threads"},
					{name: "sort", path: "sort", values: []string{"created", "updated"}, usage: "`order`: created or updated"},
					{name: "direction", path: "direction", values: []string{"asc", "desc"}, usage: "`direction`: asc or desc"},
				},
			},
			{name: "get", short: "Show a thread", route: "GET /thread/{thread}"},
			{name: "create", short: "Create a thread, or replace it", route: "PUT /thread/{thread}", fields: fields},
			{
				name: "update", short: "Change a thread; what is not given stays", route: "PUT /thread/{thread}", fields: fields,
				base: current("/thread/{thread}", "project_id", "user_data", "metadata"),
			},
			{name: "delete", short: "Delete a thread", route: "DELETE /thread/{thread}", with: " with its user data"},
		},
	}
}

func sessionNoun() noun {
	return noun{
		name: "session", thing: "session", group: groupData, short: "Show the sessions of agents",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("THREAD", "threadId"), column("TRIGGER", "trigger"), column("METHOD", "method"),
			column("STATUS", "statusCode"), column("ERROR", "error"), timeColumn("STARTED", "startedAt"),
		}, wide(column("PROJECT", "projectId"), column("URL", "url"), timeColumn("COMPLETED", "completedAt"))...),
		verbs: []verb{
			{
				name: "list", short: "List sessions, newest first", route: "GET /session", list: true,
				fields: []field{projectFilter(), {name: "thread", path: "threadId", noun: "thread", usage: "only of this `thread`"}},
			},
			{name: "get", short: "Show a session", route: "GET /session/{session}"},
		},
	}
}

func evalNoun() noun {
	fields := []field{
		{name: "name", path: "name", usage: "`name` of the evaluation"},
		{name: "project", path: "projectId", noun: "project", usage: "`project` of the agent"},
		{name: "agent", path: "agentIdentifier", usage: "`identifier` of the agent"},
		{name: "identifier", path: "identifier", usage: "`identifier` of the evaluation"},
		{name: "description", path: "description", usage: "`text`"},
		{name: "version", path: "version", usage: "`version` of the code"},
		{name: "filename", path: "filename", usage: "`file` of the code"},
	}
	return noun{
		name: "eval", thing: "evaluation", group: groupData, short: "Manage evaluations",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("NAME", "name"), column("AGENT", "agentIdentifier"), column("PROJECT", "projectId"),
			timeColumn("UPDATED", "updatedAt"),
		}, wide(column("IDENTIFIER", "identifier"), column("VERSION", "version"), column("DESCRIPTION", "description"))...),
		verbs: []verb{
			{
				name: "list", short: "List evaluations, newest first", route: "GET /cli/eval", list: true,
				fields: []field{projectFilter(), {name: "agent", path: "agentId", usage: "only of the agent with this `identifier`"}},
			},
			{name: "get", short: "Show an evaluation", route: "GET /cli/eval/{eval}"},
			{name: "create", short: "Create an evaluation, or replace it", route: "PUT /cli/eval/{eval}", fields: fields},
			{
				name: "update", short: "Change an evaluation; what is not given stays", route: "PUT /cli/eval/{eval}", fields: fields,
				base: current("/cli/eval/{eval}", "name", "projectId", "agentIdentifier", "identifier", "description", "version",
					"filename", "deploymentId", "devmode"),
			},
		},
	}
}

func runNoun() noun {
	outcome := func(item map[string]any) any {
		switch {
		case item["pending"] == true:
			return "pending"
		case item["success"] == true:
			return "passed"
		}
		return "failed"
	}
	return noun{
		name: "run", thing: "evaluation run", group: groupData, short: "Show the runs of evaluations",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("EVAL", "evalName"),
			{Title: "RESULT", Value: outcome, Kind: output.Status},
			column("ERROR", "error"), timeColumn("CREATED", "createdAt"),
		}, wide(column("EVAL ID", "evalId"), column("AGENT", "agentIdentifier"), column("SESSION", "sessionId"), column("PROJECT", "projectId"))...),
		verbs: []verb{
			{
				name: "list", short: "List evaluation runs, newest first", route: "GET /cli/eval-run", list: true,
				fields: []field{
					projectFilter(),
					{name: "eval", path: "evalId", noun: "eval", usage: "only of the evaluation with this `id`"},
					{name: "agent", path: "agentId", usage: "only of the agent with this `identifier`"},
					{name: "session", path: "sessionId", noun: "session", usage: "only of the session with this `id`"},
				},
			},
			{name: "get", short: "Show an evaluation run", route: "GET /cli/eval-run/{run}"},
		},
	}
}

func regionNoun() noun {
	return noun{
		name: "region", thing: "region", group: groupData, short: "Show regions",
		columns: []output.Column{output.ID("REGION", "region"), column("DESCRIPTION", "description")},
		verbs:   []verb{{name: "list", short: "List regions", route: "GET /cli/region", list: true}},
	}
}

func auditNoun() noun {
	return noun{
		name: "audit", thing: "audit log", group: groupAccount, short: "Show who did what",
		columns: append([]output.Column{
			timeColumn("WHEN", "at"), column("ACTION", "action"), column("TARGET", "target"), column("USER", "user_id"),
			column("FROM", "remote_addr"),
		}, wide(column("KEY", "key_id"), column("CLIENT", "client_id"), column("REQUEST", "request_id"))...),
		verbs: []verb{{name: "list", short: "List the audit log, newest first", route: "GET /audit", list: true}},
	}
}
