package libsql_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStatementsCannotReachOtherFiles tries every way out of a database that SQLite has.
func TestStatementsCannotReachOtherFiles(t *testing.T) {
	d := newDatabase(t)
	other := d.create()
	other.exec("CREATE TABLE secrets (v)")
	other.exec("INSERT INTO secrets VALUES ('secret of another database')")
	victim := filepath.Join(d.Dir, other.p.ID, "data.db")
	target := filepath.Join(d.Dir, "written")
	d.exec("CREATE TABLE t (a)")
	d.exec("INSERT INTO t VALUES ('" + victim + "')")
	for _, sql := range []string{
		"ATTACH '" + victim + "' AS other",
		"attach database 'file:" + victim + "?mode=ro' as other",
		"ATTACH 'file::memory:?cache=shared' AS other",
		"ATTACH '' AS other",
		"ATTACH ':memory:' AS other",
		"/**/ATTACH/**/(SELECT a FROM t)AS/**/other",
		"ATTACH (SELECT a FROM t) AS (SELECT 'other')",
		"EXPLAIN ATTACH '" + victim + "' AS other",
		"DETACH main",
		"DETACH temp",
		"VACUUM INTO '" + target + "'",
		"VACUUM main INTO '" + target + "'",
		"VACUUM INTO 'file:" + target + "'",
		"VACUUM INTO (SELECT '" + target + "')",
		"PRAGMA temp_store_directory = '" + d.Dir + "'",
		"PRAGMA database_list",
		"SELECT * FROM pragma_database_list",
		"SELECT file FROM pragma_database_list('main')",
		"PRAGMA writable_schema = ON",
		"PRAGMA main.writable_schema = RESET",
		"PRAGMA trusted_schema = ON",
		"PRAGMA journal_mode = DELETE",
		"PRAGMA journal_mode = OFF",
		"PRAGMA synchronous = OFF",
		"PRAGMA locking_mode = EXCLUSIVE",
		"PRAGMA max_page_count = 1000000000",
		"PRAGMA cache_size = 1000000000",
		"PRAGMA mmap_size = 1000000000",
		"PRAGMA temp_store = MEMORY",
		"PRAGMA page_size = 65536",
		"PRAGMA encoding = 'UTF-16'",
		"PRAGMA schema_version = 1",
		"PRAGMA wal_checkpoint(TRUNCATE)",
		"PRAGMA wal_autocheckpoint = 0",
		"PRAGMA hard_heap_limit = 1",
		"PRAGMA soft_heap_limit = 1",
		"PRAGMA query_only = ON",
		"PRAGMA ignore_check_constraints = ON",
		"PRAGMA threads = 8",
		"PRAGMA shrink_memory",
		"PRAGMA key = 'x'",
		"PRAGMA vdbe_trace = ON",
		"SELECT load_extension('" + target + "')",
		"SELECT load_extension('" + target + "', 'entry')",
		"SELECT readfile('" + victim + "')",
		"SELECT writefile('" + target + "', 'x')",
		"SELECT edit('x', 'cat')",
		"SELECT fts3_tokenizer('simple')",
		"CREATE VIRTUAL TABLE v USING sqlite_dbpage",
		"CREATE VIRTUAL TABLE temp.v USING dbstat(main)",
		"CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
		"CREATE VIRTUAL TABLE v USING zipfile('/etc/passwd')",
		"CREATE VIRTUAL TABLE v USING fsdir('/')",
		"SELECT * FROM sqlite_dbpage",
		"SELECT * FROM fsdir('/')",
		"UPDATE sqlite_dbpage SET data = zeroblob(4096) WHERE pgno = 1",
		"INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 2, 'CREATE TABLE x (a)')",
		"UPDATE sqlite_schema SET sql = 'x'",
		"DELETE FROM sqlite_master",
		"CREATE TABLE sqlite_x (a)",
		"SELECT * FROM other.secrets",
		"SELECT * FROM secrets",
		"CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT load_extension('x'); END; INSERT INTO t VALUES (1)",
		"CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN ATTACH 'x' AS y; END",
		"CREATE VIEW x AS SELECT * FROM pragma_database_list; SELECT * FROM x",
		"CREATE TABLE x (a DEFAULT (load_extension('x'))); INSERT INTO x DEFAULT VALUES",
	} {
		if r := d.one(sequence(sql)); r.Type != "error" {
			t.Errorf("%s succeeds", sql)
		}
	}
	entries, err := os.ReadDir(d.Dir)
	d.must(err)
	for _, entry := range entries {
		if !slices.Contains([]string{"tmp", d.p.ID, other.p.ID}, entry.Name()) {
			t.Errorf("%s was written", entry.Name())
		}
	}
	if got := other.exec("SELECT v FROM secrets").only(t); got != "secret of another database" {
		t.Errorf("the other database has %v", got)
	}
	if d.exec("PRAGMA integrity_check").only(t) != "ok" {
		t.Error("the database is damaged")
	}
}

