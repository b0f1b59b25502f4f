-- +goose Up

-- Projects are listed newest first, and the oldest is the one for things that come without a project.
CREATE INDEX projects_age ON projects (org_id, created_at, id);
