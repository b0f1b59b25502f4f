-- nodes holds the data directories that processes on this database have, with the process that serves
-- each, the address at which other replicas reach it, and the time of its last sign of life. process is
-- empty if none does, and address if it takes no requests of replicas.
CREATE TABLE nodes (
    id      TEXT   NOT NULL PRIMARY KEY,
    process TEXT   NOT NULL,
    address TEXT   NOT NULL,
    seen_at BIGINT NOT NULL
);