// TestFunctionsAndModulesAreKnown fails when a version of SQLite brings something new, so that somebody
// looks at what it can reach.
func TestFunctionsAndModulesAreKnown(t *testing.T) {
	d := newDatabase(t)
	const known = `-> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling changes char coalesce concat concat_ws cos
		cosh count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
		format fts5 fts5_get_locale fts5_insttoken fts5_locale fts5_source_id geopoly_area geopoly_bbox geopoly_blob geopoly_ccw
		geopoly_contains_point geopoly_debug geopoly_group_bbox geopoly_json geopoly_overlap geopoly_regular geopoly_svg
		geopoly_within geopoly_xform glob group_concat hex highlight if ifnull iif instr json json_array json_array_insert
		json_array_length json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch
		json_pretty json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert
		jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace
		jsonb_set julianday lag last_insert_rowid last_value lead length like likelihood likely ln load_extension log log10 log2
		lower ltrim match max min mod nth_value ntile nullif octet_length percent_rank pi pow power printf quote radians random
		randomblob rank replace round row_number rtreecheck rtreedepth rtreenode rtrim sign sin sinh snippet soundex
		sqlite_compileoption_get sqlite_compileoption_used sqlite_log sqlite_offset sqlite_source_id sqlite_version sqrt
		strftime string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc typeof unhex
		unicode unistr unistr_quote unixepoch unlikely upper zeroblob`
	names := strings.Fields(known)
	for _, row := range d.exec("SELECT DISTINCT name FROM pragma_function_list").Rows {
		if !slices.Contains(names, row[0]["value"].(string)) {
			t.Errorf("function %s is not known", row[0]["value"])
		}
	}
	const modules = "dbstat fts5 fts5vocab geopoly json_each json_tree rtree rtree_i32 sqlite_dbpage"
	for _, row := range d.exec("SELECT DISTINCT name FROM pragma_module_list WHERE name NOT LIKE 'pragma\\_%' ESCAPE '\\'").Rows {
		if !slices.Contains(strings.Fields(modules), row[0]["value"].(string)) {
			t.Errorf("module %s is not known", row[0]["value"])
		}
	}
}

