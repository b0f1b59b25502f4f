// Package webhooks has the webhook commands: the nouns, the live tail, replays, and recording
// requests and playing them again.
//
// A Position is a file with the id of the last event that a tail has handled. A Sender signs recorded
// requests as Standard Webhooks wants and sends them in the same way as deliveries.
package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// Commands returns the commands.
func Commands(e *session.Env) []*cobra.Command { return noun.Commands(e, webhookNoun()) }

func webhookNoun() noun.Noun {
	fields := []noun.Field{
		{Name: "description", Path: "description", Usage: "`text`; empty removes it"},
		{Name: "retention", Path: "retention_seconds", Kind: noun.Seconds, Usage: "`duration` for which receipts and deliveries are kept (default: as the server is configured)"},
		{Name: "verify", Path: "verification", Kind: noun.Object, Usage: "`JSON` of how requests must prove where they come from, such as '{\"type\": \"stripe\"}'; null ends it"},
		{Name: "verify-secret", Path: "verification.secrets", Kind: noun.Secret, Usage: "`secret` to verify them with; - reads it from standard input, or two, one on each line"},
		{Name: "dedupe", Path: "dedupe", Kind: noun.Object, Usage: "`JSON` of how repeated requests are recognized, such as '{\"by\": \"header\", \"header\": \"x-event-id\"}'; null ends it"},
	}
	return noun.Noun{
		Name: "webhook", Aliases: []string{"wh"}, Thing: "webhook",
		Short: "Manage webhooks, and what they received and delivered",
		Columns: append([]output.Column{
			output.Name("NAME", "name"), noun.Column("DESCRIPTION", "description"), noun.TimeColumn("CREATED", "created_at"), output.ID("ID", "id"),
		}, noun.Wide(noun.Column("CREATED BY", "created_by"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List webhooks, newest first; those of the system stand below", Route: "GET /webhook/list", List: true,
				Items: listWebhooks,
				Apart: &output.Group{Title: "System webhooks", Has: func(item map[string]any) bool { return item["internal"] == true }},
			},
			{Name: "get", Short: "Show a webhook", Route: "GET /webhook/get/{webhook}"},
			{
				Name: "create", Short: "Create a webhook and print its URL", Route: "POST /webhook/create",
				Args: []noun.Field{{Name: "NAME", Path: "name"}}, Fields: fields, Wrap: splitSecrets,
				Note: "Send requests to the url. `steward webhook url` shows it again.",
			},
			{
				Name: "update", Short: "Change a webhook", Route: "PUT /webhook/update/{webhook}",
				Fields: append([]noun.Field{{Name: "name", Path: "name", Usage: "new `name`"}}, fields...), Wrap: splitSecrets,
			},
			{
				Name: "delete", Short: "Delete a webhook and everything in it", Route: "DELETE /webhook/delete/{webhook}",
				With: " with its destinations, receipts and deliveries",
			},
			{
				Name: "filter-test", Short: "Show which of the last receipts a filter matches", Route: "POST /webhook/filter-test/{webhook}",
				Args: []noun.Field{{Name: "FILTER", Path: "filter", Kind: noun.Object}}, Run: testFilter,
			},
			{Name: "url", Short: "Show the URL to which a webhook's requests are sent", Route: "GET /webhook/url/{webhook}"},
			{
				Name: "rotate-url", Short: "Replace the URL of a webhook", Route: "POST /webhook/rotate-url/{webhook}",
				Ask: "Replacing the URL of", With: ", to which others may send requests,",
				Note: "The old URL is refused from now on.",
			},
		},
		Nouns: []noun.Noun{destinationNoun(), receiptNoun(), rejectedNoun(), deliveryNoun()},
		More:  []func(*session.Env) *cobra.Command{tailCommand, replayCommand, recordCommand, playCommand},
	}
}

// splitSecrets turns the lines of a secret into a list.
func splitSecrets(body map[string]any) any {
	if verification, ok := body["verification"].(map[string]any); ok {
		if text, ok := verification["secrets"].(string); ok {
			verification["secrets"] = strings.Fields(text)
		}
	}
	return body
}

// listWebhooks returns the users' webhooks, and then the system's.
func listWebhooks(ctx context.Context, s *session.Session, _ noun.Input) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for _, internal := range []string{"false", "true"} {
			query := url.Values{"internal": {internal}, "limit": {strconv.Itoa(noun.PageSize)}}
			for item, err := range s.API.Pages(ctx, "/webhook/list", query, "") {
				if !yield(item, err) || err != nil {
					return
				}
			}
		}
	}
}

