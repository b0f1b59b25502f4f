-- +goose Up

-- Refuses a transaction that works with a value of an older epoch, in a way that has it done again.
-- +goose StatementBegin
CREATE FUNCTION expect_epoch(of TEXT, expected BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE((SELECT n FROM epochs WHERE name = of), 0) <> expected THEN
        RAISE EXCEPTION 'the epoch of % is not % any more', of, expected USING ERRCODE = 'serialization_failure';
    END IF;
END
$$;
-- +goose StatementEnd
