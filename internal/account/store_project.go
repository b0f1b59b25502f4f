package account

import (
	"context"
	"errors"
	"math"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
)

const projectColumns = `SELECT id, name, created_at, version FROM projects `

func scanProject(row db.Row) (p Project, err error) {
	err = row.Scan(&p.ID, &p.Name, &p.createdAt, &p.version)
	return p, err
}

// Projects gives a page of the projects that a caller sees, newest first. Runtimes may have registered very many, so they are not counted.
func (s *Store) Projects(ctx context.Context, caller *auth.Caller, p page.Paging) (page.Page[Project], error) {
	before, beforeID := int64(math.MaxInt64), ""
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before, &beforeID); err != nil {
			return page.Page[Project]{}, err
		}
		p.Offset = 0
	}
	rows, err := db.Collect(s.DB.Read(ctx), scanProject, projectColumns+`
		WHERE org_id = $1 AND ($2 = '' OR id = $2) AND (created_at < $3 OR created_at = $3 AND id < $4)
		ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6`, caller.OrgID, caller.ProjectID, before, beforeID, p.Limit+1, p.Offset)
	return page.New(rows, page.Unknown, p, func(p Project) page.Cursor { return page.NewCursor(int64(p.createdAt), p.ID) }), err
}

// CreateProject makes a project.
func (s *Store) CreateProject(ctx context.Context, orgID string, n NewProject) (Project, error) {
	p := Project{ID: id.New(id.Project), Name: n.Name, createdAt: s.now(), version: 1}
	return p, s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, $5)`,
			orgID, p.ID, p.Name, p.createdAt, p.version)
		return errors.Join(err, s.Audit(tx, "project.create", p.ID))
	})
}

// DeleteProject removes a project and what hangs on it. An unknown one is NotFound.
func (s *Store) DeleteProject(ctx context.Context, orgID, projectID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		p, err := scanProject(tx.Row(projectColumns+`WHERE org_id = $1 AND id = $2`, orgID, projectID))
		if errors.Is(err, db.ErrNoRows) {
			return errs.Missing("project", projectID)
		}
		if err != nil {
			return err
		}
		if err := match.Check(p); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM projects WHERE org_id = $1 AND id = $2`, orgID, projectID); err != nil {
			return err
		}
		for _, gone := range s.ProjectGone {
			if err := gone(tx, orgID, projectID); err != nil {
				return err
			}
		}
		return errors.Join(tx.Bump(auth.Callers), s.Audit(tx, "project.delete", projectID))
	})
}

// Oldest gives the project that was made first: the one for things that come without a project. An organization without any is a Conflict.
func (s *Store) Oldest(tx *db.Tx, orgID string) (projectID string, err error) {
	err = tx.Row(`SELECT id FROM projects WHERE org_id = $1 ORDER BY created_at, id LIMIT 1`, orgID).Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.New(errs.Conflict, "the organization has no project; make one, or use a key of a project")
	}
	return projectID, err
}

// Require sees to it that a project which a caller named is there: runtimes name projects before anybody makes them, so an unknown one is
// registered with its id as name. A malformed id is Invalid at the given location; a project other than the caller's own is Forbidden.
func (s *Store) Require(tx *db.Tx, caller *auth.Caller, location, projectID string) error {
	if !id.Foreign(projectID) {
		return errs.Wrong(location, "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	}
	if !caller.Sees(projectID) {
		return errs.New(errs.Forbidden, "this key is confined to another project")
	}
	var one int
	err := tx.Row(`SELECT 1 FROM projects WHERE org_id = $1 AND id = $2`, caller.OrgID, projectID).Scan(&one)
	if !errors.Is(err, db.ErrNoRows) {
		return err
	}
	added, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $2, $3, 1)
		ON CONFLICT (org_id, id) DO NOTHING`, caller.OrgID, projectID, s.now())
	if err != nil || added == 0 {
		return err
	}
	return s.Audit(tx, "project.create", projectID)
}