func destinationNoun() noun.Noun {
	fields := []noun.Field{
		{Name: "header", Path: "config.headers", Kind: noun.Pairs, Usage: "`name=value` of a header to send"},
		{Name: "timeout", Path: "config.timeout_seconds", Kind: noun.Seconds, Usage: "`duration` to wait for a response, up to 60s (default 15s)"},
		{Name: "retries", Path: "config.max_retries", Kind: noun.Number, Usage: "`number` of retries, up to 20 (default 8)"},
		{Name: "concurrency", Path: "config.concurrency", Kind: noun.Number, Usage: "`number` of deliveries at once, up to 100 (default 10); 1 keeps the order"},
		{Name: "disabled", Path: "config.disabled", Kind: noun.Boolean, Usage: "whether nothing is sent"},
		{Name: "filter", Path: "config.filter", Kind: noun.Object, Usage: "`JSON` of what is sent, such as '{\"body\": {\"type\": \"order.paid\"}}'; null sends everything"},
		{Name: "rate", Path: "config.rate", Kind: noun.Object, Usage: "`JSON` of how many attempts may begin, such as '{\"limit\": 10, \"per\": \"second\"}'; null sets no limit"},
		{Name: "paused", Path: "config.paused", Kind: noun.Boolean, Usage: "whether deliveries wait until it is false again"},
		{Name: "retry", Path: "config.retry", Kind: noun.Object, Usage: "`JSON` of when failed deliveries are attempted again, such as '{\"type\": \"linear\", \"delay_seconds\": 60}'; null restores the default"},
	}
	return noun.Noun{
		Name: "destination", Aliases: []string{"dest"}, Thing: "destination", Short: "Manage where the requests of a webhook are delivered",
		Columns: []output.Column{
			output.Name("URL", "config.url"), noun.Column("DISABLED", "config.disabled"), noun.Column("PAUSED", "config.paused"),
			noun.TimeColumn("CREATED", "created_at"), output.ID("ID", "id"),
			{Title: "RETRIES", Path: "config.max_retries", Wide: true},
			{Title: "CONCURRENCY", Path: "config.concurrency", Wide: true},
		},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List the destinations of a webhook", Route: "GET /webhook/destination-list/{webhook}", List: true},
			{
				Name: "get", Short: "Show a destination", Route: "GET /webhook/destination-list/{webhook}/{destination}",
				Run: noun.FromList("destination"),
			},
			{
				Name: "create", Short: "Create a destination and print its signing secret", Route: "POST /webhook/destination-create/{webhook}",
				Args: []noun.Field{{Name: "URL", Path: "config.url"}}, Fields: fields, Fixed: map[string]any{"type": "url"},
				Note: "Verify requests with the secret, and store it: it is not shown again.",
			},
			{
				Name: "update", Short: "Change a destination", Route: "PUT /webhook/destination-update/{webhook}/{destination}",
				Fields: append([]noun.Field{{Name: "url", Path: "config.url", Usage: "new `URL`"}}, fields...),
				Base: func(ctx context.Context, s *session.Session, in noun.Input) (map[string]any, error) {
					raw, err := noun.Find(ctx, s, "destination", in)
					if err != nil {
						return nil, err
					}
					body, err := noun.Only(raw, "config")
					if config, ok := in.Fields["config"].(map[string]any); ok && err == nil {
						for _, whole := range []string{"filter", "rate", "retry"} {
							if _, replaces := config[whole]; replaces {
								delete(body["config"].(map[string]any), whole)
							}
						}
					}
					return body, err
				},
			},
			{
				Name: "rotate-secret", Short: "Replace the signing secret of a destination", Route: "POST /webhook/destination-rotate-secret/{webhook}/{destination}",
				Ask: "Replacing the signing secret of", Note: "Deliveries are signed with the old one too for 24 hours. Store the new one: it is not shown again.",
			},
			{
				Name: "test", Short: "Send a signed test event to a destination now, and show the response",
				Route: "POST /webhook/destination-test/{webhook}/{destination}", Run: testDestination,
			},
			{
				Name: "recover", Short: "Send all deliveries that wait for a retry now, after a destination works again",
				Route: "POST /webhook/destination-recover/{webhook}/{destination}", Run: recoverDestination,
				Fields: []noun.Field{{Name: "rate", Path: "rate", Kind: noun.Number, Usage: "`number` of deliveries per second, up to 1000 (default: as fast as the destination responds)"}},
			},
			{
				Name: "delete", Short: "Delete a destination", Route: "DELETE /webhook/destination-delete/{webhook}/{destination}",
				With: " with its pending deliveries",
			},
		},
	}
}

