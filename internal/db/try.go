package db

import (
	"context"
	"errors"
)

// errTried rolls back Try's transaction.
var errTried = errors.New("db: the transaction was only tried")

// Try runs fn in a transaction that it rolls back, to learn whether fn's writes would succeed. fn
// must use the given context for everything. Errors are fn's and Write's.
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
