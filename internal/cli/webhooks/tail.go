package webhooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/contexts"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

type tailFlags struct {
	since   string
	fromNow bool
	filters []string
	forward string
	secret  string
}

func tailCommand(e *session.Env) *cobra.Command {
	var flags tailFlags
	cmd := &cobra.Command{
		Use:   "tail [WEBHOOK]",
		Short: "Follow what webhooks receive and deliver",
		Long: `Follow what a webhook, or all webhooks, receive and deliver: one line for each request, and one for each
attempt to deliver it. -v prints the bodies too, -o ndjson whole events.

The command remembers how far it has come, for each webhook and context: the next time, it begins there and
misses nothing, unless --since or --now is given. After it was killed, it may show the last event again. The
first time, it begins now.

With --forward, each request is also sent to a URL, such as that of a program on this machine, signed with
--secret or with a secret that is printed at the start, and the answer is shown:

  steward webhook tail orders --forward http://localhost:3000/hook`,
		Args: session.Args("[WEBHOOK]"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			t, err := newTail(ctx, s, args, flags)
			if err != nil {
				return err
			}
			return t.run(ctx)
		}),
		ValidArgsFunction: noun.CompleteArgs(e, noun.Verb{Route: "GET /{webhook}"}),
	}
	cmd.Flags().StringVar(&flags.since, "since", "", "begin at this `time`, or duration before now such as 1h")
	cmd.Flags().BoolVar(&flags.fromNow, "now", false, "begin now, not where the last tail ended")
	cmd.Flags().StringArrayVar(&flags.filters, "filter", nil, "only what has this `field=value`: status=failed, event=receipt, method=POST or destination=ID; can be repeated")
	cmd.Flags().StringVar(&flags.forward, "forward", "", "send each request to this `URL` too")
	cmd.Flags().StringVar(&flags.secret, "secret", "", "sign what is forwarded with this `secret` (whsec_…)")
	return cmd
}

// follow is a tail being shown.
type follow struct {
	*session.Session
	webhook   string // id, or "" for all
	since     time.Time
	filters   map[string]string
	position  Position
	start     string // id of the event to begin after, or ""
	sender    *Sender
	names     map[string]string // webhook id → name
	connected bool              // at least once
	saveErr   error
}

func newTail(ctx context.Context, s *session.Session, args []string, flags tailFlags) (*follow, error) {
	t := &follow{Session: s, names: map[string]string{}}
	var err error
	if len(args) == 1 {
		if t.webhook, err = noun.Resolve(ctx, s, "webhook", args[0], noun.Input{}); err != nil {
			return nil, err
		}
		t.names[t.webhook] = args[0]
	}
	if flags.since != "" {
		if t.since, err = noun.PastTime(flags.since); err != nil {
			return nil, exit.Usagef("--since %v", err)
		}
	}
	if t.filters, err = parseFilters(flags.filters); err != nil {
		return nil, err
	}
	if err := t.setForward(flags); err != nil {
		return nil, err
	}
	return t, t.setPosition(flags)
}

func parseFilters(texts []string) (map[string]string, error) {
	filters := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch name {
		case "status", "event", "method", "destination":
			filters[name] = value
		default:
			ok = false
		}
		if !ok || value == "" {
			return nil, exit.Usagef("--filter must be status=…, event=…, method=… or destination=…")
		}
	}
	return filters, nil
}

func (t *follow) setForward(flags tailFlags) (err error) {
	if flags.forward == "" {
		if flags.secret != "" {
			return exit.Usagef("--secret needs --forward")
		}
		return nil
	}
	secret := flags.secret
	if secret == "" {
		secret = NewSecret()
		t.Note("Forwarding to %s, signed with %s", flags.forward, secret)
	}
	t.sender, err = NewSender(flags.forward, secret)
	if err != nil {
		return exit.Usagef("%v", err)
	}
	return nil
}

// setPosition finds where the last tail of the same kind ended.
func (t *follow) setPosition(flags tailFlags) error {
	file, err := contexts.Default(t.Getenv)
	if err != nil {
		return err
	}
	t.position = NewPosition(filepath.Join(filepath.Dir(file.Path), "tail"),
		t.Context.URL, t.Context.OrgID, t.Name, t.webhook, flags.forward)
	if flags.fromNow || !t.since.IsZero() {
		return nil
	}
	start, saved, err := t.position.Load()
	if err != nil || start == "" {
		return err
	}
	t.start = start
	t.Note("Continuing where the last tail ended, %s; --now begins with what is to come.", output.Ago(saved, time.Now()))
	return nil
}

