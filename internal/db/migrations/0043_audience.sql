-- allowed_clients has the ids of clients of other organizations that may get tokens for the audience without the
-- consent of a user. A JSON array.
ALTER TABLE oidc_clients ADD COLUMN allowed_clients TEXT NOT NULL DEFAULT '[]';

-- schema is the number of the last migration that the process knows. It is null for processes of earlier versions.
ALTER TABLE processes ADD COLUMN schema BIGINT NULL;
