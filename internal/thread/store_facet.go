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
)

// posting gathers what is to change in the two tables that list threads under their facets, so that each kind of change is one statement
// for all threads of a transaction.
type posting struct {
	added, goneCreated, goneUpdated *db.Bulk
	addedChanges                    *db.Bulk
	moved, mated, matedChanges      *db.Bulk
	sizes                           map[sized]int64
	slots                           uint32
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

// at are the kinds of the columns that name a row: organization, facet, deleted, time, thread.
var at = []db.Kind{db.Text, db.Bytes, db.Bool, db.Int, db.Text}

// sizeSlots is over how many rows the size of a facet is spread on PostgreSQL, where the writers of one row wait for each other's commit.
const sizeSlots = 8

func newPosting(dialect db.Dialect) *posting {
	with := func(more ...db.Kind) *db.Bulk { return db.NewBulk(append(slices.Clone(at), more...)...) }
	slots := uint32(1)
	if dialect == db.Postgres {
		slots = sizeSlots
	}
	return &posting{
		sizes: map[sized]int64{}, slots: slots,
		added: with(db.Bytes), addedChanges: with(db.Int, db.Bytes), goneCreated: with(), goneUpdated: with(),
		moved: with(db.Int), mated: with(db.Bytes), matedChanges: with(db.Int, db.Bytes),
	}
}

// resize notes that a facet has more or fewer threads.
func (p *posting) resize(t Thread, f facet, deleted bool, by int64) {
	h := fnv.New32a()
	h.Write([]byte(t.ID))
	p.sizes[sized{t.OrgID, f, deleted, int64(h.Sum32() % p.slots)}] += by
}

// follow brings a thread's rows from the facets under which it was found to those that it has now, and all of them to its new time of
// change. Facets that stay are left as they are in the order of creation, unless those beside them changed.
func (p *posting) follow(r *row) {
	from, to := r.found, r.Thread
	if slices.Equal(r.listed, r.facets) {
		for _, f := range r.facets {
			p.moved.Add(from.OrgID, f[:], from.Deleted, int64(from.UpdatedAt), from.ID, int64(to.UpdatedAt))
		}
		return
	}
	mates := matesOf(r.metadata.facets)
	gone := without(r.listed, r.facets)
	p.unlist(from, gone)
	for _, f := range without(r.facets, r.listed) {
		p.added.Add(to.OrgID, f[:], to.Deleted, int64(to.CreatedAt), to.ID, mates)
		p.addedChanges.Add(to.OrgID, f[:], to.Deleted, int64(to.UpdatedAt), to.ID, int64(to.CreatedAt), mates)
		p.resize(to, f, to.Deleted, 1)
	}
	for _, f := range without(r.listed, gone) {
		p.mated.Add(from.OrgID, f[:], from.Deleted, int64(from.CreatedAt), from.ID, mates)
		p.matedChanges.Add(from.OrgID, f[:], from.Deleted, int64(from.UpdatedAt), from.ID, int64(to.UpdatedAt), mates)
	}
}

const (
	facetKey  = `(org_id, facet, deleted, created_at, thread_id)`
	changeKey = `(org_id, facet, deleted, updated_at, thread_id)`
	keyColumn = `v.column1, v.column2, v.column3, v.column4, v.column5`
	thisFacet = ` WHERE thread_facets.org_id = v.column1 AND thread_facets.facet = v.column2 AND thread_facets.deleted = v.column3
		AND thread_facets.created_at = v.column4 AND thread_facets.thread_id = v.column5`
	thisChange = ` WHERE thread_changes.org_id = v.column1 AND thread_changes.facet = v.column2 AND thread_changes.deleted = v.column3
		AND thread_changes.updated_at = v.column4 AND thread_changes.thread_id = v.column5`
)

func (p *posting) send(tx *db.Tx) error {
	return errors.Join(
		p.goneCreated.Send(tx, `DELETE FROM thread_facets WHERE `+facetKey+` IN (SELECT `+keyColumn+` FROM `, `)`),
		p.goneUpdated.Send(tx, `DELETE FROM thread_changes WHERE `+changeKey+` IN (SELECT `+keyColumn+` FROM `, `)`),
		p.added.Send(tx, `INSERT INTO thread_facets (org_id, facet, deleted, created_at, thread_id, mates) SELECT `+keyColumn+`, v.column6
			FROM `, ` WHERE true ON CONFLICT `+facetKey+` DO NOTHING`),
		p.addedChanges.Send(tx, `INSERT INTO thread_changes (org_id, facet, deleted, updated_at, thread_id, created_at, mates)
			SELECT `+keyColumn+`, v.column6, v.column7 FROM `, ` WHERE true ON CONFLICT `+changeKey+` DO NOTHING`),
		p.moved.Send(tx, `UPDATE thread_changes SET updated_at = v.column6 FROM `, thisChange),
		p.mated.Send(tx, `UPDATE thread_facets SET mates = v.column6 FROM `, thisFacet),
		p.matedChanges.Send(tx, `UPDATE thread_changes SET updated_at = v.column6, mates = v.column7 FROM `, thisChange),
		p.sendSizes(tx))
}

// sendSizes comes last, and in one order everywhere: these rows are shared with other transactions.
func (p *posting) sendSizes(tx *db.Tx) error {
	all := db.NewBulk(db.Text, db.Bytes, db.Bool, db.Int, db.Int)
	empty := db.NewBulk(db.Text, db.Bytes, db.Bool, db.Int)
	for _, z := range slices.SortedFunc(maps.Keys(p.sizes), sized.compare) {
		all.Add(z.orgID, z.facet[:], z.deleted, z.slot, p.sizes[z])
		if p.sizes[z] < 0 {
			empty.Add(z.orgID, z.facet[:], z.deleted, z.slot)
		}
	}
	return errors.Join(all.Send(tx, `INSERT INTO thread_sizes (org_id, facet, deleted, slot, n) SELECT `+keyColumn+` FROM `,
		` WHERE true ON CONFLICT (org_id, facet, deleted, slot) DO UPDATE SET n = thread_sizes.n + excluded.n`),
		empty.Send(tx, `DELETE FROM thread_sizes WHERE n = 0 AND (org_id, facet, deleted, slot) IN
			(SELECT v.column1, v.column2, v.column3, v.column4 FROM `, `)`))
}

// unlist takes a thread out of both tables.
func (p *posting) unlist(t Thread, list []facet) {
	for _, f := range list {
		p.goneCreated.Add(t.OrgID, f[:], t.Deleted, int64(t.CreatedAt), t.ID)
		p.goneUpdated.Add(t.OrgID, f[:], t.Deleted, int64(t.UpdatedAt), t.ID)
		p.resize(t, f, t.Deleted, -1)
	}
}

// hide moves a thread's rows to those of the deleted ones.
func hide(tx *db.Tx, t Thread, list []facet) error {
	p := newPosting(tx.Dialect())
	created, updated := db.NewBulk(at...), db.NewBulk(at...)
	for _, f := range list {
		created.Add(t.OrgID, f[:], false, int64(t.CreatedAt), t.ID)
		updated.Add(t.OrgID, f[:], false, int64(t.UpdatedAt), t.ID)
		p.resize(t, f, false, -1)
		p.resize(t, f, true, 1)
	}
	return errors.Join(created.Send(tx, `UPDATE thread_facets SET deleted = NOT thread_facets.deleted FROM `, thisFacet),
		updated.Send(tx, `UPDATE thread_changes SET deleted = NOT thread_changes.deleted FROM `, thisChange), p.send(tx))
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
		SELECT v.column1, v.column2, v.column3, v.column4, v.column5 FROM `,
		` WHERE true ON CONFLICT (org_id, project_id, what, slot) DO UPDATE SET n = thread_counts.n + excluded.n`)
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
