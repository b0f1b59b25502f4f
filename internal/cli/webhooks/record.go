package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

func recordCommand(e *session.Env) *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use:   "record WEBHOOK",
		Short: "Print the requests that a webhook received, for steward webhook play",
		Long: `Print the requests that a webhook received in a stretch of time, one JSON document on each line, oldest
first and with their bodies byte by byte:

  steward webhook record orders --since 1d > fixtures.ndjson`,
		Args: session.Args("WEBHOOK"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			return record(ctx, s, args[0], since, until)
		}),
		ValidArgsFunction: noun.CompleteArgs(e, noun.Verb{Route: "GET /{webhook}"}),
	}
	cmd.Flags().StringVar(&since, "since", "1h", "from this `time`, or duration before now, on")
	cmd.Flags().StringVar(&until, "until", "", "before this `time`, or duration before now (default: now)")
	return cmd
}

func record(ctx context.Context, s *session.Session, name, since, until string) error {
	begin, err := noun.PastTime(since)
	if err != nil {
		return exit.Usagef("--since %v", err)
	}
	end := time.Now()
	if until != "" {
		if end, err = noun.PastTime(until); err != nil {
			return exit.Usagef("--until %v", err)
		}
	}
	webhook, err := noun.Resolve(ctx, s, "webhook", name, noun.Input{})
	if err != nil {
		return err
	}
	count := int64(0)
	encoder := json.NewEncoder(s.Out)
	encoder.SetEscapeHTML(false)
	for e, err := range s.API.Client.Tail(ctx, client.TailParams{WebhookID: webhook, Since: begin, NoFollow: true}) {
		if err != nil {
			return s.API.Failed(err)
		}
		if e.Receipt == nil || !e.Receipt.Date.Before(end) {
			continue
		}
		request, err := request(ctx, s, e.Receipt)
		if err != nil {
			return err
		}
		if err := encoder.Encode(request); err != nil {
			return err
		}
		count++
	}
	s.Note("Recorded %s.", output.Plural(count, "request"))
	return nil
}

func playCommand(e *session.Env) *cobra.Command {
	var p playback
	cmd := &cobra.Command{
		Use:   "play FILE URL",
		Short: "Send recorded requests to a URL, as deliveries are sent",
		Long: `Send the requests that steward webhook record has printed to a URL, in their order, signed with --secret or
with a secret that is printed at the start, and show the answers. - is standard input. No server of Steward
is needed. The exit code is 1 if a request fails or is not answered with 2xx.

  steward webhook play fixtures.ndjson http://localhost:3000/hook`,
		Args: session.Args("FILE", "URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := e.NewPrinter()
			if err != nil {
				return err
			}
			s := &session.Session{Env: e, Printer: out}
			p.file = args[0]
			p.target = args[1]
			return p.run(cmd.Context(), s)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&p.secret, "secret", "", "sign with this `secret` (whsec_…)")
	cmd.Flags().Float64Var(&p.rate, "rate", 0, "`number` of requests per second (default: one after the other)")
	return cmd
}

// playback sends the requests in a file, or from standard input if that is -, to a URL.
type playback struct {
	file, target string
	secret       string  // empty for a new one
	rate         float64 // requests per second; 0 for one after the other
}

func (p playback) run(ctx context.Context, s *session.Session) error {
	if p.secret == "" {
		p.secret = NewSecret()
		s.Note("Signing with %s", p.secret)
	}
	sender, err := NewSender(p.target, p.secret)
	if err != nil {
		return exit.Usagef("%v", err)
	}
	in := s.In
	if p.file != "-" {
		file, err := os.Open(p.file)
		if err != nil {
			return &exit.Error{Code: exit.NotFound, Message: err.Error(), Cause: err}
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	sent, failed, err := playAll(ctx, s, json.NewDecoder(in), sender, p.rate)
	if err != nil {
		return err
	}
	s.Note("Sent %s, of which %d failed.", output.Plural(int64(sent), "request"), failed)
	if failed > 0 {
		return &exit.Error{Code: exit.Failed, Message: fmt.Sprintf("%d of %d requests failed", failed, sent)}
	}
	return nil
}

func playAll(ctx context.Context, s *session.Session, in *json.Decoder, sender *Sender, rate float64) (sent, failed int, err error) {
	for ctx.Err() == nil {
		var r Request
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			return sent, failed, nil
		} else if err != nil || r.Method == "" {
			return sent, failed, &exit.Error{Code: exit.Usage, Message: fmt.Sprintf("request %d of the file is not one that record has printed", sent+1)}
		}
		answer, sendErr := sender.Send(ctx, r)
		if ctx.Err() != nil {
			break
		}
		sent++
		if sendErr != nil || !answer.OK() {
			failed++
		}
		if err := showPlayed(s, r, answer, sendErr); err != nil {
			return sent, failed, err
		}
		if rate > 0 {
			wait(ctx, time.Duration(float64(time.Second)/rate)-answer.Took)
		}
	}
	return sent, failed, ctx.Err()
}

func showPlayed(s *session.Session, r Request, answer Answer, err error) error {
	if _, err := fmt.Fprintf(s.Out, "→ %s %s %s\n", output.Clean(r.Method), strings.TrimSpace(output.Clean(r.Query)), s.Printer.Faint(r.ID)); err != nil {
		return err
	}
	return showAnswer(s, answer, err)
}

// wait waits for some time, or until ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
