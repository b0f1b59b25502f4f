// Package top shows the activity of a running server, from the figures that its metrics listener
// reports: as a view in the terminal, or as lines for scripts.
//
// A scrape (scrape.go) has counters since the server's start. Two scrapes make a View (view.go):
// rates and latencies in the time between them.
package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
	scrapeTimeout   = 10 * time.Second
)

// clearScreen clears the screen and moves to its beginning.
const clearScreen = "\x1b[H\x1b[2J"

// Command returns the command that shows a server's activity.
func Command(p session.Program) *cobra.Command {
	t := &top{out: p.Out, http: &http.Client{Timeout: scrapeTimeout}}
	var once bool
	var format string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what a running server is doing",
		Long: `Show what a running server is doing, again and again until Ctrl-C: events, deliveries, requests, errors, and the
organizations that use most of something: requests, events, S3, databases or key-value stores. The figures are those of one process, from its
--metrics-listen. They come from the server that runs on --data, or from --metrics.

On a terminal the view is replaced each time; otherwise views follow each other. -o json prints one object per
line. With --once, one view is printed after one interval.`,
		Args: config.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != string(output.JSON) && format != textFormat {
				return &exit.Error{Code: exit.Usage, Message: "-o must be text or json"}
			}
			if t.interval < minInterval {
				return &exit.Error{Code: exit.Usage, Message: fmt.Sprintf("--interval must be %v or more", minInterval)}
			}
			if t.url == "" {
				cfg, err := config.Load(config.Given(cmd), p.Environ)
				if err != nil {
					return err
				}
				if t.url, err = metricsURL(cfg.Data); err != nil {
					return err
				}
			}
			env := session.Env{Program: p}
			t.json = format == string(output.JSON)
			t.redraw = !once && !t.json && env.CanRedraw()
			return t.run(cmd.Context(), once)
		},
	}
	cmd.Flags().StringVar(&t.url, "metrics", "", "`URL` of the metrics listener of another server, such as http://10.0.0.1:9464")
	cmd.Flags().DurationVar(&t.interval, "interval", defaultInterval, "`time` between two views")
	cmd.Flags().BoolVar(&once, "once", false, "print one view and exit")
	cmd.Flags().StringVarP(&format, "output", "o", textFormat, "`format`: text or json")
	config.AddFlags(cmd, "config", "data")
	return cmd
}

const textFormat = "text"

// metricsURL returns the metrics listener's URL of the server that runs on a data directory.
func metricsURL(dir string) (string, error) {
	a, err := datadir.ReadAddresses(dir)
	if err != nil {
		return "", &exit.Error{
			Code: exit.NotFound, Message: "no server has run on " + dir, Cause: err,
			Advice: "Name its directory with --data, or its metrics listener with --metrics.",
		}
	}
	address := a.Listen["metrics"]
	if address == "" {
		return "", &exit.Error{
			Code: exit.NotFound, Message: "the server has no metrics listener", Advice: "Start it with --metrics-listen.",
		}
	}
	return "http://" + address, nil
}

// top is a running command.
type top struct {
	out      io.Writer
	http     *http.Client
	url      string
	interval time.Duration
	json     bool // one object per line
	redraw   bool // each view replaces the last one
}

// run prints views until ctx ends, or just one if once is set. If it cannot reach the server any
// more, it waits for it.
func (t *top) run(ctx context.Context, once bool) error {
	last, err := t.scrape(ctx)
	if err != nil {
		return unreachable(t.url, err)
	}
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		next, err := t.scrape(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (once || t.json):
			return unreachable(t.url, err)
		case err != nil:
			err = t.writeText(fmt.Sprintf("%v\n", unreachable(t.url, err)))
		default:
			err = t.show(newView(last, next))
			last = next
		}
		if err != nil || once {
			return err
		}
	}
}

func unreachable(url string, err error) error {
	return &exit.Error{
		Code: exit.Unavailable, Message: "the metrics of " + url + " cannot be read: " + err.Error(), Cause: err,
		Advice: "Is the server running?",
	}
}

func (t *top) show(v View) error {
	if t.json {
		return json.NewEncoder(t.out).Encode(v)
	}
	return t.writeText(v.text(t.url))
}

// writeText prints a text in place of the last one, or after it.
func (t *top) writeText(text string) error {
	if !t.redraw {
		_, err := io.WriteString(t.out, text+"\n")
		return err
	}
	if fd, ok := session.Terminal(t.out); ok {
		if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
			text = fit(text, width, height)
		}
	}
	_, err := io.WriteString(t.out, clearScreen+text)
	return err
}

// fit cuts a text to a screen, on which longer lines would push the first ones out.
func fit(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(height-1, 1))] // the cursor is below them
	for i, line := range lines {
		characters := []rune(line)
		lines[i] = string(characters[:min(len(characters), width)])
	}
	return strings.Join(lines, "\n") + "\n"
}
