package account

import (
	"context"
	"errors"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
)

func scanProject(row db.Row) (p Project, err error) {
	err = row.Scan(&p.ID, &p.Name)
	return p, err
}

// Projects lists the projects that a caller sees, newest first.
func (s *Store) Projects(ctx context.Context, caller *auth.Caller) ([]Project, error) {
	return db.Collect(s.DB.Read(ctx), scanProject, `SELECT id, name FROM projects
		WHERE org_id = $1 AND ($2 = '' OR id = $2) ORDER BY created_at DESC, id DESC LIMIT 1000`, caller.OrgID, caller.ProjectID)
}

// CreateProject makes a project.
func (s *Store) CreateProject(ctx context.Context, orgID string, n NewProject) (Project, error) {
	p := Project{ID: id.New(id.Project), Name: n.Name}
	return p, s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, 1)`,
			orgID, p.ID, p.Name, s.now())
		return errors.Join(err, s.Audit(tx, "project.create", p.ID))
	})
}

// DeleteProject removes a project and what hangs on it. An unknown one is NotFound.
func (s *Store) DeleteProject(ctx context.Context, orgID, projectID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`DELETE FROM projects WHERE org_id = $1 AND id = $2`, orgID, projectID)
		if err != nil {
			return err
		}
		if n == 0 {
			return errs.Missing("project", projectID)
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
