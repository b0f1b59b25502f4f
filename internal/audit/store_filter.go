package audit

import (
	"fmt"
	"strings"
	"time"

	"steward/internal/id"
)

// conditions are a WHERE clause and its arguments, the first of which is the organization.
type conditions struct {
	text string
	args []any
}

func (c *conditions) add(condition string, value any) {
	c.args = append(c.args, value)
	c.text += fmt.Sprintf(` AND %s $%d`, condition, len(c.args))
}

// addIf adds the condition that a column has a value, unless the value is empty.
func (c *conditions) addIf(column, value string) {
	if value != "" {
		c.add(column+` =`, value)
	}
}

// conditions returns the conditions of an organization's entries before one that the filter matches. An
// id has its time in milliseconds, so that the time is a range of each index.
func (f Filter) conditions(orgID, before string) *conditions {
	c := &conditions{text: `org_id = $1`, args: []any{orgID}}
	if f.End != nil {
		before = min(before, firstID(f.End.Std().Add(time.Millisecond)))
		c.add(`at <`, *f.End)
	}
	c.add(`id <`, before)
	if f.Start != nil {
		c.add(`id >=`, firstID(f.Start.Std()))
		c.add(`at >=`, *f.Start)
	}
	c.addIf(`target`, f.Target)
	c.addIf(f.actorColumn(), f.Actor)
	if strings.HasSuffix(f.Action, ".") {
		c.addIf(`thing`, thingOf(f.Action))
	} else {
		c.addIf(`action`, f.Action)
	}
	return c
}

// afterAll sorts after every id of the table.
const afterAll = "aue"

// firstID returns a text that sorts before the ids of a millisecond and after all earlier ones.
func firstID(t time.Time) string {
	const timeDigits = 10 // of a ULID
	return id.At(id.Audit, t)[:len(id.Audit)+1+timeDigits]
}
