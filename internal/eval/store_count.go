package eval

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	"steward/internal/db"
)

// what is counted, for each project.
type what string

const (
	evals       what = "eval"
	runs        what = "run"
	runsOfAgent what = "run of agent" // the key is the agent
	runsOfEval  what = "run of eval"  // the key is the eval's id
)

// counted names a count.
type counted struct {
	orgID     string
	what      what
	key       string
	projectID string
}

func (c counted) compare(o counted) int {
	return cmp.Or(cmp.Compare(c.orgID, o.orgID), cmp.Compare(c.what, o.what), cmp.Compare(c.key, o.key),
		cmp.Compare(c.projectID, o.projectID))
}

// tally sums up what a transaction changes in the counts, so that it touches each of them once.
type tally map[counted]int64

func (t tally) evals(orgID, projectID string, by int64) {
	t[counted{orgID, evals, "", projectID}] += by
}

func (t tally) runs(orgID, projectID, evalID string, agent *string, by int64) {
	t[counted{orgID, runs, "", projectID}] += by
	t[counted{orgID, runsOfEval, evalID, projectID}] += by
	t.agent(orgID, projectID, agent, by)
}

// agent counts runs of an agent alone, which may not be known.
func (t tally) agent(orgID, projectID string, agent *string, by int64) {
	if agent != nil {
		t[counted{orgID, runsOfAgent, *agent, projectID}] += by
	}
}

// slots is over how many rows a count is spread on PostgreSQL, where the writers of one row wait for each other's commit. A process takes
// one of them: most of what it writes shares transactions, of which one is under way at a time.
const slots = 16

func (s *Store) slot(dialect db.Dialect) int64 {
	if dialect == db.SQLite {
		return 0
	}
	s.slotOnce.Do(func() { s.ownSlot = rand.Int64N(slots) })
	return s.ownSlot
}

// write changes the counts, in one order everywhere, and last in a transaction: these rows are shared with others. What becomes less
// is taken out of all slots and put into one, so that a count of nothing leaves no rows.
func (t tally) write(s *Store, tx *db.Tx) error {
	less, more := db.NewBulk(db.Text, db.Text, db.Text, db.Text), db.NewBulk(db.Text, db.Text, db.Text, db.Text, db.Int, db.Int)
	order := slices.SortedFunc(maps.Keys(t), counted.compare)
	for _, c := range order {
		if t[c] < 0 {
			less.Add(c.orgID, string(c.what), c.key, c.projectID)
		}
	}
	taken, err := db.CollectBulk(tx, less, scanTaken, `DELETE FROM eval_counts AS c {USING v} WHERE c.org_id = v.column1 AND c.what = v.column2
		AND c.key = v.column3 AND c.project_id = v.column4 RETURNING org_id, what, key, project_id, n`)
	for _, row := range taken {
		t[row.counted] += row.n
	}
	for _, c := range order {
		if t[c] != 0 {
			more.Add(c.orgID, string(c.what), c.key, c.projectID, s.slot(tx.Dialect()), t[c])
		}
	}
	return errors.Join(err, more.Send(tx, `INSERT INTO eval_counts (org_id, what, key, project_id, slot, n)
		SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6 FROM {v} WHERE true
		ON CONFLICT (org_id, what, key, project_id, slot) DO UPDATE SET n = eval_counts.n + excluded.n`))
}

type taken struct {
	counted
	n int64
}

func scanTaken(row db.Row) (t taken, err error) {
	return t, row.Scan(&t.orgID, &t.what, &t.key, &t.projectID, &t.n)
}
