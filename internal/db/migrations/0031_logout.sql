-- Clients that are told when a session ends, in which they got an ID token.

-- backchannel_logout_uri gets a logout token, frontchannel_logout_uri is loaded by the browser of the session.
ALTER TABLE oidc_clients ADD COLUMN backchannel_logout_uri TEXT NULL;
ALTER TABLE oidc_clients ADD COLUMN frontchannel_logout_uri TEXT NULL;

-- sign_in_session_id is the session in which the user granted this, also with offline access. It is null for
-- grants to devices, and for those of before.
ALTER TABLE oidc_grants ADD COLUMN sign_in_session_id TEXT NULL;

-- oidc_logouts holds the clients with a logout URI that got an ID token in a session. due_at is null while
-- the session lives, and set when it ends: to 0, and then to the time of the next attempt. While a process
-- sends the logout token, due_at is the time at which another one may. The row is deleted when the client has
-- taken the token, or at give_up_at, which the first failure sets.
CREATE TABLE oidc_logouts (
    session_id TEXT   NOT NULL,
    client_id  TEXT   NOT NULL,
    org_id     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    due_at     BIGINT NULL,
    attempts   BIGINT NOT NULL,
    give_up_at BIGINT NULL,
    PRIMARY KEY (session_id, client_id)
);
CREATE INDEX oidc_logouts_due ON oidc_logouts (due_at);
CREATE INDEX oidc_logouts_client ON oidc_logouts (client_id, due_at);
CREATE INDEX oidc_logouts_user ON oidc_logouts (user_id);
CREATE INDEX oidc_logouts_org ON oidc_logouts (org_id);