func (t *follow) run(ctx context.Context) error {
	err := t.follow(ctx, t.start)
	if exit.Code(err) == exit.Invalid && t.start != "" && !t.connected {
		t.Note("The server does not know where the last tail ended; beginning now.")
		err = t.follow(ctx, "")
	}
	if errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is the normal end
	}
	return err
}

func (t *follow) follow(ctx context.Context, start string) error {
	params := client.TailParams{
		WebhookID: t.webhook, LastEventID: start, Since: t.since, Position: t.reached,
		Reconnecting: func(err error, wait time.Duration) {
			if !errors.Is(err, io.EOF) {
				t.Note("The connection is lost (%v); connecting again in %v.", err, wait.Round(100*time.Millisecond))
			}
		},
	}
	for e, err := range t.API.Client.Tail(ctx, params) {
		if err != nil {
			return t.API.Failed(err)
		}
		if t.saveErr != nil {
			return t.saveErr
		}
		if err := t.handle(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// reached remembers a position. The first one is sent as soon as the tail is connected.
func (t *follow) reached(id string) {
	if !t.connected {
		t.connected = true
		t.Note("Following %s; Ctrl-C ends it.", t.what())
	}
	if err := t.position.Save(id); err != nil {
		t.saveErr = fmt.Errorf("remember the position: %w", err)
	}
}

func (t *follow) what() string {
	if t.webhook == "" {
		return "all webhooks"
	}
	return "webhook " + t.names[t.webhook]
}

// handle shows an event, unless the filters leave it out.
func (t *follow) handle(ctx context.Context, e client.Event) error {
	switch {
	case e.Receipt != nil && t.wants(e.Type, e.Receipt.Method, "", ""):
		return t.handleReceipt(ctx, e)
	case e.Delivery != nil && t.wants(e.Type, "", string(e.Delivery.Status), e.Delivery.WebhookDestinationID):
		if !t.Printer.Tabular() {
			return t.printEvent(e)
		}
		result := ""
		if e.Delivery.Response != nil {
			result = fmt.Sprintf("  %d  %s", e.Delivery.Response.Status, output.Duration(time.Duration(e.Delivery.Response.DurationMs)*time.Millisecond))
		} else if e.Delivery.Error != nil {
			result = "  " + output.Clean(*e.Delivery.Error)
		}
		if e.Delivery.Retries > 0 {
			result += fmt.Sprintf("  retry %d", e.Delivery.Retries)
		}
		err := t.line("%s  ← %s%s  %s  %s", t.clock(e.Delivery.Date), t.Printer.Status(string(e.Delivery.Status)), result,
			output.Clean(t.webhookName(ctx, e.Delivery.WebhookID)), t.Printer.Faint(e.Delivery.WebhookReceiptID+" to "+e.Delivery.WebhookDestinationID))
		if err != nil || !t.Verbose || e.Delivery.Response == nil {
			return err
		}
		return t.text(e.Delivery.Response.Body)
	case e.Gap != nil:
		t.Note("Events since %s may be missing: they are no longer kept.", e.Gap.Since.Local().Format(time.DateTime))
	}
	return nil
}

func (t *follow) handleReceipt(ctx context.Context, e client.Event) error {
	show := func() error { return t.showReceipt(ctx, e.Receipt) }
	if !t.Printer.Tabular() {
		show = func() error { return t.printEvent(e) }
	}
	if err := show(); err != nil {
		return err
	}
	if t.sender == nil {
		return nil
	}
	return t.forward(ctx, e.Receipt)
}

// printEvent prints an event as JSON.
func (t *follow) printEvent(e client.Event) error {
	printer := *t.Printer
	if printer.Format == output.JSON {
		printer.Format = output.NDJSON
	}
	return printer.Item(fmt.Appendf(nil, `{"event":%q,"position":%q,"data":%s}`, e.Type, e.ID, e.Data))
}

// wants reports whether the filters let an event through.
func (t *follow) wants(event, method, status, destination string) bool {
	for name, value := range map[string]string{"event": event, "method": method, "status": status, "destination": destination} {
		if want, ok := t.filters[name]; ok && !strings.EqualFold(want, value) {
			return false
		}
	}
	return true
}

func (t *follow) showReceipt(ctx context.Context, r *client.Receipt) error {
	target := t.webhookName(ctx, r.WebhookID)
	if r.Query != "" {
		target += "?" + r.Query
	}
	filtered := ""
	if r.Filtered != nil {
		filtered = fmt.Sprintf("  %d filtered", *r.Filtered)
	}
	err := t.line("%s  → %-6s %s  %s  %s%s  %s", t.clock(r.Date), output.Clean(r.Method), output.Clean(target),
		output.ByteSize(r.Size), output.Clean(r.ContentType), filtered, t.Printer.Faint(r.ID))
	if err != nil || !t.Verbose || r.PayloadOmitted {
		return err
	}
	return t.body(r.Payload)
}

func (t *follow) line(format string, args ...any) error {
	_, err := fmt.Fprintf(t.Out, format+"\n", args...)
	return err
}

func (t *follow) clock(at time.Time) string {
	return t.Printer.Faint(at.Local().Format("15:04:05.000"))
}

func (t *follow) body(payload json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, payload, "    ", "  "); err != nil {
		return fmt.Errorf("print the payload: %w", err)
	}
	return t.line("    %s", b.String())
}

// text prints a text's lines, indented and without control characters.
func (t *follow) text(text string) error {
	for line := range strings.Lines(text) {
		if err := t.line("    %s", output.Clean(strings.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	return nil
}

// webhookName returns a webhook's name, or its id.
func (t *follow) webhookName(ctx context.Context, id string) string {
	if name, ok := t.names[id]; ok {
		return name
	}
	webhook, err := t.API.Client.GetWebhook(ctx, id)
	if err != nil {
		return id
	}
	t.names[id] = webhook.Name
	return webhook.Name
}

// forward sends a receipt to --forward's URL and shows the answer. A program on this machine may be
// down for a while, so forward shows an error and the tail goes on.
func (t *follow) forward(ctx context.Context, r *client.Receipt) error {
	request, err := request(ctx, t.Session, r)
	if err != nil {
		return err
	}
	answer, err := t.sender.Send(ctx, request)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return showAnswer(t.Session, answer, err)
}

func showAnswer(s *session.Session, answer Answer, err error) error {
	out := s.Out
	if !s.Printer.Tabular() {
		out = s.Err
	}
	took := output.Duration(answer.Took)
	if err != nil {
		_, err := fmt.Fprintf(out, "              ⇒ %s  %s  %s\n", s.Printer.Status("failed"), output.Clean(err.Error()), took)
		return err
	}
	status := "failed"
	if answer.OK() {
		status = "success"
	}
	_, err = fmt.Fprintf(out, "              ⇒ %s  %d  %s\n", s.Printer.Status(status), answer.Status, took)
	if err != nil || !s.Verbose {
		return err
	}
	for line := range strings.Lines(string(answer.Body)) {
		if _, err := fmt.Fprintf(out, "    %s\n", output.Clean(strings.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	return nil
}

// request returns a receipt as it was received, byte by byte.
func request(ctx context.Context, s *session.Session, r *client.Receipt) (Request, error) {
	request := Request{
		ID: r.ID, Date: r.Date.UTC().Format(noun.TimeFormat), Method: r.Method, Query: r.Query, Headers: r.Headers,
	}
	body, err := s.API.Client.GetReceiptPayload(ctx, r.WebhookID, r.ID)
	if err != nil {
		return request, s.API.Failed(err)
	}
	request.SetBody(body)
	return request, nil
}

// Position is a file that remembers the last handled event.
type Position struct{ path string }

// NewPosition returns the position, in a directory, of the tail that a few words identify, such as a
// server, a webhook and a target.
func NewPosition(dir string, words ...string) Position {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return Position{filepath.Join(dir, base64.RawURLEncoding.EncodeToString(sum[:16]))}
}

// Load returns the position and when it was saved. It returns "" if there is none.
func (p Position) Load() (id string, saved time.Time, err error) {
	text, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the position: %w", err)
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the position: %w", err)
	}
	return strings.TrimSpace(string(text)), info.ModTime(), nil
}

// Save stores a position. It replaces the file in one step and does not sync it: after a crash of
// the machine, some events are shown again.
func (p Position) Save(id string) error {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", p.path, os.Getpid())
	if err := os.WriteFile(part, []byte(id+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(part, p.path)
}
