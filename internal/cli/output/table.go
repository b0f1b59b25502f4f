package output

import (
	"io"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

const (
	gap       = "  " // between columns
	minID     = 10   // ids are not cut below this width
	minColumn = 8    // nor other columns, and not below their titles
	minTitle  = 4    // unless a row does not fit otherwise
	bold      = "\x1b[1m"
	red       = "\x1b[31m"
	green     = "\x1b[32m"
	yellow    = "\x1b[33m"
	faint     = "\x1b[2m"
	reset     = "\x1b[0m"
)

// fit returns the column widths: as wide as the widest cell, or less if a row would exceed the
// limit. Ids next to a name shrink first, and are left out if that is not enough; then it cuts other
// columns, and names last. A column that is left out has width 0.
func fit(columns []Column, rows [][]string, limit int) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = uniseg.StringWidth(c.Title)
		for _, row := range rows {
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	if limit == 0 {
		return widths
	}
	all := layout{columns: columns, widths: slices.Clone(widths), limit: limit}
	if all.shrink(CutFirst, minID) || all.shrink(CutText, minColumn) {
		return all.widths
	}
	rest := layout{columns: columns, widths: widths, limit: limit}
	for i, c := range columns {
		if c.Cut == CutFirst {
			rest.widths[i] = 0
		}
	}
	if rest.shrink(CutText, minColumn) || rest.shrink(CutText, minTitle) {
		return rest.widths
	}
	rest.shrink(CutLast, minColumn)
	return rest.widths
}

// layout has the column widths, and the width that a row must not exceed.
type layout struct {
	columns []Column
	widths  []int
	limit   int
}

// shrink narrows the columns of one kind, always the widest one, until a row is within the limit,
// and reports whether it is. It cuts titles only below minColumn.
func (l layout) shrink(kind Cut, least int) bool {
	for rowWidth(l.widths) > l.limit {
		widest := -1
		for i, c := range l.columns {
			floor := least
			if least >= minColumn {
				floor = max(least, uniseg.StringWidth(c.Title))
			}
			if c.Cut == kind && l.widths[i] > floor && (widest < 0 || l.widths[i] > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		l.widths[widest]--
	}
	return true
}

func rowWidth(widths []int) int {
	total := -len(gap)
	for _, w := range widths {
		if w > 0 {
			total += w + len(gap)
		}
	}
	return total
}

// writeRow prints cells in columns, without spaces at the end.
func (l *List) writeRow(cells []string, style string) error {
	var b strings.Builder
	for i, cell := range cells {
		if l.widths[i] == 0 {
			continue
		}
		if l.limit() > 0 {
			cell = l.columns[i].cut(cell, l.widths[i])
		}
		color := style
		if color == "" && l.columns[i].Kind == Status {
			color = statusColor(cell)
		}
		b.WriteString(l.printer.Paint(color, cell))
		b.WriteString(strings.Repeat(" ", max(0, l.widths[i]-uniseg.StringWidth(cell))) + gap)
	}
	_, err := io.WriteString(l.printer.Out, strings.TrimRight(b.String(), " ")+"\n")
	return err
}

// cut returns a cell that is no wider than its column. It keeps an id's prefix and end: ids from the
// same time begin alike.
func (c Column) cut(cell string, width int) string {
	if uniseg.StringWidth(cell) <= width {
		return cell
	}
	prefix := strings.Index(cell, "_") + 1
	end := len(cell) - (width - prefix - 1)
	if c.Kind == Ident && len(cell) == uniseg.StringWidth(cell) && len(cell)-end >= 4 {
		return cell[:prefix] + "…" + cell[end:]
	}
	taken := 1 // the ellipsis
	rest, state := cell, -1
	for rest != "" {
		_, after, w, next := uniseg.FirstGraphemeClusterInString(rest, state)
		if taken += w; taken > width {
			break
		}
		rest, state = after, next
	}
	return cell[:len(cell)-len(rest)] + "…"
}

// Paint returns a text in a colour, if colours may be printed.
func (p *Printer) Paint(color, s string) string {
	if !p.Color || color == "" || s == "" {
		return s
	}
	return color + s + reset
}

// Status returns a status's text in its colour.
func (p *Printer) Status(status string) string { return p.Paint(statusColor(status), status) }

// Faint returns a less important text, dimmed if colours may be printed.
func (p *Printer) Faint(s string) string { return p.Paint(faint, s) }

func statusColor(status string) string {
	switch status {
	case "success", "done", "ok", "passed", "yes":
		return green
	case "failed", "error", "disabled", "expired":
		return red
	case "pending", "running", "cancelled", "warning":
		return yellow
	}
	return ""
}
