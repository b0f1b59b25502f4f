package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// listFlags are the flags of lists.
type listFlags struct {
	limit    int
	watch    bool
	interval time.Duration
}

// pageSize is the most items that a page of the API has.
const pageSize = 1000

func (f *listFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.limit, "limit", 100, "print at most `n` items; 0 prints all")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "print again when something changes, until Ctrl-C")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "time between two requests of --watch")
}

// printList prints a list once, or again and again.
func (s *session) printList(ctx context.Context, n noun, v verb, in input, flags listFlags) error {
	if flags.limit < 0 {
		return usagef("--limit must be 0 or more")
	}
	columns := v.columns
	if columns == nil {
		columns = n.columns
	}
	if flags.watch {
		return s.watch(ctx, columns, v, in, flags)
	}
	list := s.out.List(columns)
	more, err := s.each(ctx, v, in, flags.limit, list.Add)
	if err != nil {
		return err
	}
	if err := list.Close(); err != nil {
		return err
	}
	switch {
	case list.Count() == 0 && s.out.Tabular():
		s.note("Nothing found.")
	case more:
		s.note("Only the first %d are shown; --limit 0 shows all.", flags.limit)
	}
	return nil
}

// each calls do for each item of a list, up to a limit, and reports whether there are more.
func (s *session) each(
	ctx context.Context, v verb, in input, limit int, do func(json.RawMessage) error,
) (more bool, err error) {
	query := v.query(in)
	if v.pick == "" || v.pick == "objects" || v.pick == "keys" { // other lists come in one piece
		query.Set("limit", strconv.Itoa(pageSize))
		if limit > 0 {
			query.Set("limit", strconv.Itoa(min(limit+1, pageSize)))
		}
	}
	count := 0
	for item, err := range s.api.pages(ctx, in.expand(v.pattern()), query, v.pick) {
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

// watch prints a list again when it changes. On a terminal it replaces the table; elsewhere it prints
// the items that are new or different.
func (s *session) watch(ctx context.Context, columns []output.Column, v verb, in input, flags listFlags) error {
	ticker := time.NewTicker(max(flags.interval, 100*time.Millisecond))
	defer ticker.Stop()
	var seen map[string]bool
	for {
		var items []json.RawMessage
		_, err := s.each(ctx, v, in, flags.limit, func(item json.RawMessage) error {
			items = append(items, item)
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		seen, err = s.printChanges(columns, items, seen)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is how it ends
		case <-ticker.C:
		}
	}
}

// printChanges prints the items of a list of which an earlier one has seen some.
func (s *session) printChanges(
	columns []output.Column, items []json.RawMessage, seen map[string]bool,
) (now map[string]bool, err error) {
	now = map[string]bool{}
	var fresh []json.RawMessage
	for _, item := range items {
		now[string(item)] = true
		if !seen[string(item)] {
			fresh = append(fresh, item)
		}
	}
	if seen != nil && len(fresh) == 0 && len(now) == len(seen) {
		return now, nil
	}
	if !isTerminal(s.Out) || !s.out.Tabular() {
		return now, s.printItems(columns, fresh)
	}
	var page bytes.Buffer // written in one piece, so that it does not flicker
	page.WriteString("\x1b[H\x1b[2J")
	buffered := *s.out
	buffered.Out = &page
	to := *s
	to.out = &buffered
	if err := to.printItems(columns, items); err != nil {
		return now, err
	}
	_, err = io.Copy(s.Out, &page)
	return now, err
}

// printItems prints items as a list, or one by one where a list would be a JSON array.
func (s *session) printItems(columns []output.Column, items []json.RawMessage) error {
	printer := *s.out
	if printer.Format == output.JSON {
		printer.Format = output.NDJSON
	}
	list := printer.List(columns)
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
