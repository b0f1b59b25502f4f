package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/output"
	"steward/internal/cli/tail"
)

// replayNoun has the verbs of replays that were started.
func replayNoun() noun {
	return noun{
		thing: "replay",
		columns: []output.Column{
			output.ID("ID", "id"),
			{Title: "STATE", Path: "state", Kind: output.Status},
			column("TOTAL", "total"), column("DONE", "done"),
			column("FAILED", "failed"), timeColumn("SINCE", "since"), timeColumn("CREATED", "created_at"),
		},
		verbs: []verb{
			{name: "list", short: "List the replays of a webhook, newest first", route: "GET /webhook/replay/{webhook}", list: true},
			{name: "get", short: "Show a replay", route: "GET /webhook/replay/{webhook}/{replay}"},
			{name: "cancel", short: "Cancel a replay; what it has sent stays sent", route: "DELETE /webhook/replay/{webhook}/{replay}", run: cancelReplay},
		},
	}
}

func cancelReplay(ctx context.Context, s *session, in input) error {
	_, err := s.api.send(ctx, request{method: http.MethodDelete, path: in.expand("/webhook/replay/{webhook}/{replay}")})
	if err != nil {
		return err
	}
	return s.out.Text("Cancelled replay %s.", in.path["replay"])
}

func replayFields() []field {
	return append(rangeFields(),
		field{name: "status", path: "status", values: []string{"pending", "success", "failed"}, usage: "only if the last delivery has this `status`: pending, success or failed"},
		field{name: "destination", path: "destinationId", usage: "only what went to the destination with this `id`"},
		field{name: "to", path: "to", usage: "send to the destination with this `id` (default: where it went)"},
		field{name: "rate", path: "rate", kind: number, usage: "`number` of deliveries per second (default: as fast as the destinations respond)"},
		field{name: "dry-run", path: "dry_run", kind: boolean, usage: "only count the deliveries"})
}

func (e *env) replayCommand() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:   "replay WEBHOOK",
		Short: "Deliver again what a webhook received in a stretch of time",
		Long: `Deliver again what a webhook received in a stretch of time, and show how far it is. Ctrl-C stops to show
it; the replay itself goes on, until it is done or cancelled.

  steward webhook replay orders --since 2h --status failed
  steward webhook replay orders --since 2026-11-15T08:00:00Z --until 2026-11-15T09:00:00Z --to whds_… --rate 50
  steward webhook replay cancel orders whrp_…`,
		Args: exactly("WEBHOOK"),
	}
	read := addFields(e, cmd, replayFields())
	cmd.Flags().BoolVar(&detach, "detach", false, "print the replay and do not wait for it")
	cmd.RunE = e.command(func(ctx context.Context, s *session, args []string) error {
		v := verb{route: "POST /webhook/replay/{webhook}"}
		in, err := s.input(ctx, v, args, "")
		if err != nil {
			return err
		}
		if err := read(in.fields); err != nil {
			return err
		}
		return s.replay(ctx, in, detach)
	})
	cmd.ValidArgsFunction = e.completeArgs(verb{route: "GET /{webhook}"})
	for _, v := range replayNoun().verbs {
		cmd.AddCommand(e.verbCommand(replayNoun(), v))
	}
	return cmd
}

// replayState is a replay, as far as its progress is shown.
type replayState struct {
	ID                  string
	State               string
	Total, Done, Failed int64
}

func (s *session) replay(ctx context.Context, in input, detach bool) error {
	if in.fields["since"] == nil {
		return usagef("--since is required, such as --since 1h")
	}
	res, err := s.api.send(ctx, request{method: http.MethodPost, path: in.expand("/webhook/replay/{webhook}"), body: in.fields})
	if err != nil {
		return err
	}
	var state replayState
	if err := decodeInto(res.Body, &state); err != nil {
		return err
	}
	if state.ID == "" { // a dry run
		if s.out.Tabular() {
			return s.out.Text("%d %s would be made.", state.Total, pluralY(state.Total, "deliver"))
		}
		return s.out.Item(res.Body)
	}
	if detach {
		return s.out.Item(res.Body)
	}
	return s.watchReplay(ctx, in, state)
}

func pluralY(n int64, stem string) string {
	if n == 1 {
		return stem + "y"
	}
	return stem + "ies"
}

// replayInterval is the time between two looks at a replay.
const replayInterval = 500 * time.Millisecond

// watchReplay shows the progress of a replay until it ends.
func (s *session) watchReplay(ctx context.Context, in input, state replayState) error {
	var bar *progressbar.ProgressBar
	if isTerminal(s.Err) {
		bar = progressbar.NewOptions64(max(state.Total, 1), s.barOptions(progressbar.OptionShowIts())...)
	}
	path := in.expand("/webhook/replay/{webhook}") + "/" + url.PathEscape(state.ID)
	for {
		raw, err := s.api.get(ctx, path, nil)
		if errors.Is(err, context.Canceled) {
			s.note("\nThe replay goes on; `steward webhook replay cancel %s %s` cancels it.", in.path["webhook"], state.ID)
			return err
		}
		if err != nil {
			return err
		}
		if err := decodeInto(raw, &state); err != nil {
			return err
		}
		if bar != nil {
			bar.ChangeMax64(max(state.Total, 1))
			_ = bar.Set64(state.Done)
		}
		if state.State != "running" {
			if bar != nil {
				s.note("")
			}
			return s.endReplay(raw, state)
		}
		select {
		case <-ctx.Done():
		case <-time.After(replayInterval):
		}
	}
}

