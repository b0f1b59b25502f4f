package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/postgres"
)

var _ resource.Databases = (*postgres.Engine)(nil)

// TestAdmins runs tests on one server, with a superuser and with a role that may create roles and
// databases.
func TestAdmins(t *testing.T) {
	server := dbtest.NewServer(t, "max_prepared_transactions=10")
	exec1(t, dial(t, server.URL), `CREATE ROLE steward LOGIN CREATEROLE CREATEDB PASSWORD 'secret1'`)
	for admin, adminURL := range map[string]string{"superuser": server.URL, "createrole": as(t, server.URL, "steward", "secret1")} {
		for name, test := range map[string]func(t *testing.T, server *dbtest.Server, adminURL string){
			"Engine":                           engine,
			"RoleHasNoRightsBeyondItsDatabase": roleHasNoRightsBeyondItsDatabase,
			"CreateCompletesWhatACrashHasLeft": createCompletesWhatACrashHasLeft,
			"OtherDatabasesCannotBeReached":    otherDatabasesCannotBeReached,
			"OwnerCannotPreventDeletion":       ownerCannotPreventDeletion,
		} {
			t.Run(admin+"/"+name, func(t *testing.T) {
				if admin == "superuser" { // which may do all that the other may
					dbtest.Long(t)
				}
				test(t, server, adminURL)
			})
		}
	}
}

