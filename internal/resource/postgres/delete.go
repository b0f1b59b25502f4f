package postgres

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/errs"
	"steward/internal/resource"
)

// Delete ends the role's sessions, drops the database with everything in it, then anything the role owns
// elsewhere, and finally the role.
func (e *Engine) Delete(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "delete database", func(ctx context.Context) error {
		role, err := e.disable(ctx, p.ID)
		if err != nil {
			return err
		}
		if err := e.dropDatabase(ctx, p.ID); err != nil || role == 0 {
			return err
		}
		if err := e.dropRole(ctx, p.ID, role); err != nil {
			return err
		}
		return e.terminate(ctx, role, time.Now().AddDate(100, 0, 0)) // sessions that were just starting
	})
}

// disable ends a role's sessions and prevents new ones. It returns the role's oid, or 0 if the role does
// not exist.
func (e *Engine) disable(ctx context.Context, id string) (role uint32, err error) {
	err = e.admin.QueryRow(ctx, "SELECT oid FROM pg_roles WHERE rolname = $1", id).Scan(&role)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	_, err = e.admin.Exec(ctx, "ALTER ROLE "+name(id)+" NOLOGIN")
	if isCode(err, undefinedObject) { // another replica has dropped the role
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if _, err := e.joinRole(ctx, id); err != nil {
		return 0, err
	}
	return role, e.terminate(ctx, role, time.Now().AddDate(100, 0, 0))
}

// terminate ends a role's sessions in all databases, if they began before a time. It waits until they
// have ended.
func (e *Engine) terminate(ctx context.Context, role uint32, before time.Time) error {
	const all = "FROM pg_stat_activity WHERE usesysid = $1 AND backend_start < $2"
	if _, err := e.admin.Exec(ctx, "SELECT pg_terminate_backend(pid) "+all, role, before); err != nil {
		return err
	}
	for range 5 {
		var found int
		err := e.admin.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid, 1000)) "+all, role, before).Scan(&found)
		if err != nil || found == 0 {
			return err
		}
	}
	return errs.Unavailablef(nil, "sessions of a database do not end")
}

// dropDatabase drops a database. DROP DATABASE would refuse if its owner has made it a template or
// prepared transactions in it, so dropDatabase first undoes both.
func (e *Engine) dropDatabase(ctx context.Context, id string) error {
	if err := e.rollbackPrepared(ctx, id); err != nil {
		return err
	}
	var template bool
	err := e.admin.QueryRow(ctx, "SELECT datistemplate FROM pg_database WHERE datname = $1", id).Scan(&template)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if template {
		if _, err := e.admin.Exec(ctx, "ALTER DATABASE "+name(id)+" IS_TEMPLATE false"); err != nil {
			return err
		}
	}
	_, err = e.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name(id)+" WITH (FORCE)")
	return err
}

// rollbackPrepared rolls back transactions that the role has prepared, or that were prepared in its database.
func (e *Engine) rollbackPrepared(ctx context.Context, id string) error {
	rows, err := e.admin.Query(ctx, "SELECT gid, owner, database FROM pg_prepared_xacts WHERE owner = $1 OR database = $1", id)
	if err != nil {
		return err
	}
	type prepared struct{ GID, Owner, Database string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[prepared])
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Database == id {
			open := "ALTER DATABASE " + name(id) + " ALLOW_CONNECTIONS true CONNECTION LIMIT -1"
			if _, err := e.admin.Exec(ctx, open); err != nil {
				return err
			}
		}
		err := e.inDatabase(ctx, t.Database, "SET ROLE "+name(t.Owner), "ROLLBACK PREPARED"+literal(t.GID))
		if err != nil && !isCode(err, undefinedObject) {
			return err
		}
	}
	return nil
}

// dropRole drops a role, the objects it owns in other databases, such as large objects where every role
// may connect, and the rights it was given there.
//
// Another database may refuse the admin, since its owner decides. Then we leave the role: it cannot log
// in, and its own database is gone.
func (e *Engine) dropRole(ctx context.Context, id string, role uint32) error {
	databases, err := e.databasesOf(ctx, role)
	if err != nil {
		return err
	}
	left := false
	for _, database := range databases {
		err := e.inDatabase(ctx, database, "DROP OWNED BY "+name(id))
		if unavailable(err) {
			return err
		}
		if err != nil && !isCode(err, undefinedDatabase, undefinedObject) {
			e.log.Warn("a deleted role still has objects or rights in another database", "role", id, "database", database, "err", err)
			left = true
		}
	}
	for _, sql := range []string{"DROP OWNED BY " + name(id), "DROP ROLE IF EXISTS " + name(id)} {
		_, err := e.admin.Exec(ctx, sql)
		if isCode(err, undefinedObject) || left && isCode(err, dependentObjects) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// databasesOf returns the databases where a role has objects or rights.
func (e *Engine) databasesOf(ctx context.Context, role uint32) ([]string, error) {
	rows, err := e.admin.Query(ctx, `
		SELECT DISTINCT d.datname::text FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid
		WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = $1 AND d.datname <> current_database()`, role)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// inDatabase runs statements as admin in another database. That database's owner may have set defaults
// for its sessions. We override them, so that none of the owner's code runs with the admin's rights, and
// so that the owner cannot block the statements.
func (e *Engine) inDatabase(ctx context.Context, database string, statements ...string) error {
	config := e.admin.Config().ConnConfig
	config.Database = database
	maps.Copy(config.RuntimeParams, map[string]string{
		"search_path": "pg_catalog", "role": "none", "default_transaction_read_only": "off",
		"statement_timeout": "0", "lock_timeout": "5000",
	})
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer closeConn(conn.PgConn())
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// closeConn closes a connection, even if its statement's context has ended.
func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // after an error, the server closes it
}
