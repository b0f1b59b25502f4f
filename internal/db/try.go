package db

import (
	"context"
	"errors"
)

// errTried rolls back the transaction of Try.
var errTried = errors.New("db: the transaction was only tried")

// Try runs fn in a transaction that is rolled back, to learn whether its writes would succeed. fn must use
// the context that it gets for everything. Errors are those of fn and of Write.
func (d *DB) Try(ctx context.Context, fn func(context.Context) error) error {
	err := d.Write(ctx, func(tx *Tx) error {
		if err := fn(tx.Context()); err != nil {
			return err
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}
