-- What other packages read of accounts: who may act in an organization, and the names of projects. They
-- read these views and no table of accounts, so that the tables may change.
CREATE VIEW active_members AS SELECT org_id, user_id, role FROM members WHERE NOT disabled;
CREATE VIEW project_names AS SELECT org_id, id, name FROM projects;