func rangeFields() []noun.Field {
	return []noun.Field{
		{Name: "since", Path: "since", Kind: noun.Past, Usage: "only from this `time`, or duration before now such as 1h, on"},
		{Name: "until", Path: "until", Kind: noun.Past, Usage: "only before this `time`, or duration before now"},
	}
}

func receiptFields() []noun.Field {
	return append([]noun.Field{
		{Name: "search", Path: "q", Usage: "only with this `text` in their body or query string, in any case"},
		{Name: "state", Path: "state", Values: []string{"succeeded", "failing", "pending", "filtered"}, Usage: "only with a destination in this `state`: succeeded, failing, pending or filtered"},
		{Name: "destination", Path: "destinationId", Noun: "destination", Usage: "only delivered to the destination with this `id` or URL"},
	}, rangeFields()...)
}

// exportReceipts copies an export to standard output. It fails if the export ends early.
func exportReceipts(ctx context.Context, s *session.Session, in noun.Input) error {
	lines, err := s.API.Client.Stream(ctx, in.Expand("/webhook/receipt-export/{webhook}")+"?"+in.Query().Encode())
	if err != nil {
		return s.API.Failed(err)
	}
	defer lines.Close()
	if _, err := io.Copy(s.Out, lines); err != nil {
		return fmt.Errorf("the export is incomplete: %w", err)
	}
	return nil
}

