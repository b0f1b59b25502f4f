package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/waittest"
)

func otherDatabasesCannotBeReached(t *testing.T, server *dbtest.Server, adminURL string) {
	e := open(t, adminURL)
	attacker := create(t, e)
	victim := create(t, e)
	exec1(t, dial(t, e.Connection(victim).URL), "CREATE TABLE secret AS SELECT 'value of the victim' AS value")
	conn := dial(t, e.Connection(attacker).URL)
	for _, sql := range []string{
		// Roles.
		"SET ROLE {victim}", "SET ROLE postgres", "SET SESSION AUTHORIZATION {victim}", "GRANT {victim} TO {attacker}", "GRANT pg_read_server_files TO {attacker}",
		"GRANT pg_execute_server_program TO {attacker}", "GRANT {attacker} TO {victim}", "ALTER ROLE {victim} PASSWORD 'x'", "ALTER ROLE {victim} NOLOGIN",
		"ALTER ROLE {victim} SET search_path = x", "ALTER ROLE postgres PASSWORD 'x'", "ALTER ROLE {attacker} SUPERUSER", "ALTER ROLE {attacker} CREATEDB",
		"ALTER ROLE {attacker} CREATEROLE", "ALTER ROLE {attacker} REPLICATION", "ALTER ROLE {attacker} BYPASSRLS", "ALTER ROLE {attacker} CONNECTION LIMIT -1",
		"ALTER ROLE {attacker} VALID UNTIL 'infinity'", "ALTER ROLE ALL SET work_mem = '1GB'", "CREATE ROLE x", "DROP ROLE {victim}", "DROP OWNED BY {victim}",
		"REASSIGN OWNED BY {victim} TO {attacker}", "SELECT * FROM pg_authid", "SELECT * FROM pg_shadow", "SELECT * FROM pg_user_mapping",
		// Databases.
		"ALTER DATABASE {victim} OWNER TO {attacker}", "ALTER DATABASE {victim} ALLOW_CONNECTIONS false", "ALTER DATABASE {victim} SET search_path = x",
		"ALTER DATABASE {victim} RENAME TO x", "ALTER DATABASE {attacker} RENAME TO x", "ALTER DATABASE {attacker} OWNER TO {victim}", "ALTER DATABASE postgres SET search_path = x",
		"DROP DATABASE {victim}", "CREATE DATABASE x", "CREATE DATABASE x TEMPLATE {victim}", "GRANT CONNECT ON DATABASE {victim} TO {attacker}",
		"COMMENT ON DATABASE {victim} IS 'x'", "SELECT * FROM {victim}.public.secret",
		// The host.
		"COPY (SELECT 1) TO PROGRAM 'id'", "CREATE TEMP TABLE f (x text); COPY f FROM PROGRAM 'id'", "COPY (SELECT 1) TO '/tmp/x'", "CREATE TEMP TABLE f (x text); COPY f FROM '/etc/passwd'",
		"SELECT pg_read_file('/etc/passwd')", "SELECT pg_read_binary_file('postgresql.conf')", "SELECT pg_ls_dir('/')", "SELECT pg_stat_file('/etc/passwd')",
		"SELECT pg_ls_logdir()", "SELECT pg_ls_waldir()", "SELECT lo_import('/etc/passwd')", "SELECT lo_export(lo_create(0), '/tmp/x')",
		"CREATE FUNCTION f(text) RETURNS int AS '/lib/x86_64-linux-gnu/libc.so.6', 'system' LANGUAGE C", "CREATE FUNCTION f() RETURNS int AS 'x' LANGUAGE internal",
		"LOAD '/lib/x86_64-linux-gnu/libc.so.6'", "LOAD '$libdir/dblink'", "CREATE TABLESPACE x LOCATION '/tmp'", "SELECT pg_file_write('x', 'x', false)",
		// Extensions and connections to elsewhere.
		"CREATE EXTENSION dblink", "CREATE EXTENSION postgres_fdw", "CREATE EXTENSION file_fdw", "CREATE EXTENSION adminpack", "CREATE EXTENSION pageinspect",
		"CREATE EXTENSION pg_stat_statements", "CREATE EXTENSION plpython3u", "CREATE FOREIGN DATA WRAPPER x", "CREATE SERVER x FOREIGN DATA WRAPPER postgres_fdw",
		"CREATE SUBSCRIPTION x CONNECTION 'dbname={victim}' PUBLICATION x", "CREATE PUBLICATION x FOR ALL TABLES", "CREATE EVENT TRIGGER x ON ddl_command_end EXECUTE FUNCTION x()",
		"SELECT pg_create_physical_replication_slot('x')", "SELECT pg_create_logical_replication_slot('x', 'test_decoding')",
		// The server.
		"ALTER SYSTEM SET work_mem = '1GB'", "SELECT pg_reload_conf()", "SELECT pg_rotate_logfile()", "SELECT pg_switch_wal()", "CHECKPOINT", "SELECT pg_promote()",
		"SELECT pg_backup_start('x')", "SET log_statement = 'none'", "SET temp_file_limit = -1", "SET session_preload_libraries = 'x'", "SET session_replication_role = replica",
		"SET shared_preload_libraries = 'x'", "SET zero_damaged_pages = on", "SELECT set_config('log_min_messages', 'panic', false)", "SHOW hba_file", "SELECT * FROM pg_hba_file_rules",
		"SELECT * FROM pg_file_settings", "SELECT pg_current_logfile()", "SELECT pg_stat_reset_shared('bgwriter')", "SELECT pg_log_backend_memory_contexts(1)",
		"UPDATE pg_database SET datdba = 10", "DELETE FROM pg_authid", "GRANT ALL ON pg_authid TO PUBLIC", "ALTER TABLE pg_database OWNER TO {attacker}",
	} {
		sql = strings.NewReplacer("{victim}", victim.ID, "{attacker}", attacker.ID).Replace(sql)
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s succeeded", sql)
		}
	}
	for _, database := range []string{victim.ID, "template0"} {
		if c, err := pgx.Connect(t.Context(), in(t, e.Connection(attacker).URL, database)); err == nil {
			t.Errorf("the attacker has connected to %s", database)
			_ = c.Close(t.Context())
		}
	}
	got := ask[string](t, dial(t, in(t, server.URL, victim.ID)), "SELECT value FROM secret")
	if got != "value of the victim" {
		t.Errorf("the victim has %q", got)
	}
	must(t, e.Delete(t.Context(), attacker))
}

