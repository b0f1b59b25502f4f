package webhooks

import (
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
)

func alertNoun() noun.Noun {
	fields := []noun.Field{
		{Name: "minutes", Path: "params.minutes", Kind: noun.Number, Usage: "`number` of minutes that it must last, or in which events are counted"},
		{Name: "count", Path: "params.count", Kind: noun.Number, Usage: "`number` of rejected requests, or of events that a rate needs at least"},
		{Name: "percent", Path: "params.percent", Kind: noun.Number, Usage: "`percentage` below which it fires"},
		{Name: "webhook", Path: "params.webhook_id", Noun: "webhook", Usage: "only this `webhook`"},
		{Name: "eval", Path: "params.eval_id", Usage: "only the evaluation with this `id`"},
		{Name: "target", Path: "target.type", Values: []string{"webhook", "slack", "mail"}, Usage: "where notices go: `webhook`, slack or mail"},
		{Name: "url", Path: "target.url", Kind: noun.Secret, Usage: "`URL` for webhook and slack; - reads it from standard input"},
		{Name: "to", Path: "target.to", Kind: noun.List, Usage: "`addresses` of members for mail"},
		{Name: "repeat-hours", Path: "repeat_hours", Kind: noun.Number, Usage: "`number` of hours after which a notice is repeated; 0 for never (default 24)"},
		{Name: "disabled", Path: "disabled", Kind: noun.Boolean, Usage: "whether the alert is not measured"},
	}
	return noun.Noun{
		Name: "alert", Thing: "alert", Short: "Manage alerts, which tell you when something goes wrong",
		Columns: append([]output.Column{
			output.Name("NAME", "name"), noun.Column("KIND", "kind"),
			{Title: "STATE", Path: "state", Kind: output.Status},
			noun.TimeColumn("SINCE", "since"), noun.Column("TARGET", "target.type"), noun.TimeColumn("LAST NOTICE", "last_notice.at"),
			output.ID("ID", "id"),
		}, noun.Wide(noun.Column("NOTICE", "last_notice.state"), noun.Column("DISABLED", "disabled"), noun.Column("SUMMARY", "summary"))...),
		Verbs: []noun.Verb{
			{Name: "list", Short: "List alerts", Route: "GET /alert", List: true},
			{
				Name: "create", Short: "Create an alert", Route: "POST /alert",
				Args: []noun.Field{{Name: "NAME", Path: "name"}, {Name: "KIND", Path: "kind"}}, Fields: fields,
			},
			{
				Name: "update", Short: "Change an alert; the flags of its condition replace all of them, as do those of its target",
				Route: "PUT /alert/{alert}", Fields: append([]noun.Field{{Name: "name", Path: "name", Usage: "new `name`"}}, fields...),
			},
			{Name: "delete", Short: "Delete an alert", Route: "DELETE /alert/{alert}"},
			{Name: "test", Short: "Send a test notice", Route: "POST /alert/{alert}/test"},
		},
	}
}
