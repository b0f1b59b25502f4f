package db

import (
	"context"
	"fmt"
)

// Commit numbers order rows for readers who follow a table: if a reader reads only settled rows,
// later commits get no number below the ones it has seen.
//
// On SQLite there is one writer, so a counter will do. On PostgreSQL a number is the transaction's
// id, which it gets before the commit: a transaction with a lower one may still be running. The
// lowest running id, across all databases on the server, is the settled number.
const (
	sqliteNumber    = `(SELECT n FROM commit_numbers)`
	postgresNumber  = `((SELECT n FROM commit_numbers) + CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT))`
	sqliteSettled   = `((SELECT n FROM commit_numbers) + 1)`
	postgresSettled = `((SELECT n FROM commit_numbers) + CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT))`
	// postgresNext is above all transactions that a statement sees.
	postgresNext = `CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT)`
)

// NumberCommit returns an SQL expression for the transaction's number, for the rows that it inserts
// next.
func (t *Tx) NumberCommit() (expression string, err error) {
	if t.Dialect() == Postgres {
		return postgresNumber, nil
	}
	if err := t.Send(`UPDATE commit_numbers SET n = n + 1`); err != nil {
		return "", fmt.Errorf("number commit: %w", err)
	}
	return sqliteNumber, nil
}

// Settled returns an SQL expression for a number below which no transaction will commit any more. It
// holds within its statement.
func Settled(dialect Dialect) string {
	if dialect == Postgres {
		return postgresSettled
	}
	return sqliteSettled
}

// ContinueNumbers makes commit numbers continue after last, the highest one in the database. We need
// that after a restore on another PostgreSQL server, whose transaction ids may be lower. Call it
// before the first commit that has a number.
func (d *DB) ContinueNumbers(ctx context.Context, last func(q Querier) (int64, error)) error {
	if d.dialect != Postgres {
		return nil
	}
	return d.Write(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(`UPDATE commit_numbers SET n = n`); err != nil { // makes other replicas wait
			return fmt.Errorf("lock numbers of commits: %w", err)
		}
		n, err := last(tx)
		if err != nil {
			return err
		}
		return tx.ContinueAfter(n)
	})
}

// ContinueAfter makes commit numbers continue after number, unless they are above it already.
func (t *Tx) ContinueAfter(number int64) error {
	text := `UPDATE commit_numbers SET n = $1 WHERE n < $1`
	if t.Dialect() == Postgres {
		text = `UPDATE commit_numbers SET n = $1 + 1 WHERE n + ` + postgresNext + ` <= $1`
	}
	if _, err := t.Exec(text, number); err != nil {
		return fmt.Errorf("continue numbers of commits: %w", err)
	}
	return nil
}

// NextNumber returns a number above every commit that a statement sees.
func NextNumber(q Querier) (number int64, err error) {
	text := `SELECT n + 1 FROM commit_numbers`
	if q.Dialect() == Postgres {
		text = `SELECT n + ` + postgresNext + ` FROM commit_numbers`
	}
	if err := q.Row(text).Scan(&number); err != nil {
		return 0, fmt.Errorf("read the number of the next commit: %w", err)
	}
	return number, nil
}
