-- A consent covers the redirect URIs that the client had when it was given. Versions tell which those are:
-- unlike times, no two changes of a client have the same.

-- redirects_since has the version of the client in which each redirect URI was added, as a JSON object. URIs
-- of before are not in it, which counts as version 0.
ALTER TABLE oidc_clients ADD COLUMN redirects_since TEXT NOT NULL DEFAULT '{}';

-- client_version is the version of the client to which the user consented last.
ALTER TABLE oidc_consents ADD COLUMN client_version BIGINT NOT NULL DEFAULT 0;
