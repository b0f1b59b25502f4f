-- What the ACME client stores: accounts, certificates with their keys, challenges. value is sealed.
CREATE TABLE certificates (
    name        TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    value       BYTEA  NOT NULL,
    modified_at BIGINT NOT NULL
);