// TestWhatClientsNeedIsAllowed runs what tools and migrations do.
func TestWhatClientsNeedIsAllowed(t *testing.T) {
	d := newDatabase(t)
	for _, sql := range []string{
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, UNIQUE (v))",
		"CREATE INDEX i ON t (v, id)",
		"CREATE VIEW w AS SELECT v FROM t",
		"CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET v = upper(v) WHERE id = new.id; END",
		"INSERT INTO t (v) VALUES ('a') ON CONFLICT DO NOTHING",
		"PRAGMA table_info(t)", "PRAGMA table_xinfo('t')", "PRAGMA table_list", "PRAGMA index_list(t)", "PRAGMA index_info(i)",
		"PRAGMA index_xinfo(i)", "PRAGMA foreign_key_list(t)", "PRAGMA foreign_key_check", "PRAGMA foreign_keys",
		"PRAGMA integrity_check", "PRAGMA quick_check(t)", "PRAGMA data_version", "PRAGMA encoding", "PRAGMA page_count",
		"PRAGMA page_size", "PRAGMA freelist_count", "PRAGMA user_version", "PRAGMA user_version = 7", "PRAGMA main.user_version",
		"PRAGMA application_id", "PRAGMA schema_version", "PRAGMA journal_mode", "PRAGMA journal_mode = WAL", "PRAGMA optimize",
		"PRAGMA compile_options", "PRAGMA collation_list",
		"PRAGMA foreign_keys = OFF", "PRAGMA defer_foreign_keys = ON", "PRAGMA legacy_alter_table = ON",
		"PRAGMA busy_timeout", "PRAGMA busy_timeout = 1000000000", "PRAGMA busy_timeout(0)",
		"SELECT * FROM pragma_table_info('t')",
		"ALTER TABLE t ADD COLUMN more", "ALTER TABLE t RENAME COLUMN more TO less", "ALTER TABLE t DROP COLUMN less",
		"ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t",
		"ANALYZE", "REINDEX", "VACUUM", "VACUUM main",
		"CREATE VIRTUAL TABLE f USING fts5(v, content='t', content_rowid='id')",
		"CREATE TRIGGER h AFTER INSERT ON t BEGIN INSERT INTO f (rowid, v) VALUES (new.id, new.v); END",
		"INSERT INTO t (v) VALUES ('some words')",
		"SELECT snippet(f, 0, '<', '>', '', 5) FROM f WHERE f MATCH 'words' ORDER BY rank",
		"INSERT INTO f (f) VALUES ('optimize')",
		"CREATE VIRTUAL TABLE r USING rtree(id, x1, x2)",
		"INSERT INTO r VALUES (1, 0, 1)", "SELECT * FROM r WHERE x1 < 5",
		"SELECT value FROM json_each('[1,2]')", "SELECT * FROM json_tree('{\"a\":1}')",
		"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 10) SELECT sum(n) FROM c",
		"SELECT name, sum(pgsize) FROM dbstat GROUP BY name",
		"CREATE TEMP TABLE x (a)", "EXPLAIN QUERY PLAN SELECT * FROM t", "EXPLAIN SELECT 1",
		"DROP TABLE f", "DROP TABLE t",
	} {
		if r := d.one(execute(sql)); r.Type != "ok" {
			t.Errorf("%s: %+v", sql, r.Error)
		}
	}
	if v := d.exec("PRAGMA user_version").only(t); v != "7" {
		t.Errorf("user_version is %v", v)
	}
	if rows := d.exec("PRAGMA busy_timeout = 7").Rows; len(rows) > 0 { // SQLite answers with the new timeout
		t.Errorf("busy_timeout was set: %v", rows)
	}
}

// TestConnectionsAreNotSharedWithTheirState checks that nothing that a client sets for its stream is
// seen by the next one.
func TestConnectionsAreNotSharedWithTheirState(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE p (id INTEGER PRIMARY KEY)")
	d.exec("CREATE TABLE c (p REFERENCES p)")
	for range 20 {
		d.exec("PRAGMA foreign_keys = OFF")
		d.fails("INSERT INTO c VALUES (1)", "SQLITE_CONSTRAINT_FOREIGNKEY", "")
		d.exec("CREATE TEMP TABLE mine (a)")
		d.fails("SELECT * FROM mine", "SQLITE_ERROR", "no such table: mine")
		d.exec("BEGIN")
		d.fails("COMMIT", "SQLITE_ERROR", "no transaction is active")
	}
}

func TestStatementsSeeChangesOfTheSchema(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (a INTEGER)")
	d.exec("INSERT INTO t VALUES (1)")
	first := d.pipeline(nil, execute("SELECT * FROM t"), execute("BEGIN"), execute("ALTER TABLE t RENAME COLUMN a TO b"), execute("SELECT * FROM t"))
	if name := first.Results[3].result(t).Cols[0].Name; name != "b" {
		t.Errorf("in the transaction the column is %s", name)
	}
	if name := d.exec("SELECT * FROM t").Cols[0].Name; name != "a" {
		t.Errorf("outside of the transaction the column is %s", name)
	}
	d.pipeline(first.Baton, execute("COMMIT"), object{"type": "close"})
	for range 20 {
		if name := d.exec("SELECT * FROM t").Cols[0].Name; name != "b" {
			t.Errorf("after the transaction the column is %s", name)
		}
	}
	d.exec("ALTER TABLE t ADD COLUMN c TEXT")
	if got := d.exec("SELECT * FROM t"); len(got.Cols) != 2 || len(got.Rows[0]) != 2 || *got.Cols[1].Decltype != "TEXT" {
		t.Errorf("a new column: %+v", got)
	}
}
