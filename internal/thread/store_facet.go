package thread

import (
	"cmp"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/db"
	"steward/internal/stamp"
)

// posting gathers what is to change in the two tables that list threads under their facets, so that each kind of change is one statement
// for all threads of a transaction.
type posting struct {
	created, changed lines
	sizes            map[sized]int64
	slots            uint32
}

// lines are what leaves one of the tables, what comes into it, and what moves to another place in it.
type lines struct{ gone, added, moved *db.Bulk }

func newLines() lines {
	return lines{
		gone:  db.NewBulk(db.Text, db.Bytes, db.Text),
		added: db.NewBulk(db.Text, db.Bytes, db.Text, db.Bytes),
		moved: db.NewBulk(db.Text, db.Bytes, db.Text, db.Bytes),
	}
}

// sized names a part of the number of threads that a facet has. The slot follows from the thread: what counted it counts it off.
type sized struct {
	orgID   string
	facet   facet
	deleted bool
	slot    int64
}

func (z sized) compare(o sized) int {
	return cmp.Or(cmp.Compare(z.orgID, o.orgID), compareFacets(z.facet, o.facet), strings.Compare(strconv.FormatBool(z.deleted),
		strconv.FormatBool(o.deleted)), cmp.Compare(z.slot, o.slot))
}

// sizeSlots is over how many rows the size of a facet is spread on PostgreSQL, where the writers of one row wait for each other's commit.
const sizeSlots = 8

func newPosting(dialect db.Dialect) *posting {
	slots := uint32(1)
	if dialect == db.Postgres {
		slots = sizeSlots
	}
	return &posting{created: newLines(), changed: newLines(), sizes: map[sized]int64{}, slots: slots}
}

// resize notes that a facet has more or fewer threads.
func (p *posting) resize(t Thread, f facet, by int64) {
	h := fnv.New32a()
	h.Write([]byte(t.ID))
	p.sizes[sized{t.OrgID, f, t.Deleted, int64(h.Sum32() % p.slots)}] += by
}

// follow brings a thread's rows from the facets under which it was found to those that it has now, and all of them to its new time of
// change. Each row knows the keys beside it: where these change, all rows are written anew.
func (p *posting) follow(r *row) {
	if slices.Equal(r.listed, r.facets) {
		p.changed.move(r.facets, r.found, r.found.UpdatedAt, r.Thread, r.UpdatedAt)
		return
	}
	p.unlist(r.found, r.listed)
	mates := matesOf(r.metadata.facets)
	for _, f := range r.facets {
		p.created.added.Add(r.OrgID, f.place(r.Deleted, r.CreatedAt), r.ID, mates)
		p.changed.added.Add(r.OrgID, f.place(r.Deleted, r.UpdatedAt), r.ID, mates)
		p.resize(r.Thread, f, 1)
	}
}

// unlist takes a thread out of both tables.
func (p *posting) unlist(t Thread, facets []facet) {
	for _, f := range facets {
		p.created.gone.Add(t.OrgID, f.place(t.Deleted, t.CreatedAt), t.ID)
		p.changed.gone.Add(t.OrgID, f.place(t.Deleted, t.UpdatedAt), t.ID)
		p.resize(t, f, -1)
	}
}

// hide moves a thread's rows to those of the deleted ones.
func (p *posting) hide(from Thread, facets []facet) {
	to := from
	to.Deleted = true
	p.created.move(facets, from, from.CreatedAt, to, to.CreatedAt)
	p.changed.move(facets, from, from.UpdatedAt, to, to.UpdatedAt)
	for _, f := range facets {
		p.resize(from, f, -1)
		p.resize(to, f, 1)
	}
}

func (l lines) move(facets []facet, from Thread, at stamp.Time, to Thread, then stamp.Time) {
	for _, f := range facets {
		l.moved.Add(from.OrgID, f.place(from.Deleted, at), from.ID, f.place(to.Deleted, then))
	}
}

func (p *posting) send(tx *db.Tx) error {
	return errors.Join(p.created.send(tx, "thread_facets"), p.changed.send(tx, "thread_changes"), p.sendSizes(tx))
}

func (l lines) send(tx *db.Tx, table string) error {
	return errors.Join(
		l.gone.Send(tx, `DELETE FROM `+table+` AS f {USING v} WHERE f.org_id = v.column1 AND f.place = v.column2 AND f.thread_id = v.column3`),
		l.added.Send(tx, `INSERT INTO `+table+` (org_id, place, thread_id, mates)
			SELECT v.column1, v.column2, v.column3, v.column4 FROM {v} WHERE true ON CONFLICT (org_id, place, thread_id) DO NOTHING`),
		l.moved.Send(tx, `UPDATE `+table+` AS f SET place = v.column4
			{FROM v} WHERE f.org_id = v.column1 AND f.place = v.column2 AND f.thread_id = v.column3`))
}

