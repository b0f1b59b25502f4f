-- +goose Up

-- One process works on the database: what it remembers it can compare by itself.
SELECT 1;