func sessionsOfOthersAreSafe(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	attacker := create(t, e)
	victim := dial(t, e.Connection(create(t, e)).URL)
	pid := victim.PgConn().PID()
	conn := dial(t, e.Connection(attacker).URL)
	for _, sql := range []string{"SELECT pg_terminate_backend($1)", "SELECT pg_cancel_backend($1)"} {
		if _, err := conn.Exec(t.Context(), sql, pid); err == nil {
			t.Errorf("%s succeeded", sql)
		}
	}
	seen := ask[string](t, conn, "SELECT query FROM pg_stat_activity WHERE pid = $1", pid)
	if seen != "<insufficient privilege>" {
		t.Errorf("the attacker sees %q", seen)
	}
	exec1(t, victim, "SELECT 1")
}

func connectionsAreLimited(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	for range 30 {
		dial(t, e.Connection(p).URL)
	}
	_, err := pgx.Connect(t.Context(), e.Connection(p).URL)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "53300" {
		t.Errorf("connection 31: %v", err)
	}
	must(t, e.Delete(t.Context(), p))
}

// ownerCannotPreventDeletion lets owners do what DROP DATABASE and DROP ROLE refuse to drop.
func ownerCannotPreventDeletion(t *testing.T, server *dbtest.Server, adminURL string) {
	e := open(t, adminURL)
	for what, hinder := range map[string]func(t *testing.T, own *pgx.Conn, name string){
		"template": func(t *testing.T, own *pgx.Conn, name string) {
			exec1(t, own, "ALTER DATABASE "+name+" IS_TEMPLATE true")
		},
		"dropped": func(t *testing.T, own *pgx.Conn, name string) {
			elsewhere := dial(t, in(t, own.Config().ConnString(), "postgres"))
			must(t, own.Close(t.Context()))
			exec1(t, elsewhere, "DROP DATABASE "+name)
		},
		"closed and prepared": func(t *testing.T, own *pgx.Conn, name string) {
			exec1(t, own, "BEGIN; CREATE TABLE t (a int); PREPARE TRANSACTION 'it''s \\ prepared'")
			elsewhere := dial(t, in(t, own.Config().ConnString(), "postgres"))
			exec1(t, elsewhere, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false CONNECTION LIMIT 0")
		},
		"prepared elsewhere": func(t *testing.T, own *pgx.Conn, _ string) {
			elsewhere := dial(t, in(t, own.Config().ConnString(), "postgres"))
			exec1(t, elsewhere, "BEGIN; SELECT lo_create(0); PREPARE TRANSACTION 'elsewhere'")
		},
		"large objects elsewhere": func(t *testing.T, own *pgx.Conn, _ string) {
			for _, database := range []string{"postgres", "template1"} {
				exec1(t, dial(t, in(t, own.Config().ConnString(), database)), "SELECT lo_from_bytea(0, 'x')")
			}
		},
		"rights of another": func(t *testing.T, own *pgx.Conn, name string) {
			other := create(t, e)
			conn := dial(t, e.Connection(other).URL)
			exec1(t, conn, "CREATE TABLE shared (a int)")
			exec1(t, conn, "GRANT SELECT ON shared TO "+name)
			exec1(t, conn, "GRANT CONNECT ON DATABASE "+other.ID+" TO "+name)
			exec1(t, conn, "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO "+name)
		},
		"defaults of another": func(t *testing.T, own *pgx.Conn, name string) {
			other := create(t, e)
			conn := dial(t, e.Connection(other).URL)
			exec1(t, conn, "CREATE TABLE shared (a int)")
			exec1(t, conn, "GRANT SELECT ON shared TO "+name)
			exec1(t, conn, "ALTER DATABASE "+other.ID+" SET default_transaction_read_only = on")
			exec1(t, conn, "ALTER DATABASE "+other.ID+" SET statement_timeout = 1")
			exec1(t, conn, "ALTER DATABASE "+other.ID+" SET role = "+other.ID)
		},
		"sessions elsewhere": func(t *testing.T, own *pgx.Conn, _ string) {
			exec1(t, dial(t, in(t, own.Config().ConnString(), "postgres")), "BEGIN; CREATE TEMP TABLE t (a int)")
		},
		"settings": func(t *testing.T, own *pgx.Conn, name string) {
			exec1(t, own, "ALTER ROLE "+name+" SET default_transaction_read_only = on")
			exec1(t, own, "ALTER DATABASE "+name+" SET statement_timeout = 1")
		},
		"sessions of others": func(t *testing.T, own *pgx.Conn, name string) {
			exec1(t, own, "GRANT CONNECT ON DATABASE "+name+" TO PUBLIC")
			exec1(t, dial(t, in(t, e.Connection(create(t, e)).URL, name)), "BEGIN; SELECT 1")
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := create(t, e)
			hinder(t, dial(t, e.Connection(p).URL), p.ID)
			must(t, e.Delete(t.Context(), p))
			super := dial(t, server.URL)
			if n := ask[int](t, super, "SELECT count(*) FROM pg_roles WHERE rolname = $1", p.ID); n != 0 {
				t.Error("the role is left")
			}
			if n := ask[int](t, super, "SELECT count(*) FROM pg_database WHERE datname = $1", p.ID); n != 0 {
				t.Error("the database is left")
			}
			for _, database := range []string{"postgres", "template1"} {
				if n := ask[int](t, dial(t, in(t, server.URL, database)), "SELECT count(*) FROM pg_largeobject_metadata"); n != 0 {
					t.Errorf("%s has %d large objects", database, n)
				}
			}
			must(t, e.Delete(t.Context(), p))
		})
	}
}

