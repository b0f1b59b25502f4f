package move

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
)

// prefix begins the names of tables, functions and triggers that exist only during a move.
const prefix = "move_"

// logName returns the name of a table's log.
func logName(name string) string { return prefix + name }

// types maps kinds to the column types in a log.
var types = map[db.Dialect]map[db.Kind]string{
	db.SQLite:   {db.Integer: "INTEGER", db.Boolean: "INTEGER", db.Float: "REAL", db.Text: "TEXT", db.Bytes: "BLOB"},
	db.Postgres: {db.Integer: "bigint", db.Boolean: "boolean", db.Float: "double precision", db.Text: "text", db.Bytes: "bytea"},
}

// statements returns the statements that create the table's log and the triggers that write to it.
func (t *table) statements(dialect db.Dialect) []string {
	key := t.KeyColumns()
	columns := make([]string, len(key))
	for i, c := range key {
		columns[i] = `"` + c.Name + `" ` + types[dialect][c.Kind] + " NOT NULL"
	}
	insert := "INSERT INTO " + t.log + " (" + db.Quoted(key) + ") VALUES (%s." + strings.ReplaceAll(db.Quoted(key), ", ", ", %[1]s.") + ");"
	before := fmt.Sprintf(insert, "OLD")
	after := fmt.Sprintf(insert, "NEW")
	if dialect == db.Postgres {
		return []string{
			"CREATE TABLE " + t.log + " (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, " + strings.Join(columns, ", ") + ")",
			"CREATE FUNCTION " + t.log + "() RETURNS trigger LANGUAGE plpgsql AS $function$ BEGIN " +
				"IF TG_OP <> 'INSERT' THEN " + before + " END IF; IF TG_OP <> 'DELETE' THEN " + after + " END IF; RETURN NULL; END $function$",
			"CREATE TRIGGER " + t.log + " AFTER INSERT OR UPDATE OR DELETE ON " + t.Name + " FOR EACH ROW EXECUTE FUNCTION " + t.log + "()",
		}
	}
	trigger := func(event, do string) string {
		return "CREATE TRIGGER " + t.log + "_" + strings.ToLower(event) + " AFTER " + event + " ON " + t.Name + " BEGIN " + do + " END"
	}
	return []string{
		"CREATE TABLE " + t.log + " (seq INTEGER PRIMARY KEY, " + strings.Join(columns, ", ") + ") STRICT",
		trigger("INSERT", after), trigger("UPDATE", before+" "+after), trigger("DELETE", before),
	}
}

// removals returns the statements that remove the table's log. On SQLite a trigger has to go before
// its log.
func (t *table) removals(dialect db.Dialect) []string {
	if dialect == db.Postgres {
		return []string{
			"DROP TRIGGER IF EXISTS " + t.log + " ON " + t.Name, "DROP FUNCTION IF EXISTS " + t.log + "()", "DROP TABLE IF EXISTS " + t.log,
		}
	}
	var all []string
	for _, event := range []string{"insert", "update", "delete"} {
		all = append(all, "DROP TRIGGER IF EXISTS "+t.log+"_"+event)
	}
	return append(all, "DROP TABLE IF EXISTS "+t.log)
}

// run executes statements in a transaction.
func run(ctx context.Context, d *db.DB, statements []string) error {
	return persist(ctx, d, func(tx *db.Tx) error {
		for _, text := range statements {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// persistence is persist's number of attempts. Each attempt waits 5 seconds for a lock.
const persistence = 4

// persist runs a transaction that locks tables, and tries again if it does not get the locks: a
// frozen process may hold row locks until the server ends its transaction, after 10 seconds.
func persist(ctx context.Context, d *db.DB, f func(*db.Tx) error) (err error) {
	for range persistence {
		err = d.Write(ctx, f)
		if errs.KindOf(err) != errs.Unavailable {
			return err
		}
	}
	return err
}

// change is an entry in a log.
type change struct {
	seq int64
	key []any
}

// logged returns the number before a table's first logged change, and the last one's; 0 and 0 if
// there is none. A transaction that rolled back leaves a gap.
func (t *table) logged(q db.Querier) (before, last int64, err error) {
	if err := q.Row("SELECT COALESCE(MIN(seq) - 1, 0), COALESCE(MAX(seq), 0) FROM "+t.log).Scan(&before, &last); err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", t.log, err)
	}
	return before, last, nil
}

// changes returns a table's first changes, up to a number. On PostgreSQL, one with a lower number
// may still commit later.
func (t *table) changes(q db.Querier, last int64) ([]change, error) {
	key := t.KeyColumns()
	return db.Collect(q, func(r db.Row) (c change, err error) {
		c.key = make([]any, len(key))
		into := []any{&c.seq}
		for i := range c.key {
			into = append(into, &c.key[i])
		}
		if err := r.Scan(into...); err != nil {
			return c, err
		}
		return c, nil
	}, fmt.Sprintf("SELECT seq, %s FROM %s WHERE seq <= $1 ORDER BY seq LIMIT %d", db.Quoted(key), t.log, page), last)
}

func (m *Mover) forget(ctx context.Context, t *table, changes []change) error {
	numbers := make(db.Bulk[int64], len(changes))
	for i, c := range changes {
		numbers[i] = c.seq
	}
	return m.writeSource(ctx, func(tx *db.Tx) error {
		return numbers.Send(tx, "DELETE FROM "+t.log+" WHERE seq {IN v}")
	})
}