// TestServer runs tests on one server, since to make one takes longer than most of them.
func TestServer(t *testing.T) {
	server := dbtest.NewServer(t)
	for name, test := range map[string]func(t *testing.T, server *dbtest.Server){
		"PSQLUsesTheEnvironment":                   pSQLUsesTheEnvironment,
		"CommentTellsTheOwner":                     commentTellsTheOwner,
		"CheckNamesWhatIsMissing":                  checkNamesWhatIsMissing,
		"CheckLogsDatabasesThatAreOpenToEveryRole": checkLogsDatabasesThatAreOpenToEveryRole,
		"SessionsOfOthersAreSafe":                  sessionsOfOthersAreSafe,
		"ConnectionsAreLimited":                    connectionsAreLimited,
		"AnotherOwnerCannotPreventDeletion":        anotherOwnerCannotPreventDeletion,
		"RunningStatementsAreCut":                  runningStatementsAreCut,
		"QueryReturnsTypedValues":                  queryReturnsTypedValues,
		"QueryTakesJSONArguments":                  queryTakesJSONArguments,
		"QueryTellsTheRowsAffected":                queryTellsTheRowsAffected,
		"QueryOfAnEmptyResult":                     queryOfAnEmptyResult,
		"QueryStopsAtTheLimit":                     queryStopsAtTheLimit,
		"QueryStopsAtEightMebibytes":               queryStopsAtEightMebibytes,
		"QueryErrorsAreInvalid":                    queryErrorsAreInvalid,
		"QueryFromTheClientIsNotAwaited":           queryFromTheClientIsNotAwaited,
		"QueryHasATimeout":                         queryHasATimeout,
		"CancelledQueryEndsOnTheServer":            cancelledQueryEndsOnTheServer,
		"Tables":                                   tables,
		"ChangedPasswordIsSaid":                    changedPasswordIsSaid,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func engine(t *testing.T, _ *dbtest.Server, adminURL string) {
	enginetest.Run(t, func(t *testing.T, _ *enginetest.Rows) enginetest.Fixture {
		return enginetest.Fixture{Engine: open(t, adminURL), Type: resource.DB, Connect: connect}
	})
}

// client keeps values in a table.
type client struct{ *pgx.Conn }

func connect(ctx context.Context, c resource.Connection) (enginetest.Client, error) {
	conn, err := pgx.Connect(ctx, c.Env["DATABASE_URL"])
	return client{conn}, err
}

func (c client) Set(ctx context.Context, key, value string) error {
	if err := c.table(ctx); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "INSERT INTO kv VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)
	return err
}

func (c client) Get(ctx context.Context, key string) (value string, err error) {
	if err := c.table(ctx); err != nil {
		return "", err
	}
	err = c.QueryRow(ctx, "SELECT value FROM kv WHERE key = $1", key).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func (c client) table(ctx context.Context) error {
	_, err := c.Exec(ctx, "CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value TEXT)")
	return err
}

func (c client) Close() { _ = c.Conn.Close(context.Background()) }

func open(t testing.TB, adminURL string) *postgres.Engine {
	t.Helper()
	return openLogging(t, adminURL, slog.New(slog.DiscardHandler))
}

func openLogging(t testing.TB, adminURL string, log *slog.Logger) *postgres.Engine {
	t.Helper()
	e, err := postgres.New(adminURL, log)
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func plan() *resource.Provisioned {
	return &resource.Provisioned{
		ID: id.New(id.Database), Type: resource.DB, OrgID: id.New(id.Org), Region: "eu-1", Name: "invoices", Engine: "postgres",
		State: resource.Active, Password: id.Secret(43),
	}
}

func create(t testing.TB, e *postgres.Engine) *resource.Provisioned {
	t.Helper()
	p := plan()
	must(t, e.Create(t.Context(), p))
	return p
}

// dial connects until the test ends.
func dial(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec1(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// ask returns the value of a query.
func ask[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// as returns the URL of another role.
func as(t testing.TB, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// in returns the URL of another database.
func in(t testing.TB, address, database string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	u.Path = "/" + database
	return u.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pSQLUsesTheEnvironment(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	cmd := exec.Command("psql", e.Connection(p).Env["DATABASE_URL"], "-AtX", "-v", "ON_ERROR_STOP=1",
		"-c", "CREATE TABLE t (a int PRIMARY KEY)", "-c", "INSERT INTO t SELECT generate_series(1, 10)", "-c", "SELECT sum(a) FROM t",
		"-c", "CREATE EXTENSION pgcrypto", "-c", "CREATE SCHEMA s")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n55\n") {
		t.Errorf("psql: %v: %s", err, out)
	}
}

func roleHasNoRightsBeyondItsDatabase(t *testing.T, server *dbtest.Server, adminURL string) {
	p := create(t, open(t, adminURL))
	super := dial(t, server.URL)
	if !ask[bool](t, super, `
		SELECT rolcanlogin AND rolinherit AND rolconnlimit = 30
		       AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)
		FROM pg_roles WHERE rolname = $1`, p.ID) {
		t.Error("the role has other attributes")
	}
	if !ask[bool](t, super, `
		SELECT pg_get_userbyid(datdba) = $1 AND NOT has_database_privilege('public', oid, 'CONNECT')
		       AND NOT has_database_privilege('public', oid, 'TEMPORARY')
		FROM pg_database WHERE datname = $1`, p.ID) {
		t.Error("the database has another owner or is open to every role")
	}
	if n := ask[int](t, super, "SELECT count(*) FROM pg_auth_members WHERE member = $1::regrole", p.ID); n != 0 {
		t.Errorf("the role is a member of %d others", n)
	}
}

func commentTellsTheOwner(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := plan()
	p.OrgID = `org'\"; DROP TABLE x; --`
	must(t, e.Create(t.Context(), p))
	comment := ask[string](t, dial(t, server.URL), "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1", p.ID)
	if comment != "Steward: organization "+p.OrgID+", region eu-1" {
		t.Errorf("comment %q", comment)
	}
}

func TestPasswordIsNotInTheStatementLog(t *testing.T) {
	server := dbtest.NewServer(t, "log_statement=all")
	e := open(t, server.URL)
	p := create(t, e)
	must(t, e.Rotate(t.Context(), p))
	_, err := e.Query(t.Context(), p, "SELECT 1", nil, 1)
	must(t, err)
	must(t, e.Delete(t.Context(), p))
	server.Stop()
	log, err := os.ReadFile(server.LogFile)
	must(t, err)
	if !bytes.Contains(log, []byte(p.ID)) || bytes.Contains(log, []byte(p.Password)) {
		t.Error("the log has the password, or not the statements")
	}
}

func createCompletesWhatACrashHasLeft(t *testing.T, server *dbtest.Server, adminURL string) {
	e := open(t, adminURL)
	admin := dial(t, adminURL)
	super := dial(t, server.URL)
	for what, left := range map[string]func(name string){
		"role": func(name string) { exec1(t, admin, "CREATE ROLE "+name) },
		"closed database": func(name string) {
			exec1(t, admin, "CREATE ROLE "+name)
			exec1(t, admin, "GRANT "+name+" TO CURRENT_USER")
			exec1(t, admin, "CREATE DATABASE "+name+" OWNER "+name+" TEMPLATE template0 ALLOW_CONNECTIONS false")
		},
		"invalid database": func(name string) {
			exec1(t, admin, "CREATE ROLE "+name)
			exec1(t, admin, "GRANT "+name+" TO CURRENT_USER")
			exec1(t, admin, "CREATE DATABASE "+name+" OWNER "+name)
			exec1(t, super, "UPDATE pg_database SET datconnlimit = -2 WHERE datname = '"+name+"'")
		},
	} {
		p := plan()
		left(p.ID)
		if err := e.Create(t.Context(), p); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		exec1(t, dial(t, e.Connection(p).URL), "CREATE TABLE t (a int)")
		gone := plan()
		left(gone.ID)
		must(t, e.Delete(t.Context(), gone))
	}
}

func TestConnectionFollowsTheAdminURL(t *testing.T) {
	p := plan()
	user := "postgres://" + p.ID + ":" + p.Password + "@"
	for admin, want := range map[string]string{
		"postgres://admin:x@db.example:5433/postgres?sslmode=verify-full": user + "db.example:5433/" + p.ID + "?sslmode=verify-full",
		"postgresql://admin:x@db.example/postgres?application_name=y":     user + "db.example/" + p.ID,
		"postgres://admin@/postgres?host=/run/postgresql":                 user + "/" + p.ID + "?host=%2Frun%2Fpostgresql",
		"postgres://admin:x@[::1]:5433/postgres":                          user + "[::1]:5433/" + p.ID,
	} {
		if c := open(t, admin).Connection(p); c.URL != want || c.Env["DATABASE_URL"] != want {
			t.Errorf("%s: %s %v, want %s", admin, c.URL, c.Env, want)
		}
	}
}

func TestNewRefusesOtherURLs(t *testing.T) {
	for _, address := range []string{
		"", "postgres", "host=h password=secret", "redis://u:secret@h", "postgres:///postgres", "postgres://u:secret@a:5432,b:5432/postgres",
		"postgres://u:secret@a,b/postgres", "postgres://u:secret@/postgres?host=a,b", "postgres://u:secret@h:port/postgres", "postgres://u:se%cret@h/x",
		"postgres://u:secret@h/x?sslmode=nonsense",
	} {
		_, err := postgres.New(address, slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func checkNamesWhatIsMissing(t *testing.T, server *dbtest.Server) {
	super := dial(t, server.URL)
	exec1(t, super, `CREATE ROLE weak LOGIN CREATEDB PASSWORD 'secret1'`)
	exec1(t, super, `CREATE ROLE nothing LOGIN NOINHERIT PASSWORD 'secret1'`)
	for user, want := range map[string]string{
		"weak": "lacks CREATEROLE", "nothing": "lacks CREATEDB, CREATEROLE, INHERIT", "unknown": "password authentication failed",
	} {
		err := open(t, as(t, server.URL, user, "secret1")).Check(t.Context())
		if errs.KindOf(err) != errs.Internal || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret1") {
			t.Errorf("%s: %v", user, err)
		}
	}
}

func checkLogsDatabasesThatAreOpenToEveryRole(t *testing.T, server *dbtest.Server) {
	var log bytes.Buffer
	e := openLogging(t, server.URL, slog.New(slog.NewTextHandler(&log, nil)))
	create(t, e)
	must(t, e.Check(t.Context()))
	if !strings.Contains(log.String(), `databases="postgres, template1"`) {
		t.Errorf("log: %s", log.String())
	}
	log.Reset()
	must(t, e.Check(t.Context()))
	if log.Len() > 0 {
		t.Errorf("logged again: %s", log.String())
	}
}

func TestServerThatIsDownIsUnavailable(t *testing.T) {
	server := dbtest.NewServer(t)
	e := open(t, server.URL)
	p := create(t, e)
	server.Stop()
	for what, do := range map[string]func() error{
		"check":  func() error { return e.Check(t.Context()) },
		"create": func() error { return e.Create(t.Context(), plan()) },
		"rotate": func() error { return e.Rotate(t.Context(), p) },
		"delete": func() error { return e.Delete(t.Context(), p) },
		"tables": func() error { _, err := e.Tables(t.Context(), p); return err },
		"query":  func() error { _, err := e.Query(t.Context(), p, "SELECT 1", nil, 1); return err },
	} {
		if err := do(); errs.KindOf(err) != errs.Unavailable || strings.Contains(err.Error(), p.Password) {
			t.Errorf("%s: %v", what, err)
		}
	}
	server.Start()
	must(t, e.Check(t.Context()))
	must(t, e.Delete(t.Context(), p))
	create(t, e)
}
