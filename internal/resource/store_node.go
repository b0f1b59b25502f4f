package resource

import (
	"fmt"

	"steward/internal/db"
)

// CountElsewhere returns how many databases and stores have their files in the data directories of other
// nodes.
func CountElsewhere(q db.Querier, node string) (n int, err error) {
	if err := q.Row(`SELECT count(*) FROM resources WHERE node <> '' AND node <> $1`, node).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the resources of other nodes: %w", err)
	}
	return n, nil
}

// HasEmbedded reports whether a node has files of resources of a type.
func HasEmbedded(q db.Querier, t Type) (has bool, err error) {
	if err := q.Row(`SELECT EXISTS (SELECT 1 FROM resources WHERE node > '' AND type = $1)`, t).Scan(&has); err != nil {
		return false, fmt.Errorf("look for embedded resources: %w", err)
	}
	return has, nil
}
