package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/resource"
)

const (
	// maxConnections caps a role's connections.
	maxConnections = 30
	// tempFileLimit caps a session's temporary files on disk. Only a superuser can set it.
	tempFileLimit = "4GB"
	// timeout bounds an operation, so that a server that does not answer counts as unreachable.
	timeout = time.Minute
	// connectTimeout bounds a connection attempt, unless the admin URL sets its own.
	connectTimeout = 5 * time.Second
	// maxAdmins caps the engine's admin connections.
	maxAdmins = 4
)

// Engine creates databases on one server. It implements resource.Databases.
type Engine struct {
	admin *pgxpool.Pool
	url   *url.URL // the admin's
	log   *slog.Logger

	mu   sync.Mutex
	open string // databases that let every role connect, as last logged
}

// New returns an engine, given the URL for a role that may create roles and databases. It does not connect.
func New(adminURL string, log *slog.Logger) (*Engine, error) {
	invalid := errors.New("expected postgres://user:password@host:port/database with one host")
	u, err := url.Parse(adminURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, invalid // err contains the password
	}
	host := u.Host + u.Query().Get("host")
	config, err := pgxpool.ParseConfig(adminURL)
	if err != nil || host == "" || strings.Contains(host, ",") {
		return nil, invalid
	}
	config.MaxConns = maxAdmins
	config.MinConns = 0
	config.MaxConnIdleTime = time.Minute
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnConfig.BuildContextWatcherHandler = cancelOnServer
	config.AfterRelease = isReusable
	if !u.Query().Has("connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	setDefault(config.ConnConfig.RuntimeParams, "application_name", "steward")
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, invalid
	}
	return &Engine{admin: pool, url: u, log: log}, nil
}

func setDefault(params map[string]string, name, value string) {
	if params[name] == "" {
		params[name] = value
	}
}

// cancelOnServer makes the server stop a statement whose context is cancelled.
func cancelOnServer(c *pgconn.PgConn) ctxwatch.Handler {
	return cancelHandler{&pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 5 * time.Second}}
}

// cancelHandler marks a connection whose statement was cancelled. The server may act on that late and
// stop the connection's next statement, which may be another caller's.
type cancelHandler struct {
	*pgconn.CancelRequestContextWatcherHandler
}

const cancelled = "cancelled"

// HandleCancel is called when a statement's context ends.
func (h cancelHandler) HandleCancel(ctx context.Context) {
	h.Conn.CustomData()[cancelled] = true
	h.CancelRequestContextWatcherHandler.HandleCancel(ctx)
}

// isReusable reports whether a connection may go back to the pool.
func isReusable(c *pgx.Conn) bool { return c.PgConn().CustomData()[cancelled] == nil }

// Close closes the admin connections.
func (e *Engine) Close() error {
	e.admin.Close()
	return nil
}

// Name returns postgres.
func (e *Engine) Name() string { return "postgres" }

// Local returns false.
func (e *Engine) Local() bool { return false }

// Connection returns a database's URL: the admin URL's server, with the database's role.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(p.ID, p.Password), Host: e.url.Host, Path: "/" + p.ID}
	query := url.Values{}
	for _, name := range []string{"host", "port", "sslmode"} {
		if e.url.Query().Has(name) {
			query.Set(name, e.url.Query().Get(name))
		}
	}
	u.RawQuery = query.Encode()
	return resource.Connection{URL: u.String(), Env: map[string]string{"DATABASE_URL": u.String()}}
}

// Create creates the role and the database, or completes an earlier attempt.
func (e *Engine) Create(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "create database", func(ctx context.Context) error {
		if err := e.createRole(ctx, p); err != nil {
			return err
		}
		if err := e.createDatabase(ctx, p.ID); err != nil {
			return err
		}
		return e.openDatabase(ctx, p)
	})
}

