package cli

import (
	"context"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

func webhookNoun() noun {
	fields := []field{
		{name: "description", path: "description", usage: "`text`; empty removes it"},
		{name: "retention", path: "retention_seconds", kind: seconds, usage: "`duration` for which receipts and deliveries are kept (default: as the server is configured)"},
	}
	return noun{
		name: "webhook", aliases: []string{"wh"}, thing: "webhook", group: groupEvents,
		short: "Manage webhooks, and what they received and delivered",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("NAME", "name"), column("DESCRIPTION", "description"), timeColumn("CREATED", "created_at"),
		}, wide(column("INTERNAL", "internal"), column("CREATED BY", "created_by"))...),
		verbs: []verb{
			{name: "list", short: "List webhooks, newest first", route: "GET /webhook/list", list: true},
			{name: "get", short: "Show a webhook", route: "GET /webhook/get/{webhook}"},
			{
				name: "create", short: "Create a webhook and print its URL", route: "POST /webhook/create",
				args: []field{{name: "NAME", path: "name"}}, fields: fields,
				note: "Send requests to the url, and store it: it is not shown again.",
			},
			{
				name: "update", short: "Change a webhook", route: "PUT /webhook/update/{webhook}",
				fields: append([]field{{name: "name", path: "name", usage: "new `name`"}}, fields...),
			},
			{
				name: "delete", short: "Delete a webhook and everything in it", route: "DELETE /webhook/delete/{webhook}",
				with: " with its destinations, receipts and deliveries",
			},
			{
				name: "rotate-url", short: "Replace the URL of a webhook", route: "POST /webhook/rotate-url/{webhook}",
				note: "The old URL is refused from now on. " + keepSecret,
			},
		},
		nouns: []noun{destinationNoun(), receiptNoun(), deliveryNoun()},
		more: func(e *env) []*cobra.Command {
			return []*cobra.Command{e.tailCommand(), e.replayCommand(), e.recordCommand(), e.playCommand()}
		},
	}
}

func destinationNoun() noun {
	fields := []field{
		{name: "header", path: "config.headers", kind: pairs, usage: "`name=value` of a header to send"},
		{name: "timeout", path: "config.timeout_seconds", kind: seconds, usage: "`duration` to wait for a response, up to 60s (default 15s)"},
		{name: "retries", path: "config.max_retries", kind: number, usage: "`number` of retries, up to 20 (default 8)"},
		{name: "concurrency", path: "config.concurrency", kind: number, usage: "`number` of deliveries at once, up to 100 (default 10); 1 keeps the order"},
		{name: "disabled", path: "config.disabled", kind: boolean, usage: "whether nothing is sent"},
	}
	return noun{
		name: "destination", aliases: []string{"dest"}, thing: "destination", short: "Manage where the requests of a webhook are delivered",
		columns: []output.Column{
			output.ID("ID", "id"), column("URL", "config.url"), column("DISABLED", "config.disabled"), timeColumn("CREATED", "created_at"),
			{Title: "RETRIES", Path: "config.max_retries", Wide: true},
			{Title: "CONCURRENCY", Path: "config.concurrency", Wide: true},
		},
		verbs: []verb{
			{name: "list", short: "List the destinations of a webhook", route: "GET /webhook/destination-list/{webhook}", list: true},
			{
				name: "get", short: "Show a destination", route: "GET /webhook/destination-list/{webhook}/{destination}",
				run: fromList("destination"),
			},
			{
				name: "create", short: "Create a destination and print its signing secret", route: "POST /webhook/destination-create/{webhook}",
				args: []field{{name: "URL", path: "config.url"}}, fields: fields, fixed: map[string]any{"type": "url"},
				note: "Verify requests with the secret, and store it: it is not shown again.",
			},
			{
				name: "update", short: "Change a destination", route: "PUT /webhook/destination-update/{webhook}/{destination}",
				fields: append([]field{{name: "url", path: "config.url", usage: "new `URL`"}}, fields...),
				base: func(ctx context.Context, s *session, in input) (map[string]any, error) {
					raw, err := s.find(ctx, "destination", in)
					if err != nil {
						return nil, err
					}
					return only(raw, "config")
				},
			},
			{
				name: "delete", short: "Delete a destination", route: "DELETE /webhook/destination-delete/{webhook}/{destination}",
				with: " with its pending deliveries",
			},
		},
	}
}

func rangeFields() []field {
	return []field{
		{name: "since", path: "since", kind: past, usage: "only from this `time`, or duration before now such as 1h, on"},
		{name: "until", path: "until", kind: past, usage: "only before this `time`, or duration before now"},
	}
}

func receiptNoun() noun {
	return noun{
		name: "receipt", thing: "receipt", short: "Show the requests that a webhook received",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("METHOD", "method"), column("CONTENT TYPE", "content_type"),
			{Title: "SIZE", Path: "size", Kind: output.Bytes},
			timeColumn("RECEIVED", "date"),
		}, wide(column("FROM", "remote_addr"), column("QUERY", "query"))...),
		verbs: []verb{
			{
				name: "list", short: "List receipts, newest first", route: "GET /webhook/receipt-list/{webhook}", list: true,
				fields: rangeFields(),
			},
			{name: "get", short: "Show a receipt", route: "GET /webhook/receipt-get/{webhook}/{receipt}"},
			{
				name: "payload", short: "Print the body of a receipt, byte by byte", route: "GET /webhook/receipt-payload/{webhook}/{receipt}",
				run: func(ctx context.Context, s *session, in input) error {
					path := in.expand("/webhook/receipt-payload/{webhook}/{receipt}")
					body, err := s.api.get(ctx, path, nil)
					if err != nil {
						return err
					}
					_, err = s.Out.Write(body)
					return err
				},
			},
		},
	}
}

func deliveryNoun() noun {
	return noun{
		name: "delivery", thing: "delivery", short: "Show and retry the deliveries of a webhook",
		columns: append([]output.Column{
			output.ID("ID", "id"),
			{Title: "STATUS", Path: "status", Kind: output.Status},
			column("RETRY", "retries"),
			column("RESPONSE", "response.status"), column("MS", "response.duration_ms"), column("ERROR", "error"), timeColumn("DATE", "date"),
		}, wide(column("RECEIPT", "webhook_receipt_id"), column("DESTINATION", "webhook_destination_id"), timeColumn("DUE", "due_at"))...),
		verbs: []verb{
			{
				name: "list", short: "List deliveries, newest first", route: "GET /webhook/delivery-list/{webhook}", list: true,
				fields: append([]field{
					{name: "status", path: "status", values: []string{"pending", "success", "failed"}, usage: "only with this `status`: pending, success or failed"},
					{name: "destination", path: "destinationId", usage: "only to the destination with this `id`"},
					{name: "receipt", path: "receiptId", usage: "only of the receipt with this `id`"},
				}, rangeFields()...),
			},
			{
				name: "retry", short: "Retry a failed delivery now", route: "POST /webhook/delivery-retry/{webhook}/{delivery}",
			},
		},
	}
}
