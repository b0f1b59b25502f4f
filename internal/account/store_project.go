package account

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

const projectColumns = `id, name, created_at, version`

func scanProject(row db.Row) (p Project, err error) {
	err = row.Scan(&p.ID, &p.Name, &p.createdAt, &p.version)
	return p, err
}

// Projects returns a page of the projects that a caller can see, newest first. It does not count them,
// since runtimes may register very many.
func (s *Store) Projects(ctx context.Context, caller *auth.Caller, p page.Paging) (page.Page[Project], error) {
	where := list.Where(`org_id = ?`, caller.OrgID)
	where.Equal(`id`, caller.ProjectID)
	projects := list.Query[Project]{
		Name: "projects", From: list.Text(`projects`), Where: where, Columns: projectColumns, Scan: scanProject,
		Order: list.ByTime(`created_at`, `id`, func(p Project) (stamp.Time, string) { return p.createdAt, p.ID }),
	}
	return projects.Page(s.DB.Read(ctx), p, page.Unknown)
}

// CreateProject creates a project.
func (s *Store) CreateProject(ctx context.Context, orgID string, n NewProject) (Project, error) {
	p := Project{ID: id.New(id.Project), Name: n.Name, createdAt: s.now(), version: 1}
	return p, s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES (@org_id, @id,
			@name, @created_at, @version)`,
			db.Args{
				"org_id": orgID, "id": p.ID, "name": p.Name, "created_at": p.createdAt, "version": p.version,
			}); err != nil {
			return fmt.Errorf("insert project: %w", err)
		}
		return s.Audit.Record(tx, "project.create", p.ID)
	})
}

// DeleteProject deletes a project with everything in it. It returns NotFound if there is none with this id.
func (s *Store) DeleteProject(ctx context.Context, orgID, projectID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		p, err := scanProject(tx.Row(`SELECT `+projectColumns+` FROM projects WHERE org_id = $1 AND id = $2`, orgID, projectID))
		if errors.Is(err, db.ErrNoRows) {
			return errs.Missing("project", projectID)
		}
		if err != nil {
			return fmt.Errorf("get project: %w", err)
		}
		if err := match.Check(p); err != nil {
			return err
		}
		n, err := tx.Exec(`DELETE FROM projects WHERE org_id = $1 AND id = $2`, orgID, projectID)
		if err != nil {
			return fmt.Errorf("delete project: %w", err)
		}
		if n == 0 { // another request was faster
			return errs.Missing("project", projectID)
		}
		for _, gone := range s.ProjectGone {
			if err := gone(tx, orgID, projectID); err != nil {
				return err
			}
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		return s.Audit.Record(tx, "project.delete", projectID)
	})
}

// Oldest returns an organization's oldest project, which is the default. It returns Conflict if there is
// none.
func (s *Store) Oldest(tx *db.Tx, orgID string) (projectID string, err error) {
	err = tx.Row(`SELECT id FROM projects WHERE org_id = $1 ORDER BY created_at, id LIMIT 1`, orgID).Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.New(errs.Conflict, "the organization has no project; create one, or use a key of a project")
	}
	if err != nil {
		return "", fmt.Errorf("find oldest project: %w", err)
	}
	return projectID, nil
}

// EnsureProject creates a project unless it exists. Runtimes name projects before anyone creates them, so
// an unknown project gets its id as its name. EnsureProject returns Invalid at the given location if the
// id is malformed, and Forbidden if the caller is confined to another project.
func (s *Store) EnsureProject(tx *db.Tx, caller *auth.Caller, location, projectID string) error {
	if !id.Foreign(projectID) {
		return errs.InvalidField(location, "expected %s", id.ExpectedForeign)
	}
	if !caller.Sees(projectID) {
		return errs.New(errs.Forbidden, "this key is confined to another project")
	}
	var one int
	err := tx.Row(`SELECT 1 FROM projects WHERE org_id = $1 AND id = $2`, caller.OrgID, projectID).Scan(&one)
	if err == nil {
		return nil
	}
	if !errors.Is(err, db.ErrNoRows) {
		return fmt.Errorf("find project: %w", err)
	}
	added, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $2, $3, 1)
		ON CONFLICT (org_id, id) DO NOTHING`, caller.OrgID, projectID, s.now())
	if err != nil {
		return fmt.Errorf("insert project: %w", err)
	}
	if added == 0 { // another transaction has added it in the meantime
		return nil
	}
	return s.Audit.Record(tx, "project.create", projectID)
}

// projectNames finds projects.
var projectNames = db.NameIndex{Table: "projects", ID: "id", Index: "projects_name"}

// SearchProjects finds projects that the caller can see, by id or words in the name.
func (s *Store) SearchProjects(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	if caller.ProjectID != "" {
		return projectNames.With("id", caller.ProjectID).Find(s.DB.Read(ctx), caller.OrgID, text, limit)
	}
	return projectNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}
