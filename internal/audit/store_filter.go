package audit

import (
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/list"
)

// list returns the query for an organization's matching entries. An id contains its time in milliseconds,
// so a time span is a range in each index.
func (f Filter) list(orgID string) list.Query[Entry] {
	order := list.ByID(`id`, id.Audit, func(e Entry) string { return e.ID })
	where := list.Where(`org_id = ?`, orgID)
	if f.End != nil {
		order.Begin = []any{firstID(f.End.Std().Add(time.Millisecond))}
		where.Add(`at < ?`, *f.End)
	}
	if f.Start != nil {
		where.Add(`id >= ?`, firstID(f.Start.Std()))
		where.Add(`at >= ?`, *f.Start)
	}
	where.Equal(`target`, f.Target)
	where.Equal(f.actorColumn(), f.Actor)
	if strings.HasSuffix(f.Action, ".") {
		where.Equal(`thing`, thingOf(f.Action))
	} else {
		where.Equal(`action`, f.Action)
	}
	return list.Query[Entry]{
		Name: "audit entries", From: list.Text(`audit`), Where: where, Order: order, Columns: entryColumns, Scan: scanEntry,
	}
}

// firstID returns a text that sorts before all ids from this millisecond and after all earlier ones.
func firstID(t time.Time) string {
	const timeDigits = 10 // in a ULID
	return id.At(id.Audit, t)[:len(id.Audit)+1+timeDigits]
}
