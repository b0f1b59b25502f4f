package webhooks

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

func replayNoun() noun.Noun {
	return noun.Noun{
		Thing: "replay",
		Columns: []output.Column{
			output.Handle("ID", "id"),
			{Title: "STATE", Path: "state", Kind: output.Status},
			noun.CountColumn("TOTAL", "total"), noun.CountColumn("DONE", "done"),
			noun.CountColumn("FAILED", "failed"), noun.TimeColumn("SINCE", "since"), noun.TimeColumn("CREATED", "created_at"),
		},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List the replays of a webhook, newest first", Route: "GET /webhook/replay/{webhook}", List: true},
			{Name: "get", Short: "Show a replay", Route: "GET /webhook/replay/{webhook}/{replay}"},
			{Name: "cancel", Short: "Cancel a replay; what it has sent stays sent", Route: "DELETE /webhook/replay/{webhook}/{replay}", Run: cancelReplay},
		},
	}
}

func cancelReplay(ctx context.Context, s *session.Session, in noun.Input) error {
	_, err := s.API.Send(ctx, session.Request{Method: http.MethodDelete, Path: in.Expand("/webhook/replay/{webhook}/{replay}")})
	if err != nil {
		return err
	}
	return s.Printer.Text("Cancelled replay %s.", in.Path["replay"])
}

func replayCommand(e *session.Env) *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:   "replay WEBHOOK",
		Short: "Deliver again what a webhook received in a stretch of time, or chosen receipts",
		Long: `Deliver again what a webhook received in a stretch of time, or chosen receipts, and show how far it is.
Ctrl-C stops to show it; the replay itself goes on, until it is done or cancelled.

  steward webhook replay orders --since 2h --status failed
  steward webhook replay orders --since 2026-11-15T08:00:00Z --until 2026-11-15T09:00:00Z --to whds_… --rate 50
  steward webhook replay orders --receipt whrc_…,whrc_…
  steward webhook replay cancel orders whrp_…`,
		Args: session.Args("WEBHOOK"),
	}
	v := noun.Verb{Route: "POST /webhook/replay/{webhook}", Fields: append(rangeFields(),
		noun.Field{Name: "receipt", Path: "receiptIds", Kind: noun.List, Usage: "the receipt with this `id`, instead of --since; up to 1000"},
		noun.Field{Name: "status", Path: "status", Values: statuses(), Usage: "only if the last delivery has this `status`: pending, waiting (for a retry), success or failed (which includes waiting)"},
		noun.Field{Name: "destination", Path: "destinationId", Noun: "destination", Usage: "only what went to the destination with this `id` or URL"},
		noun.Field{Name: "to", Path: "to", Noun: "destination", Usage: "send to the destination with this `id` or URL (default: where it went)"},
		noun.Field{Name: "rate", Path: "rate", Kind: noun.Number, Usage: "`number` of deliveries per second (default: as fast as the destinations respond)"},
		noun.Field{Name: "dry-run", Path: "dry_run", Kind: noun.Boolean, Usage: "only count the deliveries"})}
	read := noun.AddFields(e, cmd, v)
	cmd.Flags().BoolVar(&detach, "detach", false, "print the replay and do not wait for it")
	cmd.RunE = e.Command(func(ctx context.Context, s *session.Session, args []string) error {
		in, err := noun.NewInput(ctx, s, v, args, "")
		if err != nil {
			return err
		}
		if err := read(ctx, s, in); err != nil {
			return err
		}
		return replay(ctx, s, in, detach)
	})
	cmd.ValidArgsFunction = noun.CompleteArgs(e, v)
	for _, v := range replayNoun().Verbs {
		cmd.AddCommand(noun.VerbCommand(e, replayNoun(), v))
	}
	return cmd
}

func replay(ctx context.Context, s *session.Session, in noun.Input, detach bool) error {
	if in.Fields["since"] == nil && in.Fields["receiptIds"] == nil {
		return exit.Usagef("--since is required, such as --since 1h, or --receipt")
	}
	res, err := s.API.Send(ctx, session.Request{Method: http.MethodPost, Path: in.Expand("/webhook/replay/{webhook}"), Body: in.Fields})
	if err != nil {
		return err
	}
	var state client.Replay
	if err := session.Decode(res.Body, &state); err != nil {
		return err
	}
	if state.ID == "" { // a dry run
		if s.Printer.Tabular() {
			return s.Printer.Text("%s would be made.", output.Plural(state.Total, "delivery"))
		}
		return s.Printer.Item(res.Body)
	}
	if detach {
		return s.Printer.Item(res.Body)
	}
	return watchReplay(ctx, s, in, state)
}

// replayInterval is the time between two looks at a replay.
const replayInterval = 500 * time.Millisecond

func watchReplay(ctx context.Context, s *session.Session, in noun.Input, state client.Replay) error {
	bar := s.NewBar(state.Total, progressbar.OptionShowIts())
	path := in.Expand("/webhook/replay/{webhook}") + "/" + url.PathEscape(state.ID)
	for {
		raw, err := s.API.Get(ctx, path, nil)
		if errors.Is(err, context.Canceled) {
			s.Note("\nThe replay goes on; `steward webhook replay cancel %s %s` cancels it.", in.Path["webhook"], state.ID)
			return err
		}
		if err != nil {
			return err
		}
		if err := session.Decode(raw, &state); err != nil {
			return err
		}
		if bar != nil {
			bar.ChangeMax64(max(state.Total, 1))
			_ = bar.Set64(state.Done)
		}
		if state.State != client.ReplayStateRunning {
			if bar != nil {
				s.Note("")
			}
			if !s.Printer.Tabular() {
				return s.Printer.Item(raw)
			}
			return s.Printer.Text("Replay %s is %s: %s, of which %s failed.", state.ID, s.Printer.Status(string(state.State)),
				output.Plural(state.Done, "delivery"), humanize.Comma(state.Failed))
		}
		select {
		case <-ctx.Done():
		case <-time.After(replayInterval):
		}
	}
}
