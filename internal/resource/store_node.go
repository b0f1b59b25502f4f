package resource

import (
	"fmt"

	"steward/internal/db"
)

// CountElsewhere counts the databases and stores whose files are in other nodes' data directories.
func CountElsewhere(q db.Querier, node string) (n int, err error) {
	if err := q.Row(`SELECT count(*) FROM resources WHERE node <> '' AND node <> $1`, node).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the resources of other nodes: %w", err)
	}
	return n, nil
}

// HasEmbedded reports whether any node has files for a type.
func HasEmbedded(q db.Querier, t Type) (has bool, err error) {
	if err := q.Row(`SELECT EXISTS (SELECT 1 FROM resources WHERE node > '' AND type = $1)`, t).Scan(&has); err != nil {
		return false, fmt.Errorf("look for embedded resources: %w", err)
	}
	return has, nil
}
