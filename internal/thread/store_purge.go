package thread

import (
	"context"
	"errors"

	"steward/internal/db"
	"steward/internal/stamp"
)

// batch is how many rows one transaction removes.
const batch = 200

// victim is a row that is about to be removed.
type victim struct {
	Thread
	facets []facet
}

func scanVictim(row db.Row) (v victim, err error) {
	var packed []byte
	err = row.Scan(&v.OrgID, &v.ID, &v.ProjectID, &v.CreatedAt, &v.UpdatedAt, &v.Deleted, &packed)
	v.facets = unpackFacets(packed)
	return v, err
}

const victimColumns = `t.org_id, t.id, t.project_id, t.created_at, t.updated_at, t.deleted, t.facets`

// Purge removes the threads that were deleted longer than the retention ago, and what is left of deleted projects, batch by batch until
// there are none, or ctx ends.
func (s *Store) Purge(ctx context.Context) error {
	err := s.repeat(ctx, func(tx *db.Tx) (int, error) { return s.purgeDeleted(tx, s.now().Add(-s.Retention)) })
	return errors.Join(err, s.repeat(ctx, s.purgeLeftovers))
}

// repeat runs a batch in a transaction of its own, until it finds nothing more.
func (s *Store) repeat(ctx context.Context, remove func(tx *db.Tx) (int, error)) error {
	for {
		var n int
		err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
			n, err = remove(tx)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

func (s *Store) purgeDeleted(tx *db.Tx, before stamp.Time) (int, error) {
	victims, err := db.Collect(tx, scanVictim, `SELECT `+victimColumns+` FROM threads t WHERE t.deleted_at < $1
		ORDER BY t.deleted_at LIMIT $2`, before, batch)
	if err != nil {
		return 0, err
	}
	return len(victims), s.remove(tx, victims)
}

// remove takes threads away with all that belongs to them.
func (s *Store) remove(tx *db.Tx, victims []victim) error {
	p, counts := newPosting(tx.Dialect()), tally{}
	for _, v := range victims {
		n, err := tx.Exec(`DELETE FROM threads WHERE org_id = $1 AND id = $2`, v.OrgID, v.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // another replica was faster
		}
		what := countThreads
		if v.Deleted {
			what = countDeleted
		}
		p.unlist(v.Thread, v.facets)
		counts.add(v.OrgID, v.ProjectID, what, -1)
	}
	return errors.Join(p.send(tx), s.addCounts(tx, counts))
}

// ProjectGone removes the threads and sessions of a project that is deleted: a first batch in its own transaction, the rest by Purge.
// What a runtime makes in a project of the same name afterwards stays.
func (s *Store) ProjectGone(tx *db.Tx, orgID, projectID string) error {
	now := s.now()
	n, err := s.removeOfProject(tx, orgID, projectID, now)
	if err != nil || n == 0 {
		return err
	}
	_, err = tx.Exec(`INSERT INTO thread_leftovers (org_id, project_id, until) VALUES ($1, $2, $3)
		ON CONFLICT (org_id, project_id) DO UPDATE SET until = excluded.until`, orgID, projectID, now)
	return err
}

func (s *Store) removeOfProject(tx *db.Tx, orgID, projectID string, until stamp.Time) (int, error) {
	key := projectFacet(projectID) // what is listed under it, and how, must not change before it is removed
	found := 0
	for _, deleted := range []bool{false, true} {
		victims, err := db.Collect(tx, scanVictim, `SELECT `+victimColumns+` FROM
			(SELECT thread_id FROM thread_facets WHERE org_id = $1 AND place >= $2 AND place <= $3 ORDER BY place LIMIT $4) f
			JOIN threads t ON t.org_id = $1 AND t.id = f.thread_id`+locked(tx), orgID, key.first(deleted), key.place(deleted, until), batch)
		if err != nil {
			return 0, err
		}
		if err := s.remove(tx, victims); err != nil {
			return 0, err
		}
		found += len(victims)
	}
	n, err := s.removeSessions(tx, orgID, projectID, until)
	return found + n, err
}

func (s *Store) removeSessions(tx *db.Tx, orgID, projectID string, until stamp.Time) (int, error) {
	ids, err := db.Collect(tx, func(row db.Row) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT id FROM sessions WHERE org_id = $1 AND project_id = $2 AND created_at <= $3 LIMIT $4`, orgID, projectID, until, batch)
	if err != nil {
		return 0, err
	}
	gone := int64(0)
	for _, sessionID := range ids {
		n, err := tx.Exec(`DELETE FROM sessions WHERE org_id = $1 AND id = $2`, orgID, sessionID)
		if err != nil {
			return 0, err
		}
		gone += n
	}
	return len(ids), s.count(tx, orgID, projectID, countSessions, -gone)
}

// purgeLeftovers removes a batch of a deleted project; one that is empty is forgotten.
func (s *Store) purgeLeftovers(tx *db.Tx) (int, error) {
	var orgID, projectID string
	var until stamp.Time
	err := tx.Row(`SELECT org_id, project_id, until FROM thread_leftovers LIMIT 1`).Scan(&orgID, &projectID, &until)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := s.removeOfProject(tx, orgID, projectID, until)
	if err != nil || n > 0 {
		return n, err
	}
	_, err = tx.Exec(`DELETE FROM thread_leftovers WHERE org_id = $1 AND project_id = $2 AND until = $3`, orgID, projectID, until)
	return 1, err
}
