//go:build bench

package bench

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"
)

// query opens the database of an installation for a function. It does without package db, whose schema
// is not that of the base.
func (in *installation) query(f func(d *sql.DB)) {
	in.t.Helper()
	driver, source := "sqlite", filepath.Join(in.Dir, "steward.db")
	if in.Database != "" {
		driver, source = "pgx", in.Database
	}
	d, err := sql.Open(driver, source)
	in.Must(err)
	f(d)
	in.Must(d.Close())
}

// insertCounts inserts the hours of a year into webhook_counts. Then it restarts the process until
// that does not change the table any more: the base packs past days when it stops.
func (c *contender) insertCounts() {
	c.t.Helper()
	c.restart(func() { c.query(c.insertYear) })
	for rows := -1; ; {
		before := rows
		c.restart(func() {
			c.query(func(d *sql.DB) { c.Must(d.QueryRow("SELECT COUNT(*) FROM webhook_counts").Scan(&rows)) })
		})
		if rows == before {
			return
		}
	}
}

// insertYear inserts the hours and days of a year.
func (c *contender) insertYear(d *sql.DB) {
	c.t.Helper()
	now := time.Now().Unix()
	shard, zero := "", ""
	if _, err := d.Exec("SELECT shard FROM webhook_counts"); err == nil { // the base has this column
		shard, zero = ", shard", ", 0"
	}
	for _, unit := range []int64{3600, 86400} {
		_, err := d.Exec(fmt.Sprintf(`WITH RECURSIVE b(bucket) AS (
				SELECT CAST(%[2]d AS BIGINT) UNION ALL SELECT bucket + 1 FROM b WHERE bucket < %[3]d)
			INSERT INTO webhook_counts (org_id, unit, bucket%[5]s, received, delivered, failed)
			SELECT '%[4]s', %[1]d, bucket%[6]s, bucket %% 1000, bucket %% 900, bucket %% 100 FROM b WHERE true
			ON CONFLICT DO NOTHING`,
			unit, (now-366*86400)/unit, now/unit, c.orgID, shard, zero))
		c.Must(err)
	}
}
