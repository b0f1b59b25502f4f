package noun

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// ListFlags are the flags for lists.
type ListFlags struct {
	Limit    int
	Watch    bool
	Interval time.Duration

	apart *output.Group
}

// PageSize is the most items on one of the API's pages.
const PageSize = 1000

// Add adds the flags to a command.
func (f *ListFlags) Add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "print at most `n` items; 0 prints all")
	cmd.Flags().BoolVarP(&f.Watch, "watch", "w", false, "print again when something changes, until Ctrl-C")
	cmd.Flags().DurationVar(&f.Interval, "interval", 2*time.Second, "time between two requests of --watch")
}

// PrintList prints a list once, or again and again. Each range over the items reads them anew.
func PrintList(
	ctx context.Context, s *session.Session, columns []output.Column, items iter.Seq2[json.RawMessage, error], flags ListFlags,
) error {
	if flags.Limit < 0 {
		return exit.Usagef("--limit must be 0 or more")
	}
	if flags.Watch {
		return watch(ctx, s, columns, items, flags)
	}
	list := s.Printer.List(columns)
	list.Apart = flags.apart
	more, err := each(items, flags.Limit, list.Add)
	if err != nil {
		return err
	}
	if err := list.Close(); err != nil {
		return err
	}
	switch {
	case list.Count() == 0 && s.Printer.Tabular():
		s.Note("Nothing found.")
	case more:
		s.Note("Only the first %d are shown; --limit 0 shows all.", flags.Limit)
	}
	return nil
}

// each calls do for each item in a list, up to a limit, and reports whether there are more.
func each(items iter.Seq2[json.RawMessage, error], limit int, do func(json.RawMessage) error) (more bool, err error) {
	count := 0
	for item, err := range items {
		if err != nil {
			return false, err
		}
		if limit > 0 && count == limit {
			return true, nil
		}
		count++
		if err := do(item); err != nil {
			return false, err
		}
	}
	return false, nil
}

// items returns a list's items. It reads at most one more than the limit.
func (v Verb) items(ctx context.Context, s *session.Session, in Input, limit int) iter.Seq2[json.RawMessage, error] {
	if v.Items != nil {
		return v.Items(ctx, s, in)
	}
	query := v.query(in)
	if v.Pick == "" || v.Pick == "objects" || v.Pick == "keys" { // other lists come in one piece
		query.Set("limit", strconv.Itoa(PageSize))
		if limit > 0 {
			query.Set("limit", strconv.Itoa(min(limit+1, PageSize)))
		}
	}
	return s.API.Pages(ctx, in.Expand(v.pattern()), query, v.Pick)
}

// watch prints a list again when it changes. On a terminal it replaces the table; elsewhere it
// prints only new and changed items.
func watch(
	ctx context.Context, s *session.Session, columns []output.Column, items iter.Seq2[json.RawMessage, error], flags ListFlags,
) error {
	ticker := time.NewTicker(max(flags.Interval, 100*time.Millisecond))
	defer ticker.Stop()
	w := watcher{s: s, columns: columns, apart: flags.apart}
	for {
		var now []json.RawMessage
		_, err := each(items, flags.Limit, func(item json.RawMessage) error {
			now = append(now, item)
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.print(now); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is the normal end
		case <-ticker.C:
		}
	}
}

type watcher struct {
	s       *session.Session
	columns []output.Column
	apart   *output.Group
	// seen has the items from the last time. It is nil at first.
	seen map[string]bool
}

// print prints the changes since the last time.
func (w *watcher) print(items []json.RawMessage) error {
	seen := w.seen
	now := map[string]bool{}
	var fresh []json.RawMessage
	for _, item := range items {
		now[string(item)] = true
		if !seen[string(item)] {
			fresh = append(fresh, item)
		}
	}
	w.seen = now
	if seen != nil && len(fresh) == 0 && len(now) == len(seen) {
		return nil
	}
	if !w.s.CanRedraw() || !w.s.Printer.Tabular() {
		return w.printItems(w.s.Printer, fresh)
	}
	var page bytes.Buffer // written in one piece, so that it does not flicker
	page.WriteString("\x1b[H\x1b[2J")
	buffered := *w.s.Printer
	buffered.Out = &page
	if len(items) == 0 {
		page.WriteString("Nothing found.\n")
	}
	if err := w.printItems(&buffered, items); err != nil {
		return err
	}
	_, err := io.Copy(w.s.Out, &page)
	return err
}

// printItems prints items as a list, or one by one where a list would be a JSON array.
func (w *watcher) printItems(p *output.Printer, items []json.RawMessage) error {
	printer := *p
	if printer.Format == output.JSON {
		printer.Format = output.NDJSON
	}
	list := printer.List(w.columns)
	list.Apart = w.apart
	for _, item := range items {
		if err := list.Add(item); err != nil {
			return err
		}
	}
	if list.Count() == 0 {
		return nil
	}
	return list.Close()
}