// anotherOwnerCannotPreventDeletion has a neighbour that gives the role rights in a database that
// it then closes. The role remains, without a login.
func anotherOwnerCannotPreventDeletion(t *testing.T, server *dbtest.Server) {
	var log bytes.Buffer
	e := openLogging(t, server.URL, slog.New(slog.NewTextHandler(&log, nil)))
	p := create(t, e)
	other := create(t, e)
	conn := dial(t, e.Connection(other).URL)
	exec1(t, conn, "CREATE TABLE shared (a int)")
	exec1(t, conn, "GRANT SELECT ON shared TO "+p.ID)
	exec1(t, dial(t, in(t, e.Connection(other).URL, "postgres")), "ALTER DATABASE "+other.ID+" ALLOW_CONNECTIONS false")
	must(t, e.Delete(t.Context(), p))
	if !strings.Contains(log.String(), p.ID) {
		t.Errorf("the role that is left is not logged: %s", log.String())
	}
	super := dial(t, server.URL)
	if ask[bool](t, super, "SELECT rolcanlogin FROM pg_roles WHERE rolname = $1", p.ID) {
		t.Error("the role can log in")
	}
	must(t, e.Delete(t.Context(), other))
	must(t, e.Delete(t.Context(), p))
	if n := ask[int](t, super, "SELECT count(*) FROM pg_roles WHERE rolname = $1", p.ID); n != 0 {
		t.Error("the role is left after the neighbour is gone")
	}
}

func runningStatementsAreCut(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	elsewhere := dial(t, in(t, e.Connection(p).URL, "postgres"))
	running := make(chan error, 1)
	conn := dial(t, e.Connection(p).URL)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT pg_sleep(3600)")
		running <- err
	}()
	changed := *p
	changed.Password = id.Secret(43)
	must(t, e.Rotate(t.Context(), &changed))
	if err := waittest.Receive(t, "the statement to end", running); err == nil {
		t.Error("the statement went on")
	}
	if err := elsewhere.Ping(t.Context()); err == nil {
		t.Error("a session in another database goes on after the rotation")
	}
	exec1(t, dial(t, e.Connection(&changed).URL), "SELECT 1")
}