// sendSizes comes last, and in one order everywhere: these rows are shared with other transactions.
func (p *posting) sendSizes(tx *db.Tx) error {
	all := db.NewBulk(db.Text, db.Bytes, db.Bool, db.Int, db.Int)
	empty := db.NewBulk(db.Text, db.Bytes, db.Bool, db.Int)
	for _, z := range slices.SortedFunc(maps.Keys(p.sizes), sized.compare) {
		if p.sizes[z] == 0 {
			continue
		}
		all.Add(z.orgID, z.facet[:], z.deleted, z.slot, p.sizes[z])
		if p.sizes[z] < 0 {
			empty.Add(z.orgID, z.facet[:], z.deleted, z.slot)
		}
	}
	return errors.Join(all.Send(tx, `INSERT INTO thread_sizes (org_id, facet, deleted, slot, n)
		SELECT v.column1, v.column2, v.column3, v.column4, v.column5 FROM {v} WHERE true
		ON CONFLICT (org_id, facet, deleted, slot) DO UPDATE SET n = thread_sizes.n + excluded.n`),
		empty.Send(tx, `DELETE FROM thread_sizes AS z {USING v} WHERE z.n = 0 AND z.org_id = v.column1 AND z.facet = v.column2
			AND z.deleted = v.column3 AND z.slot = v.column4`))
}

// sizesOf tells how many threads each facet has.
func sizesOf(q db.Querier, orgID string, deleted bool, facets []facet) (map[facet]int64, error) {
	args := []any{orgID, deleted}
	var in []string
	for _, f := range facets {
		args = append(args, f[:])
		in = append(in, "$"+strconv.Itoa(len(args)))
	}
	type size struct {
		facet []byte
		n     int64
	}
	rows, err := db.Collect(q, func(row db.Row) (z size, err error) { return z, row.Scan(&z.facet, &z.n) },
		`SELECT facet, CAST(SUM(n) AS BIGINT) FROM thread_sizes WHERE org_id = $1 AND deleted = $2 AND facet IN (`+strings.Join(in, ", ")+`)
		GROUP BY facet`, args...)
	sizes := make(map[facet]int64, len(rows))
	for _, z := range rows {
		sizes[facet(z.facet)] = z.n
	}
	return sizes, err
}

// What thread_counts counts.
const (
	countThreads  = "thread"
	countDeleted  = "deleted"
	countSessions = "session"
)

// slots is over how many rows a count is spread on PostgreSQL, where the writers of one row wait for each other's commit. They are taken in
// turns.
const slots = 16

// tally sums up what a transaction changes in the counts, so that it touches each row once.
type tally map[counted]int64

type counted struct{ orgID, projectID, what string }

func (c counted) compare(o counted) int {
	return strings.Compare(c.orgID+"\x00"+c.projectID+"\x00"+c.what, o.orgID+"\x00"+o.projectID+"\x00"+o.what)
}

// add counts for an organization and for a project, which may not be known ("").
func (t tally) add(orgID, projectID, what string, n int64) {
	t[counted{orgID, "", what}] += n
	if projectID != "" {
		t[counted{orgID, projectID, what}] += n
	}
}

// addCounts writes a tally, in one order everywhere, and last in a transaction: these rows are shared with others.
func (s *Store) addCounts(tx *db.Tx, counts tally) error {
	slot := int64(0)
	if tx.Dialect() == db.Postgres {
		slot = int64(s.turn.Add(1) % slots)
	}
	rows := db.NewBulk(db.Text, db.Text, db.Text, db.Int, db.Int)
	for _, c := range slices.SortedFunc(maps.Keys(counts), counted.compare) {
		if counts[c] != 0 {
			rows.Add(c.orgID, c.projectID, c.what, slot, counts[c])
		}
	}
	return rows.Send(tx, `INSERT INTO thread_counts (org_id, project_id, what, slot, n)
		SELECT v.column1, v.column2, v.column3, v.column4, v.column5 FROM {v} WHERE true
		ON CONFLICT (org_id, project_id, what, slot) DO UPDATE SET n = thread_counts.n + excluded.n`)
}

// count is addCounts for one.
func (s *Store) count(tx *db.Tx, orgID, projectID, what string, n int64) error {
	counts := tally{}
	counts.add(orgID, projectID, what, n)
	return s.addCounts(tx, counts)
}

// total gives the exact size of an organization (projectID "") or of a project.
func total(q db.Querier, orgID, projectID, what string) (n int64, err error) {
	err = q.Row(`SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM thread_counts WHERE org_id = $1 AND project_id = $2 AND what = $3`,
		orgID, projectID, what).Scan(&n)
	return n, err
}
