//go:build bench

package bench

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
)

// templates is the number of users. One thread of each is created through the API and then copied.
// Each user is in one project and one channel; half of the threads share a channel.
const templates = 200

// TestThreadLists measures pages of GET /thread with each filter and the common pairs.
func TestThreadLists(t *testing.T) {
	rows, ref := rowCount(t), startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		in.createTemplates()
		in.fill(rows, func(tx *db.Tx, from, to int) error { return copyTemplates(tx, from, to, rows) })
		meta := func(text string) string { return "metadata=" + url.QueryEscape(text) }
		mail, user, rare := meta(`{"channel":"mail"}`), `metadata={"user":"u{n}"}`, meta(`{"ticket":"rare"}`)
		in.lists(ref, "/thread", []list{
			{"no filter", "", 0, 10},
			{"no filter, pages of 100", "limit=100", 0, 100},
			{"no filter, pages of 1000", "limit=1000", 0, 1000},
			{"middle, by cursor", "cursor=" + in.cursorAt("/thread", rows/2), 0, 10},
			{"oldest first", "direction=asc", 0, 10},
			{"by change", "sort=updated", 0, 10},
			{"by change, oldest first", "sort=updated&direction=asc", 0, 10},
			{"organization", "orgId=" + in.orgID, 0, 10},
			{"project", "projectId=p{n}", 10, 10},
			{"project, by change", "projectId=p{n}&sort=updated", 10, 10},
			{"metadata of half", mail, 0, 10},
			{"metadata of half, by change", mail + "&sort=updated", 0, 10},
			{"metadata of half, oldest first", mail + "&direction=asc", 0, 10},
			{"metadata of 1 in 200", user, templates, 10},
			{"metadata of 11 threads", rare, 0, 10},
			{"metadata of none", meta(`{"channel":"none"}`), 0, 0},
			{"project, metadata of half", "projectId=p{n}&" + mail, 10, 10},
			{"project, metadata of half, by change", "projectId=p{n}&sort=updated&" + mail, 10, 10},
			{"project, metadata of 1 in 200", "projectId=p3&" + meta(`{"user":"u13"}`), 0, 10},
			{"another project, metadata of 1 in 200", "projectId=p4&" + meta(`{"user":"u13"}`), 0, 0},
			{"metadata of half and of 1 in 200", meta(`{"channel":"mail","user":"u13"}`), 0, 10},
			{"metadata of half and of 11", meta(`{"channel":"mail","ticket":"rare"}`), 0, 10},
			{"metadata of half and of 1 in 200 that never meet", meta(`{"channel":"web","user":"u13"}`), 0, 0},
			{"deleted", "deleted=true", 0, 0},
		})
	})
}

// createTemplates creates the threads to copy.
func (in *installation) createTemplates() {
	put := func(id, project string, metadata map[string]any) {
		body := map[string]any{"project_id": project, "user_data": userData, "metadata": metadata}
		in.call("PUT", "/thread/template_"+id, body, new(any))
	}
	for k := range templates {
		channel := []string{"web", "mail"}[k/10%2]
		put(fmt.Sprint(k), fmt.Sprintf("p%d", k%10), map[string]any{"channel": channel, "user": fmt.Sprintf("u%d", k)})
	}
	put("rare", "p0", map[string]any{"channel": "mail", "ticket": "rare"})
}

// userData is the state of a thread, of 300 bytes as the rows of bareInsert.
var userData = `{"state":{"text":"` + strings.Repeat("x", 280) + `"}}`

const (
	// copies are the numbers from $2 to $3 with the template of each. One in $4 is rare, ten in all.
	copies = `WITH RECURSIVE seq (i) AS (
			SELECT CAST($2 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i + 1 < CAST($3 AS BIGINT)),
		copies (i, template, created, updated) AS (SELECT i,
			CASE i % CAST($4 AS BIGINT) WHEN 7 THEN 'template_rare' ELSE 'template_' || CAST(i % 200 AS TEXT) END,
			CAST($1 AS BIGINT) + i * 100, CAST($1 AS BIGINT) + 3600000000 + i * 7919 % 1000003 FROM seq) `
	copyID      = `'thrd_' || CAST(100000000 + c.i AS TEXT)`
	copyThreads = `INSERT INTO threads (org_id, id, project_id, created_at, updated_at, deleted, version, terms,
		user_data_size, metadata, user_data) ` + copies +
		`SELECT t.org_id, ` + copyID + `, t.project_id, c.created, c.updated, t.deleted, 1, t.terms,
		t.user_data_size, t.metadata, t.user_data FROM copies c
		JOIN threads t ON t.org_id = (SELECT org_id FROM bench_templates LIMIT 1) AND t.id = c.template`
	// {table} is one of two indexes; {position} is the position of the template with another time, in the
	// dialect of the database.
	copyIndex = `INSERT INTO {table} (org_id, position, thread_id, keys) ` + copies +
		`SELECT p.org_id, {position}, ` + copyID + `, p.keys FROM copies c
		JOIN bench_templates p ON p.thread_id = c.template ORDER BY 1, 2, 3`
	copyCounts = `INSERT INTO thread_counts (org_id, project_id, threads, deleted, sessions)
		SELECT org_id, project_id, count(*), 0, 0 FROM threads WHERE id >= 'thrd_' GROUP BY org_id, project_id
		ON CONFLICT (org_id, project_id) DO UPDATE SET threads = thread_counts.threads + excluded.threads`
	copyTermCounts = `INSERT INTO thread_term_counts (org_id, term, threads, deleted)
		SELECT org_id, substr(position, 1, 16), count(*), 0 FROM thread_index_created WHERE thread_id >= 'thrd_'
		GROUP BY org_id, substr(position, 1, 16)
		ON CONFLICT (org_id, term) DO UPDATE SET threads = thread_term_counts.threads + excluded.threads`
)

// copyTemplates inserts threads of yesterday.
func copyTemplates(tx *db.Tx, from, to, rows int) error {
	yesterday := time.Now().Add(-24 * time.Hour).Truncate(24 * time.Hour).UnixMicro()
	if from == 0 {
		if err := execAll(tx,
			`CREATE TABLE bench_templates AS
				SELECT org_id, substr(position, 1, 17) AS prefix, thread_id, keys FROM thread_index_created`,
			`CREATE INDEX bench_templates_id ON bench_templates (thread_id)`); err != nil {
			return err
		}
	}
	position := "CAST(p.prefix || unhex(printf('%%016x', c.%s)) AS BLOB)"
	if tx.Dialect() == db.Postgres {
		position = "p.prefix || int8send(c.%s)"
	}
	copyInto := func(table, time string) string {
		return strings.NewReplacer("{table}", table, "{position}", fmt.Sprintf(position, time)).Replace(copyIndex)
	}
	created := copyInto("thread_index_created", "created")
	updated := copyInto("thread_index_updated", "updated")
	for _, text := range []string{copyThreads, created, updated} {
		if _, err := tx.Exec(text, yesterday, from, to, max(10, rows/10)); err != nil {
			return err
		}
	}
	if to < rows {
		return nil
	}
	return execAll(tx, copyCounts, copyTermCounts, `DROP TABLE bench_templates`)
}

func execAll(tx *db.Tx, texts ...string) error {
	for _, text := range texts {
		if _, err := tx.Exec(text); err != nil {
			return err
		}
	}
	return nil
}
