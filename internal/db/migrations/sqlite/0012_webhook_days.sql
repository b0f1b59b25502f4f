-- +goose Up

-- Counts of the minutes and hours (unit, in seconds) of a day that is long over, in one row instead of a row for each. Every bucket with
-- counts is four varints: how many without any came before it, received, delivered, failed. What webhook_counts has of that day comes on top.
CREATE TABLE webhook_days (
    org_id TEXT    NOT NULL,
    unit   INTEGER NOT NULL,
    day    INTEGER NOT NULL,
    counts BLOB    NOT NULL,
    PRIMARY KEY (org_id, unit, day)
) STRICT, WITHOUT ROWID;
