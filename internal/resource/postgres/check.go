package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/errs"
	"steward/internal/id"
)

// minVersion is the oldest version we support, as in server_version_num. Before it, every role may create
// objects in the schema public.
const minVersion = 150000

// Check returns Unavailable if the server cannot be reached or does not accept writes now, and another
// error if it is too old or the admin lacks a right.
func (e *Engine) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var s struct {
		version                                  int
		super, createRole, createDB, inherit, ro bool
	}
	err := e.admin.QueryRow(ctx, `
		SELECT current_setting('server_version_num')::int, rolsuper, rolcreaterole, rolcreatedb, rolinherit, pg_is_in_recovery()
		FROM pg_roles WHERE rolname = current_user`,
	).Scan(&s.version, &s.super, &s.createRole, &s.createDB, &s.inherit, &s.ro)
	if err != nil {
		return e.explain("connect", err)
	}
	var missing []string
	for right, granted := range map[string]bool{"CREATEROLE": s.createRole, "CREATEDB": s.createDB, "INHERIT": s.inherit} {
		if !granted && !s.super {
			missing = append(missing, right)
		}
	}
	slices.Sort(missing)
	switch {
	case s.version < minVersion:
		return fmt.Errorf("%s: version %d, expected 15 or later", e.describe(), s.version/10000)
	case len(missing) > 0:
		return fmt.Errorf("%s: the role of the admin URL lacks %s", e.describe(), strings.Join(missing, ", "))
	case s.ro:
		return errs.Unavailablef(nil, "%s is a standby now", e.describe())
	}
	return e.logOpen(ctx)
}

// logOpen warns about other databases that let every role connect, whenever that list changes.
func (e *Engine) logOpen(ctx context.Context) error {
	rows, err := e.admin.Query(ctx, `
		SELECT datname::text FROM pg_database
		WHERE datallowconn AND has_database_privilege('public', oid, 'CONNECT') ORDER BY datname`)
	if err != nil {
		return e.explain("list databases", err)
	}
	databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return e.explain("list databases", err)
	}
	databases = slices.DeleteFunc(databases, func(name string) bool { return id.Is(id.Database, name) })
	open := strings.Join(databases, ", ")
	e.mu.Lock()
	defer e.mu.Unlock()
	if open != e.open && open != "" {
		e.log.Warn("databases of this server let every role connect; REVOKE CONNECT ON DATABASE … FROM PUBLIC closes them",
			"server", e.describe(), "databases", open)
	}
	e.open = open
	return nil
}

// describe names the server in messages, without credentials.
func (e *Engine) describe() string {
	c := e.admin.Config().ConnConfig
	return fmt.Sprintf("PostgreSQL at %s port %d", c.Host, c.Port)
}

// PostgreSQL's SQLSTATE codes.
const (
	uniqueViolation   = "23505"
	dependentObjects  = "2BP01"
	undefinedDatabase = "3D000"
	duplicateDatabase = "42P04"
	undefinedObject   = "42704"
	duplicateObject   = "42710"
)

// isCode reports whether err is the server's and has one of the codes.
func isCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

// explain says which operation failed on which server. It returns Unavailable if the server cannot be
// reached or cannot do it now.
func (e *Engine) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errs.KindOf(err) != errs.Internal:
		return err
	case unavailable(err):
		return errs.Unavailablef(err, "%s cannot be used now", e.describe())
	}
	return fmt.Errorf("%s: %s: %w", e.describe(), what, err)
}

// unavailable reports whether the connection failed, or the server can succeed later.
func unavailable(err error) bool {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) {
		return err != nil
	}
	switch {
	case strings.HasPrefix(pg.Code, "08"), // connection
		strings.HasPrefix(pg.Code, "53"), // insufficient resources, such as connections
		strings.HasPrefix(pg.Code, "57"), // operator intervention, such as a shutdown
		strings.HasPrefix(pg.Code, "40"): // rollback, such as a deadlock
		return true
	}
	return pg.Code == "55006" || // object in use
		pg.Code == "55P03" || // lock not available
		pg.Code == "25006" || // a standby
		pg.Code == "XX000" && strings.Contains(pg.Message, "concurrently") // catalog row changed by another replica
}
