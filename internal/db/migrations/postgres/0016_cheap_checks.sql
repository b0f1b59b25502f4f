-- +goose Up

-- PostgreSQL compares x IN (values) one by one by itself: there is nothing to change here.
SELECT 1;
