package thread

import (
	"errors"
	"hash/fnv"
	"strconv"
	"strings"

	"steward/internal/db"
)

// chunkSizes are how many facets one statement takes. A shorter chunk is filled up with repeats of its last facet, which change nothing,
// so that there are few statements to prepare.
var chunkSizes = []int{1, 2, 4, 8, 16, 64}

// eachChunk calls do with facets as arguments.
func eachChunk(list []facet, do func(chunk []any) error) error {
	for len(list) > 0 {
		size := chunkSizes[len(chunkSizes)-1]
		for _, n := range chunkSizes {
			if n >= len(list) {
				size = n
				break
			}
		}
		chunk := make([]any, size)
		for i := range chunk {
			chunk[i] = list[min(i, len(list)-1)][:]
		}
		list = list[min(size, len(list)):]
		if err := do(chunk); err != nil {
			return err
		}
	}
	return nil
}

// numbered gives n parameters from $first on, each in its frame ("%" is where the number goes), with commas.
func numbered(frame string, first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strings.ReplaceAll(frame, "%", strconv.Itoa(first+i)))
	}
	return b.String()
}

// insertFacets lists a thread under facets, in both orders.
func insertFacets(tx *db.Tx, t Thread, list []facet) error {
	return eachChunk(list, func(chunk []any) error {
		err := tx.Send(`INSERT INTO thread_facets (org_id, deleted, created_at, thread_id, facet) VALUES `+
			numbered(`($1, $2, $3, $4, $%)`, 5, len(chunk))+` ON CONFLICT (org_id, facet, deleted, created_at, thread_id) DO NOTHING`,
			append([]any{t.OrgID, t.Deleted, t.CreatedAt, t.ID}, chunk...)...)
		if err != nil {
			return err
		}
		return tx.Send(`INSERT INTO thread_changes (org_id, deleted, updated_at, thread_id, created_at, facet) VALUES `+
			numbered(`($1, $2, $3, $4, $5, $%)`, 6, len(chunk))+` ON CONFLICT (org_id, facet, deleted, updated_at, thread_id) DO NOTHING`,
			append([]any{t.OrgID, t.Deleted, t.UpdatedAt, t.ID, t.CreatedAt}, chunk...)...)
	})
}

const (
	createdRows = ` WHERE org_id = $1 AND deleted = $2 AND created_at = $3 AND thread_id = $4 AND facet IN (`
	updatedRows = ` WHERE org_id = $1 AND deleted = $2 AND updated_at = $3 AND thread_id = $4 AND facet IN (`
)

func deleteFacets(tx *db.Tx, t Thread, list []facet) error {
	return eachChunk(list, func(chunk []any) error {
		in := numbered(`$%`, 5, len(chunk)) + `)`
		err1 := tx.Send(`DELETE FROM thread_facets`+createdRows+in, append([]any{t.OrgID, t.Deleted, t.CreatedAt, t.ID}, chunk...)...)
		err2 := tx.Send(`DELETE FROM thread_changes`+updatedRows+in, append([]any{t.OrgID, t.Deleted, t.UpdatedAt, t.ID}, chunk...)...)
		return errors.Join(err1, err2)
	})
}

// changeFacets brings a thread's rows from one set of facets to another, and all of them to its new time of change.
func changeFacets(tx *db.Tx, from, to Thread, before, after []facet) error {
	gone, added := without(before, after), without(after, before)
	if err := errors.Join(deleteFacets(tx, from, gone), insertFacets(tx, to, added)); err != nil {
		return err
	}
	return eachChunk(without(before, gone), func(chunk []any) error {
		return tx.Send(`UPDATE thread_changes SET updated_at = $5`+updatedRows+numbered(`$%`, 6, len(chunk))+`)`,
			append([]any{from.OrgID, from.Deleted, from.UpdatedAt, from.ID, to.UpdatedAt}, chunk...)...)
	})
}

// hideFacets moves a thread's rows to those of the deleted ones.
func hideFacets(tx *db.Tx, t Thread, list []facet) error {
	return eachChunk(list, func(chunk []any) error {
		in := numbered(`$%`, 6, len(chunk)) + `)`
		err1 := tx.Send(`UPDATE thread_facets SET deleted = $5`+createdRows+in,
			append([]any{t.OrgID, false, t.CreatedAt, t.ID, true}, chunk...)...)
		err2 := tx.Send(`UPDATE thread_changes SET deleted = $5`+updatedRows+in,
			append([]any{t.OrgID, false, t.UpdatedAt, t.ID, true}, chunk...)...)
		return errors.Join(err1, err2)
	})
}

// What thread_counts counts.
const (
	countThreads  = "thread"
	countDeleted  = "deleted"
	countSessions = "session"
)

// slots is over how many rows a count is spread: on PostgreSQL so many transactions can change it at once.
const slots = 16

// count adds n to the totals of an organization and of a project, which may not be known (""). itemID picks the slot.
func count(tx *db.Tx, orgID, projectID, what, itemID string, n int) error {
	h := fnv.New32a()
	h.Write([]byte(itemID))
	slot := int(h.Sum32() % slots)
	values := `($1, '', $2, $3, $4)`
	args := []any{orgID, what, slot, n}
	if projectID != "" {
		values += `, ($1, $5, $2, $3, $4)`
		args = append(args, projectID)
	}
	return tx.Send(`INSERT INTO thread_counts (org_id, project_id, what, slot, n) VALUES `+values+`
		ON CONFLICT (org_id, project_id, what, slot) DO UPDATE SET n = thread_counts.n + excluded.n`, args...)
}

// move counts a thread that goes from one project to another.
func move(tx *db.Tx, from, to Thread) error {
	return errors.Join(count(tx, from.OrgID, from.ProjectID, countThreads, from.ID, -1),
		count(tx, to.OrgID, to.ProjectID, countThreads, to.ID, 1))
}

// total gives the exact size of an organization (projectID "") or of a project.
func total(q db.Querier, orgID, projectID, what string) (n int64, err error) {
	err = q.Row(`SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM thread_counts WHERE org_id = $1 AND project_id = $2 AND what = $3`,
		orgID, projectID, what).Scan(&n)
	return n, err
}