// createRole creates the role with a password. The role must inherit, because it uses the schema public
// as a member of pg_database_owner.
func (e *Engine) createRole(ctx context.Context, p *resource.Provisioned) error {
	verifier, err := newVerifier(p.Password)
	if err != nil {
		return err
	}
	options := fmt.Sprintf(" LOGIN INHERIT NOCREATEDB NOCREATEROLE CONNECTION LIMIT %d PASSWORD %s", maxConnections, literal(verifier))
	_, err = e.admin.Exec(ctx, "CREATE ROLE "+name(p.ID)+options)
	if isCode(err, duplicateObject, uniqueViolation) {
		_, err = e.admin.Exec(ctx, "ALTER ROLE "+name(p.ID)+options)
	}
	if err != nil {
		return err
	}
	super, err := e.joinRole(ctx, p.ID)
	if err != nil || !super {
		return err
	}
	_, err = e.admin.Exec(ctx, "ALTER ROLE "+name(p.ID)+" SET temp_file_limit = "+literal(tempFileLimit))
	return err
}

// joinRole makes the admin a member of a role, so that it can act for the role. A superuser does not need
// that; joinRole reports whether the admin is one.
func (e *Engine) joinRole(ctx context.Context, role string) (superuser bool, err error) {
	err = e.admin.QueryRow(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&superuser)
	if err != nil || superuser {
		return superuser, err
	}
	_, err = e.admin.Exec(ctx, "GRANT "+name(role)+" TO CURRENT_USER")
	return false, err
}

// createDatabase creates a database, unless it exists. The database accepts no connections yet, since every
// role may connect to a new database. We copy template0, because nobody can connect to it: a connection to
// template1 would block every creation, and anything in template1 would appear in every database.
func (e *Engine) createDatabase(ctx context.Context, id string) error {
	create := "CREATE DATABASE " + name(id) + " OWNER " + name(id) + " TEMPLATE template0 ALLOW_CONNECTIONS false"
	_, err := e.admin.Exec(ctx, create)
	if !isCode(err, duplicateDatabase, uniqueViolation) {
		return err
	}
	invalid, err := e.isInvalid(ctx, id)
	if err != nil || !invalid {
		return err
	}
	if _, err := e.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name(id)); err != nil {
		return err
	}
	_, err = e.admin.Exec(ctx, create)
	return err
}

// isInvalid reports whether an interrupted DROP DATABASE has left the database invalid.
func (e *Engine) isInvalid(ctx context.Context, id string) (invalid bool, err error) {
	err = e.admin.QueryRow(ctx, "SELECT datconnlimit = -2 FROM pg_database WHERE datname = $1", id).Scan(&invalid)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return invalid, err
}

// openDatabase lets the owner connect, and nobody else.
func (e *Engine) openDatabase(ctx context.Context, p *resource.Provisioned) error {
	for _, sql := range []string{
		"REVOKE ALL ON DATABASE " + name(p.ID) + " FROM PUBLIC",
		"COMMENT ON DATABASE " + name(p.ID) + " IS " + literal(comment(p)),
		"ALTER DATABASE " + name(p.ID) + " ALLOW_CONNECTIONS true",
	} {
		if _, err := e.admin.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// comment identifies the database for administrators who list databases. Every role on the server can
// read it too, so it does not contain the resource's name.
func comment(p *resource.Provisioned) string {
	return fmt.Sprintf("Steward: organization %s, region %s", p.OrgID, p.Region)
}

// Rotate changes the password and ends older sessions.
func (e *Engine) Rotate(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "change password", func(ctx context.Context) error {
		verifier, err := newVerifier(p.Password)
		if err != nil {
			return err
		}
		if _, err := e.admin.Exec(ctx, "ALTER ROLE "+name(p.ID)+" LOGIN PASSWORD "+literal(verifier)); err != nil {
			return err
		}
		var role uint32
		var changed time.Time
		err = e.admin.QueryRow(ctx, "SELECT oid, clock_timestamp() FROM pg_roles WHERE rolname = $1", p.ID).Scan(&role, &changed)
		if err != nil {
			return err
		}
		return e.terminate(ctx, role, changed)
	})
}

// do runs an operation within the timeout.
func (e *Engine) do(ctx context.Context, what string, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return e.explain(what, run(ctx))
}
