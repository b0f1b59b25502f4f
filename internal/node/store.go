package node

import (
	"context"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// write writes that this process serves its node, and forgets nodes that nobody has served for long.
func (d *Directory) write(ctx context.Context) error {
	now := stamp.Of(d.Now())
	return d.DB.Write(ctx, func(tx *db.Tx) error {
		if err := tx.Send(`INSERT INTO nodes (id, process, address, seen_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (id) DO UPDATE SET process = excluded.process, address = excluded.address, seen_at = excluded.seen_at`,
			d.Self.ID, d.Self.Process, d.Self.Address, now); err != nil {
			return fmt.Errorf("note node: %w", err)
		}
		if err := tx.Send(`DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE seen_at < $1`+
			db.SkipLocked(tx.Dialect())+`)`, now.Add(-forgetAfter)); err != nil {
			return fmt.Errorf("forget nodes: %w", err)
		}
		return nil
	})
}

// clear writes that this process no longer serves its node.
func (d *Directory) clear(ctx context.Context) error {
	if _, err := d.DB.Exec(ctx, `UPDATE nodes SET process = '', address = '' WHERE id = $1 AND process = $2`,
		d.Self.ID, d.Self.Process); err != nil {
		return fmt.Errorf("clear node: %w", err)
	}
	return nil
}

// list returns all nodes, ordered by id.
func (d *Directory) list(ctx context.Context) ([]Node, error) {
	all, err := db.Collect(d.DB.Read(ctx), scan, `SELECT n.id, n.process, n.address, n.seen_at, coalesce(p.schema, 0)
		FROM nodes n LEFT JOIN processes p ON p.id = n.process ORDER BY n.id`)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return all, nil
}

func scan(r db.Row) (n Node, err error) {
	err = r.Scan(&n.ID, &n.Process, &n.Address, &n.SeenAt, &n.Schema)
	return n, err
}
