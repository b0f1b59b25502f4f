-- filter repeats the field of config, so that ingest does not open it. Where it is null, there is no filter, whatever a
-- config says that an earlier version stored.
ALTER TABLE webhook_destinations ADD COLUMN filter TEXT NULL;

-- webhook_filtered has a row for each receipt that filters kept from destinations: how many. key is the receipt's.
CREATE TABLE webhook_filtered (
    key          TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    destinations BIGINT NOT NULL
);
