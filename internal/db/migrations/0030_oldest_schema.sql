-- The oldest schema whose binaries can serve this one: the number of their last migration. A migration
-- that takes away what they use raises it (see CONTRIBUTING.md).
CREATE TABLE oldest_schema (
    number BIGINT NOT NULL
);
INSERT INTO oldest_schema (number) VALUES (32);
