package output

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	gap       = "  " // between columns
	minColumn = 8    // columns are not cut below this width
	bold      = "\x1b[1m"
	red       = "\x1b[31m"
	green     = "\x1b[32m"
	yellow    = "\x1b[33m"
	faint     = "\x1b[2m"
	reset     = "\x1b[0m"
)

// fit returns the width of each column: that of its widest cell, or less if a row would be wider than
// the limit. The widest columns are cut first; those that must be kept, such as ids, are not.
func fit(columns []Column, rows [][]string, limit int) []int {
	widths := make([]int, len(columns))
	total := -len(gap)
	for i, c := range columns {
		widths[i] = text.StringWidth(c.Title)
		for _, row := range rows {
			widths[i] = max(widths[i], text.StringWidth(row[i]))
		}
		total += widths[i] + len(gap)
	}
	for limit > 0 && total > limit {
		widest := -1
		for i, c := range columns {
			if !c.Keep && widths[i] > max(minColumn, text.StringWidth(c.Title)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// writeRow prints cells in columns. The last column is not padded.
func (l *List) writeRow(cells []string, style string) error {
	var b strings.Builder
	for i, cell := range cells {
		if text.StringWidth(cell) > l.widths[i] {
			cell = text.Snip(cell, l.widths[i], "…")
		}
		padding := ""
		if i < len(cells)-1 {
			padding = strings.Repeat(" ", max(0, l.widths[i]-text.StringWidth(cell))) + gap
		}
		color := style
		if color == "" && l.columns[i].Kind == Status {
			color = statusColor(cell)
		}
		b.WriteString(l.printer.Paint(color, cell) + padding)
	}
	_, err := io.WriteString(l.printer.Out, strings.TrimRight(b.String(), " ")+"\n")
	return err
}

// Paint returns a text in a colour, if colours may be printed.
func (p *Printer) Paint(color, s string) string {
	if !p.Color || color == "" || s == "" {
		return s
	}
	return color + s + reset
}

// Status returns the text of a status in its colour.
func (p *Printer) Status(status string) string { return p.Paint(statusColor(status), status) }

// Faint returns a text of little importance.
func (p *Printer) Faint(s string) string { return p.Paint(faint, s) }

func statusColor(status string) string {
	switch status {
	case "success", "done", "ok", "passed", "yes":
		return green
	case "failed", "error", "disabled":
		return red
	case "pending", "running", "cancelled", "warning":
		return yellow
	}
	return ""
}
