package db

import (
	"context"
	"fmt"
)

// Numbers of commits give rows an order for readers who follow a table: nothing that is committed
// later gets a number below what a reader has seen, if it reads only what is settled.
//
// On SQLite there is one writer, so a counter will do. On PostgreSQL a number is the id of the
// transaction, which is assigned before the commit: a transaction with a lower one may still be
// running. Settled is the lowest id of those, of all databases of the server.
const (
	sqliteNumber    = `(SELECT n FROM commit_numbers)`
	postgresNumber  = `((SELECT n FROM commit_numbers) + CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT))`
	sqliteSettled   = `((SELECT n FROM commit_numbers) + 1)`
	postgresSettled = `((SELECT n FROM commit_numbers) + CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT))`
	// postgresNext is above the numbers of all transactions that a statement sees.
	postgresNext = `CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT)`
)

// NumberCommit returns an SQL expression for the number of the transaction, for the rows that it
// inserts next.
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
// holds for the statement that it is part of.
func Settled(dialect Dialect) string {
	if dialect == Postgres {
		return postgresSettled
	}
	return sqliteSettled
}

// ContinueNumbers has numbers of commits continue after last, which is the highest one in the
// database. It does so after a database was restored on another PostgreSQL server, whose transaction
// ids may be lower, and has to be called before the first commit that has a number.
func (d *DB) ContinueNumbers(ctx context.Context, last func(q Querier) (int64, error)) error {
	if d.dialect != Postgres {
		return nil
	}
	return d.Write(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(`UPDATE commit_numbers SET n = n`); err != nil { // other replicas wait
			return fmt.Errorf("lock numbers of commits: %w", err)
		}
		n, err := last(tx)
		if err != nil {
			return err
		}
		return tx.ContinueAfter(n)
	})
}

// ContinueAfter has numbers of commits continue after one, unless they are above it already.
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

// NextNumber returns a number above those of all commits that a statement sees.
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
