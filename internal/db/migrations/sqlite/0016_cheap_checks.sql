-- +goose Up

-- For x IN (three or more values) SQLite fills a table of its own each time that a row is checked; comparisons cost next to nothing. The
-- tables that are written most have these instead.
CREATE TABLE webhook_deliveries_next (
    org_id         TEXT    NOT NULL,
    webhook_id     TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    receipt_id     TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'pending' OR status = 'success' OR status = 'failed'),
    failed         INTEGER NOT NULL DEFAULT 0,
    retries        INTEGER NOT NULL,
    finished_at    INTEGER NULL,
    error          TEXT    NULL,
    response       TEXT    NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO webhook_deliveries_next (org_id, webhook_id, id, destination_id, receipt_id, date, status, failed, retries, finished_at, error,
        response)
    SELECT org_id, webhook_id, id, destination_id, receipt_id, date, status, failed, retries, finished_at, error, response
    FROM webhook_deliveries ORDER BY org_id, webhook_id, id;
DROP TABLE webhook_deliveries;
ALTER TABLE webhook_deliveries_next RENAME TO webhook_deliveries;
CREATE INDEX webhook_deliveries_receipt ON webhook_deliveries (org_id, webhook_id, receipt_id, id);
CREATE INDEX webhook_deliveries_destination ON webhook_deliveries (org_id, webhook_id, destination_id, id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (org_id, webhook_id, id) WHERE failed;
-- What 0002 told of the table went with it.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('webhook_deliveries', 'webhook_deliveries', '1000000 100000 50000 1'),
    ('webhook_deliveries', 'webhook_deliveries_receipt', '1000000 100000 50000 3 1'),
    ('webhook_deliveries', 'webhook_deliveries_destination', '1000000 100000 50000 20000 1'),
    ('webhook_deliveries', 'webhook_deliveries_failed', '10000 1000 500 1');
ANALYZE sqlite_schema;

CREATE TABLE thread_counts_next (
    org_id     TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    what       TEXT    NOT NULL CHECK (what = 'thread' OR what = 'deleted' OR what = 'session'),
    slot       INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    PRIMARY KEY (org_id, project_id, what, slot)
) STRICT, WITHOUT ROWID;
INSERT INTO thread_counts_next (org_id, project_id, what, slot, n) SELECT org_id, project_id, what, slot, n FROM thread_counts;
DROP TABLE thread_counts;
ALTER TABLE thread_counts_next RENAME TO thread_counts;

CREATE TABLE eval_counts_next (
    org_id     TEXT    NOT NULL,
    what       TEXT    NOT NULL CHECK (what = 'eval' OR what = 'run' OR what = 'run of agent' OR what = 'run of eval'),
    key        TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    slot       INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    PRIMARY KEY (org_id, what, key, project_id, slot)
) STRICT, WITHOUT ROWID;
INSERT INTO eval_counts_next (org_id, what, key, project_id, slot, n) SELECT org_id, what, key, project_id, slot, n FROM eval_counts;
DROP TABLE eval_counts;
ALTER TABLE eval_counts_next RENAME TO eval_counts;