func (s *session) endReplay(raw json.RawMessage, state replayState) error {
	if !s.out.Tabular() {
		return s.out.Item(raw)
	}
	return s.out.Text("Replay %s is %s: %d %s, of which %d failed.", state.ID, s.out.Status(state.State), state.Done,
		pluralY(state.Done, "deliver"), state.Failed)
}

func (e *env) recordCommand() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use:   "record WEBHOOK",
		Short: "Print the requests that a webhook received, for steward webhook play",
		Long: `Print the requests that a webhook received in a stretch of time, one JSON document on each line, oldest
first and with their bodies byte by byte:

  steward webhook record orders --since 1d > fixtures.ndjson`,
		Args: exactly("WEBHOOK"),
		RunE: e.command(func(ctx context.Context, s *session, args []string) error {
			return s.record(ctx, args[0], since, until)
		}),
		ValidArgsFunction: e.completeArgs(verb{route: "GET /{webhook}"}),
	}
	cmd.Flags().StringVar(&since, "since", "1h", "from this `time`, or duration before now, on")
	cmd.Flags().StringVar(&until, "until", "", "before this `time`, or duration before now (default: now)")
	return cmd
}

func (s *session) record(ctx context.Context, name, since, until string) error {
	begin, err := pastTime(since)
	if err != nil {
		return usagef("--since %v", err)
	}
	end := time.Now()
	if until != "" {
		if end, err = pastTime(until); err != nil {
			return usagef("--until %v", err)
		}
	}
	webhook, err := s.resolve(ctx, "webhook", name, input{})
	if err != nil {
		return err
	}
	count := 0
	encoder := json.NewEncoder(s.Out)
	encoder.SetEscapeHTML(false)
	for e, err := range s.api.client.Tail(ctx, client.TailParams{WebhookID: webhook, Since: begin, NoFollow: true}) {
		if err != nil {
			return s.api.failed(err)
		}
		if e.Receipt == nil || !e.Receipt.Date.Before(end) {
			continue
		}
		request, err := s.request(ctx, e.Receipt)
		if err != nil {
			return err
		}
		if err := encoder.Encode(request); err != nil {
			return err
		}
		count++
	}
	s.note("Recorded %d %s.", count, plural(int64(count), "request"))
	return nil
}

func (e *env) playCommand() *cobra.Command {
	var secret string
	var rate float64
	cmd := &cobra.Command{
		Use:   "play FILE URL",
		Short: "Send recorded requests to a URL, as deliveries are sent",
		Long: `Send the requests that steward webhook record has printed to a URL, in their order, signed with --secret or
with a secret that is printed at the start, and show the answers. - is standard input. No server of Steward
is needed. The exit code is 1 if a request fails or is not answered with 2xx.

  steward webhook play fixtures.ndjson http://localhost:3000/hook`,
		Args: exactly("FILE", "URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := e.printer()
			if err != nil {
				return err
			}
			s := &session{env: e, out: out}
			return s.play(cmd.Context(), args[0], args[1], secret, rate)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&secret, "secret", "", "sign with this `secret` (whsec_…)")
	cmd.Flags().Float64Var(&rate, "rate", 0, "`number` of requests per second (default: one after the other)")
	return cmd
}

func (s *session) play(ctx context.Context, name, target, secret string, rate float64) error {
	if secret == "" {
		secret = tail.NewSecret()
		s.note("Signing with %s", secret)
	}
	sender, err := tail.NewSender(target, secret)
	if err != nil {
		return usagef("%v", err)
	}
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return &failure{code: ExitNotFound, message: err.Error(), cause: err}
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	sent, failed, err := s.playAll(ctx, json.NewDecoder(in), sender, rate)
	if err != nil {
		return err
	}
	s.note("Sent %d %s, of which %d failed.", sent, plural(int64(sent), "request"), failed)
	if failed > 0 {
		return &failure{code: ExitFailed, message: fmt.Sprintf("%d of %d requests failed", failed, sent)}
	}
	return nil
}

func (s *session) playAll(ctx context.Context, in *json.Decoder, sender *tail.Sender, rate float64) (sent, failed int, err error) {
	for ctx.Err() == nil {
		var r tail.Request
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			return sent, failed, nil
		} else if err != nil || r.Method == "" {
			return sent, failed, &failure{code: ExitUsage, message: fmt.Sprintf("request %d of the file is not one that record has printed", sent+1)}
		}
		answer, sendErr := sender.Send(ctx, r)
		if ctx.Err() != nil {
			break
		}
		sent++
		if sendErr != nil || !answer.OK() {
			failed++
		}
		if err := s.showPlayed(r, answer, sendErr); err != nil {
			return sent, failed, err
		}
		if rate > 0 {
			wait(ctx, time.Duration(float64(time.Second)/rate)-answer.Took)
		}
	}
	return sent, failed, ctx.Err()
}

func (s *session) showPlayed(r tail.Request, answer tail.Answer, err error) error {
	if _, err := fmt.Fprintf(s.Out, "→ %s %s %s\n", output.Clean(r.Method), strings.TrimSpace(output.Clean(r.Query)), s.out.Faint(r.ID)); err != nil {
		return err
	}
	return s.showAnswer(answer, err)
}

// wait waits for some time, or until ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
