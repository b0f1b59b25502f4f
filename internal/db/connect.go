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
	// connectTimeout is for each host of a URL, unless it sets another one.
	connectTimeout = 5 * time.Second
	// lostAfter is how long it takes to notice that the other side is unplugged, here and on the server,
	// where its locks are released then.
	lostAfter = 30 * time.Second
)

// Values of Options.Pooler.
const (
	// SessionPooler gives a connection of the server to one connection of ours until that is closed.
	SessionPooler = "session"
	// TransactionPooler gives a connection of the server to one of ours for the time of a transaction.
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
	configure(cfg.ConnConfig, o.Pooler)
	setUp(cfg.ConnConfig, o.Pooler, sessionSettings(shortLimits))
	return cfg, nil
}

// migrationConfig returns the configuration of connections that migrate. A migration may take long, but
// not wait long for a lock, since others would wait behind it.
func migrationConfig(cfg *pgx.ConnConfig, pooler string) *pgx.ConnConfig {
	cfg = cfg.Copy()
	setUp(cfg, pooler, sessionSettings(migrationLimits))
	return cfg
}

// listenConfig returns the configuration of the connection that listens for notifications. It reads one
// small table, and waits for at most a second.
func listenConfig(cfg *pgx.ConnConfig, pooler string) *pgx.ConnConfig {
	cfg = cfg.Copy()
	setUp(cfg, pooler, sessionSettings(listenLimits))
	return cfg
}

// configure sets what all connections have in common.
func configure(cfg *pgx.ConnConfig, pooler string) {
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "steward"
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	cfg.DialFunc = dialer(cfg.ConnectTimeout).DialContext
	cfg.OnNotice = keepWarning
	if pooler == TransactionPooler {
		// A prepared statement would stay behind on one of the server's connections. This mode asks for the
		// types of each statement once, and then sends all of it at each execution.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
}

// dialer connects by TCP so that a server that is unplugged is noticed.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: lostAfter / 3, Interval: lostAfter / 6, Count: 4},
		Control:         setUserTimeout,
	}
}

// setUp has new connections begin with settings. Behind a pooler of transactions there are none: it
// would apply them to connections that others use as well.
func setUp(cfg *pgx.ConnConfig, pooler string, settings []setting) {
	if pooler == TransactionPooler {
		return
	}
	text := ""
	for _, s := range settings {
		text += "SET " + s.name + " = '" + s.value + "';"
	}
	// Not in the message that begins the connection: PgBouncer refuses it then.
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

// setting is a parameter of a connection or of a transaction.
type setting struct{ name, value string }

// sessionSettings are the parameters of a connection. Compiling a statement with JIT takes longer than
// any of ours runs.
func sessionSettings(l limits) []setting {
	keepalive := lostAfter / time.Second
	return append(transactionSettings(l),
		setting{"tcp_keepalives_idle", strconv.Itoa(int(keepalive / 3))},
		setting{"tcp_keepalives_interval", strconv.Itoa(int(keepalive / 6))},
		setting{"tcp_keepalives_count", "4"},
		setting{"tcp_user_timeout", millis(lostAfter)},
	)
}

// transactionSettings are the parameters of a transaction.
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

// setLocal returns a statement that sets parameters until the end of the transaction. As SET LOCAL it
// would be one statement for each of them.
func setLocal(settings []setting) string {
	calls := make([]string, len(settings))
	for i, s := range settings {
		calls[i] = fmt.Sprintf("set_config('%s', '%s', true)", s.name, s.value)
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// errPooler is returned if there is a pooler that the options do not name.
var errPooler = errors.New("the database URL leads to a connection pooler such as PgBouncer: set --database-pooler to transaction, " +
	"or to session if that is its pool_mode")

// checkPooler returns errPooler if a connection leads to a pooler, which gives its clients numbers of
// its own for the processes of the server. Nothing may be set before: others would get it as well.
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
