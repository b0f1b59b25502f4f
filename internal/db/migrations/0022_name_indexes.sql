-- A search for words inside names reads all names of an organization. The indexes hold what it needs, so
-- that it does not read the rows.
DROP INDEX projects_name;
DROP INDEX api_keys_name;
DROP INDEX api_keys_user_name;
DROP INDEX oidc_clients_name;
DROP INDEX evals_name;
DROP INDEX evals_project_name;
DROP INDEX webhooks_name;
DROP INDEX buckets_name;
DROP INDEX resources_lower_name;
CREATE INDEX projects_name ON projects (org_id, lower(name) COLLATE "C", id, name);
CREATE INDEX api_keys_name ON api_keys (org_id, lower(name) COLLATE "C", id, name);
CREATE INDEX api_keys_user_name ON api_keys (org_id, user_id, lower(name) COLLATE "C", id, name);
CREATE INDEX oidc_clients_name ON oidc_clients (org_id, lower(name) COLLATE "C", id, name);
CREATE INDEX evals_name ON evals (org_id, lower(name) COLLATE "C", id, name);
CREATE INDEX evals_project_name ON evals (org_id, project_id, lower(name) COLLATE "C", id, name);
CREATE INDEX webhooks_name ON webhooks (org_id, lower(name) COLLATE "C", id, name);
CREATE INDEX buckets_name ON buckets (org_id, lower(name) COLLATE "C", name);
CREATE INDEX resources_lower_name ON resources (org_id, type, lower(name) COLLATE "C", state, id, name);
