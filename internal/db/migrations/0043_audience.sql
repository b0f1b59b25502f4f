-- allowed_clients has the ids of clients of other organizations that may get tokens for the audience without the
-- consent of a user. A JSON array.
ALTER TABLE oidc_clients ADD COLUMN allowed_clients TEXT NOT NULL DEFAULT '[]';

-- schema is the number of the last migration that the process knows. It is null for processes of earlier versions.
ALTER TABLE processes ADD COLUMN schema BIGINT NULL;

-- document_uri is the client_id of a client that a document describes, and null for others. Each organization whose
-- users sign in to it has a row. The document is requested again after document_expires_at. registration is anonymous,
-- so that processes of earlier versions treat the client as one that registered itself.
ALTER TABLE oidc_clients ADD COLUMN document_uri TEXT NULL;
ALTER TABLE oidc_clients ADD COLUMN document_expires_at BIGINT NULL;
CREATE UNIQUE INDEX oidc_clients_document ON oidc_clients (document_uri, org_id) WHERE document_uri IS NOT NULL;
