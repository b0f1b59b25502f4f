package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	defaultMaxConns = 32
	// connectTimeout is for each host in a URL, unless the URL sets another one.
	connectTimeout = 5 * time.Second
	// lostAfter is how long we take to notice an unplugged peer. The server takes as long to notice
	// us, and then releases our locks.
	lostAfter = 30 * time.Second
)

// Values of Options.Pooler.
const (
	// SessionPooler ties one server connection to each of ours until that closes.
	SessionPooler = "session"
	// TransactionPooler lends us a server connection for each transaction.
	TransactionPooler = "transaction"
)

// poolConfig returns the configuration of the pool.
func poolConfig(o Options) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, errors.New("the database URL is not a valid postgres:// URL") // err may contain the password
	}
	cfg.MaxConns = int32(cmp.Or(o.MaxConns, defaultMaxConns))
	cfg.PingTimeout = pingTimeout
	conn := cfg.ConnConfig
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "steward"
	}
	conn.ConnectTimeout = cmp.Or(conn.ConnectTimeout, connectTimeout)
	conn.DialFunc = (&net.Dialer{ // such that we notice an unplugged server
		Timeout:         conn.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: lostAfter / 3, Interval: lostAfter / 6, Count: 4},
		Control:         setUserTimeout,
	}).DialContext
	conn.OnNotice = keepWarning
	if o.Pooler == TransactionPooler {
		// A prepared statement would stay behind on one of the server's connections. This mode asks
		// for each statement's types once, and from then on sends the whole statement at each
		// execution.
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	setUp(conn, o.Pooler, sessionSettings(shortLimits))
	return cfg, nil
}

// connConfig configures a connection beside the pool, with limits of its own.
func (e *postgresEngine) connConfig(l limits) *pgx.ConnConfig {
	cfg := e.pool.Config().ConnConfig.Copy()
	setUp(cfg, e.pooler, sessionSettings(l))
	return cfg
}

// setUp applies settings to new connections. Behind a transaction pooler it does nothing: it would
// set them on connections that others use as well.
func setUp(cfg *pgx.ConnConfig, pooler string, settings []setting) {
	if pooler == TransactionPooler {
		return
	}
	text := ""
	for _, s := range settings {
		text += "SET " + s.name + " = '" + s.value + "';"
	}
	// The startup message cannot carry these: PgBouncer would refuse it.
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if pooler == "" {
			if err := checkPooler(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, text).ReadAll()
		return err
	}
}

// setting is a parameter for a connection or a transaction.
type setting struct{ name, value string }

// sessionSettings returns a connection's parameters. JIT is off, because compiling takes longer than
// any statement that we run.
func sessionSettings(l limits) []setting {
	keepalive := lostAfter / time.Second
	return append(transactionSettings(l),
		setting{"tcp_keepalives_idle", strconv.Itoa(int(keepalive / 3))},
		setting{"tcp_keepalives_interval", strconv.Itoa(int(keepalive / 6))},
		setting{"tcp_keepalives_count", "4"},
		setting{"tcp_user_timeout", millis(lostAfter)},
	)
}

// transactionSettings returns a transaction's parameters.
func transactionSettings(l limits) []setting {
	return append([]setting{{"jit", "off"}}, limitSettings(l)...)
}

func limitSettings(l limits) []setting {
	return []setting{
		{"statement_timeout", millis(l.statement)},
		{"lock_timeout", millis(l.lock)},
		{"idle_in_transaction_session_timeout", millis(l.idle)},
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// setLocal returns a statement that sets parameters until the transaction ends. SET LOCAL would need
// one statement for each.
func setLocal(settings []setting) string {
	calls := make([]string, len(settings))
	for i, s := range settings {
		calls[i] = fmt.Sprintf("set_config('%s', '%s', true)", s.name, s.value)
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// errPooler is returned if we find a pooler that the options do not name.
var errPooler = errors.New("the database URL leads to a connection pooler such as PgBouncer: set --database-pooler to transaction, " +
	"or to session if that is its pool_mode")

// checkPooler returns errPooler if a connection leads to a pooler, which gives its clients its own
// numbers for the server's processes. Nothing may be set before this check: other clients would get
// it as well.
func checkPooler(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return err
	}
	if string(results[0].Rows[0][0]) != strconv.FormatUint(uint64(conn.PID()), 10) {
		return errPooler
	}
	return nil
}

const warningKey = "warning"

// keepWarning keeps a warning with its connection, for commit.
func keepWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warningKey] = n.Message
	}
}

// takeWarning returns the last warning on a connection since the previous call, or "".
func takeWarning(conn *pgx.Conn) string {
	data := conn.PgConn().CustomData()
	warning, _ := data[warningKey].(string)
	delete(data, warningKey)
	return warning
}
