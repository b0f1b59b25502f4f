package libsql

import (
	"runtime"
	"time"

	"steward/internal/budget"
	"steward/internal/disk"
)

// Limits cap what clients may use. Zero fields mean the defaults.
type Limits struct {
	// Streams caps the open streams in a database, and TotalStreams in all databases.
	Streams      int
	TotalStreams int
	// Connections caps a database's connections for requests that close their stream; other requests
	// wait. TotalConnections caps all connections in use, including those for streams. IdleConnections
	// caps the connections that we keep open for later.
	Connections      int
	TotalConnections int
	IdleConnections  int
	// Forwards caps the requests that are being forwarded to other nodes.
	Forwards int
	// Running caps the statements that run at once. Others wait for their turn.
	Running int
	// Wait is how long a request waits for a connection, or a statement for another writer.
	Wait time.Duration
	// StreamIdle is how long an unused stream stays open.
	StreamIdle time.Duration
	// FileIdle is how long an unused file stays open.
	FileIdle time.Duration
	// Statement bounds a statement's time, and Transaction a transaction's.
	Statement   time.Duration
	Transaction time.Duration
	// Heavy is the statement time per minute above which we log a database.
	Heavy time.Duration
	// Body caps a request in bytes. Response caps the rows in a pipeline's response, or one row from a
	// cursor. Neither can exceed a sixteenth of the memory for all requests.
	Body     int64
	Response int64
	// Pace is how fast a client must send its request.
	Pace budget.Pace
	// FileSize caps a database, in bytes.
	FileSize int64
	// Value caps a value or row, and SQL a statement's text, in bytes.
	Value int
	SQL   int
	// Columns caps the columns in a table or result.
	Columns int
	// Depth caps the nesting of an expression.
	Depth int
	// Reserve is the free disk space, in bytes, below which nothing is written.
	Reserve int64
}

var defaults = Limits{
	Streams: 32, TotalStreams: 256, Connections: 8, TotalConnections: 384, IdleConnections: 128, Forwards: 1024,
	Wait: 30 * time.Second, StreamIdle: 10 * time.Second, FileIdle: time.Minute,
	Statement: 30 * time.Second, Transaction: time.Minute, Heavy: 6 * time.Second,
	Body: 8_000_000, Response: 8_000_000, Pace: budget.Body, FileSize: 10 << 30,
	Value: 4 << 20, SQL: 1 << 20, Columns: 256, Depth: 500, Reserve: disk.Reserve,
}

// withDefaults replaces zeros with the defaults.
func (l Limits) withDefaults() Limits {
	orDefault(&l.Streams, defaults.Streams)
	orDefault(&l.TotalStreams, defaults.TotalStreams)
	orDefault(&l.Connections, defaults.Connections)
	orDefault(&l.TotalConnections, defaults.TotalConnections)
	orDefault(&l.IdleConnections, defaults.IdleConnections)
	orDefault(&l.Forwards, defaults.Forwards)
	orDefault(&l.Running, max(2, runtime.GOMAXPROCS(0)))
	orDefault(&l.Wait, defaults.Wait)
	orDefault(&l.StreamIdle, defaults.StreamIdle)
	orDefault(&l.FileIdle, defaults.FileIdle)
	orDefault(&l.Statement, defaults.Statement)
	orDefault(&l.Transaction, defaults.Transaction)
	orDefault(&l.Heavy, defaults.Heavy)
	orDefault(&l.Body, defaults.Body)
	orDefault(&l.Response, defaults.Response)
	orDefault(&l.Pace, defaults.Pace)
	orDefault(&l.FileSize, defaults.FileSize)
	orDefault(&l.Value, defaults.Value)
	orDefault(&l.SQL, defaults.SQL)
	orDefault(&l.Columns, defaults.Columns)
	orDefault(&l.Depth, defaults.Depth)
	orDefault(&l.Reserve, defaults.Reserve)
	return l
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