func receiptNoun() noun.Noun {
	return noun.Noun{
		Name: "receipt", Thing: "receipt", Short: "Show the requests that a webhook received",
		Columns: append([]output.Column{
			output.Handle("ID", "id"), noun.Column("METHOD", "method"), noun.Column("CONTENT TYPE", "content_type"),
			{Title: "SIZE", Path: "size", Kind: output.Bytes},
			noun.TimeColumn("RECEIVED", "date"),
		}, noun.Wide(noun.Column("FROM", "remote_addr"), noun.Column("QUERY", "query"), noun.Column("FILTERED", "deliveries.filtered"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List receipts, newest first", Route: "GET /webhook/receipt-list/{webhook}", List: true,
				Fields: receiptFields(),
			},
			{
				Name: "export", Short: "Print receipts with their whole payloads, newest first, as one JSON object on each line",
				Route: "GET /webhook/receipt-export/{webhook}", Fields: receiptFields(), Run: exportReceipts,
			},
			{Name: "get", Short: "Show a receipt", Route: "GET /webhook/receipt-get/{webhook}/{receipt}"},
			{
				Name: "payload", Short: "Print the body of a receipt, byte by byte", Route: "GET /webhook/receipt-payload/{webhook}/{receipt}",
				Run: func(ctx context.Context, s *session.Session, in noun.Input) error {
					path := in.Expand("/webhook/receipt-payload/{webhook}/{receipt}")
					body, err := s.API.Get(ctx, path, nil)
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

func rejectedNoun() noun.Noun {
	return noun.Noun{
		Name: "rejected", Thing: "rejected request", Short: "Show the requests of the last day that could not be verified",
		Columns: append([]output.Column{
			output.Handle("ID", "id"), noun.Column("REASON", "reason"), noun.Column("METHOD", "method"), noun.Column("FROM", "remote_addr"),
			{Title: "SIZE", Path: "size", Kind: output.Bytes},
			noun.TimeColumn("REJECTED", "date"),
		}, noun.Wide(noun.Column("CONTENT TYPE", "content_type"), noun.Column("QUERY", "query"))...),
		Verbs: []noun.Verb{
			{Name: "list", Short: "List rejected requests, newest first", Route: "GET /webhook/rejected-list/{webhook}", List: true},
		},
	}
}

func deliveryNoun() noun.Noun {
	return noun.Noun{
		Name: "delivery", Thing: "delivery", Short: "Show and retry the deliveries of a webhook",
		Columns: append([]output.Column{
			output.Handle("ID", "id"),
			{Title: "STATUS", Value: deliveryState, Kind: output.Status},
			noun.Column("RETRY", "retries"), noun.Column("HTTP", "response.status"), noun.Column("ERROR", "error"),
			{Title: "WHEN", Value: deliveryTime, Kind: output.Time},
		}, noun.Wide(output.Column{Title: "TOOK", Path: "response.duration_ms", Kind: output.Millis},
			noun.Column("RECEIPT", "webhook_receipt_id"), noun.Column("DESTINATION", "webhook_destination_id"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List deliveries, newest first", Route: "GET /webhook/delivery-list/{webhook}", List: true,
				Fields: append([]noun.Field{
					{Name: "status", Path: "status", Values: append(statuses(), "failing"), Usage: "only with this `status`: pending, waiting (for a retry), success, failed, or failing (failed and not attempted again yet)"},
					{Name: "destination", Path: "destinationId", Noun: "destination", Usage: "only to the destination with this `id` or URL"},
					{Name: "receipt", Path: "receiptId", Noun: "receipt", Usage: "only of the receipt with this `id`"},
				}, rangeFields()...),
			},
			{
				Name: "get", Short: "Show a delivery", Route: "GET /webhook/delivery-list/{webhook}/{delivery}", Run: getDelivery,
			},
			{
				Name: "retry", Short: "Retry a failed delivery now", Route: "POST /webhook/delivery-retry/{webhook}/{delivery}",
			},
		},
	}
}

// statuses returns the statuses by which users can list and replay deliveries.
func statuses() []string { return []string{"pending", "waiting", "success", "failed"} }

// deliveryState returns a delivery's status; a pending retry is waiting.
func deliveryState(delivery map[string]any) any {
	retries, _ := delivery["retries"].(json.Number)
	if delivery["status"] == "pending" && retries != "" && retries != "0" {
		return "waiting"
	}
	return delivery["status"]
}

// deliveryTime returns when a delivery was made, or when it is due.
func deliveryTime(delivery map[string]any) any {
	if due := delivery["due_at"]; due != nil {
		return due
	}
	return delivery["date"]
}

// getDelivery prints a delivery. It looks for it among those from the same millisecond: their ids
// have the time.
func getDelivery(ctx context.Context, s *session.Session, in noun.Input) error {
	wanted := in.Path["delivery"]
	missing := &exit.Error{Code: exit.NotFound, Message: "delivery " + wanted + " not found"}
	_, text, _ := strings.Cut(wanted, "_")
	id, err := ulid.ParseStrict(text)
	if err != nil {
		return missing
	}
	at := id.Timestamp().UTC()
	query := url.Values{
		"since": {at.Format(noun.TimeFormat)}, "until": {at.Add(time.Millisecond).Format(noun.TimeFormat)},
	}
	for raw, err := range s.API.Pages(ctx, in.Expand("/webhook/delivery-list/{webhook}"), query, "") {
		var delivery struct{ ID string }
		if err == nil {
			err = session.Decode(raw, &delivery)
		}
		if err != nil {
			return err
		}
		if delivery.ID == wanted {
			return s.Printer.Item(raw)
		}
	}
	return missing
}

// testDestination sends a test event and prints the response. It fails if the destination does.
func testDestination(ctx context.Context, s *session.Session, in noun.Input) error {
	path := in.Expand("/webhook/destination-test/{webhook}/{destination}")
	res, err := s.API.Send(ctx, session.Request{Method: http.MethodPost, Path: path})
	if err != nil {
		return err
	}
	var response client.DestinationTest
	if err := session.Decode(res.Body, &response); err != nil {
		return err
	}
	if err := s.Printer.Item(res.Body); err != nil {
		return err
	}
	if response.Error != nil || response.Status == nil || *response.Status/100 != 2 {
		return &exit.Error{Code: exit.Failed, Message: "the destination did not accept the test event"}
	}
	return nil
}

// testFilter prints which of the last receipts a filter matches.
func testFilter(ctx context.Context, s *session.Session, in noun.Input) error {
	path := in.Expand("/webhook/filter-test/{webhook}")
	res, err := s.API.Send(ctx, session.Request{Method: http.MethodPost, Path: path, Body: in.Fields})
	if err != nil {
		return err
	}
	if !s.Printer.Tabular() {
		return s.Printer.Item(res.Body)
	}
	var matches []client.WebhookFilterMatch
	if err := session.Decode(res.Body, &matches); err != nil {
		return err
	}
	count := 0
	for _, m := range matches {
		if m.Matches {
			count++
			if err := s.Printer.Text("%s matches", m.ReceiptID); err != nil {
				return err
			}
		}
	}
	return s.Printer.Text("%d of the last %s match.", count, output.Plural(int64(len(matches)), "receipt"))
}

// recoverDestination makes a destination's waiting deliveries due now.
func recoverDestination(ctx context.Context, s *session.Session, in noun.Input) error {
	path := in.Expand("/webhook/destination-recover/{webhook}/{destination}")
	res, err := s.API.Send(ctx, session.Request{Method: http.MethodPost, Path: path, Body: in.Fields})
	if err != nil {
		return err
	}
	if !s.Printer.Tabular() {
		return s.Printer.Item(res.Body)
	}
	var result client.WebhookRecovered
	if err := session.Decode(res.Body, &result); err != nil {
		return err
	}
	if result.Recovered == 0 {
		return s.Printer.Text("No delivery waits for a retry.")
	}
	return s.Printer.Text("Sending %s that waited for a retry.", output.Plural(result.Recovered, "delivery"))
}
