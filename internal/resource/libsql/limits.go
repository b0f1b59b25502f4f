package libsql

import (
	"cmp"
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

// withDefaults replaces zeros with the defaults.
func (l Limits) withDefaults() Limits {
	l.Streams = cmp.Or(l.Streams, 32)
	l.TotalStreams = cmp.Or(l.TotalStreams, 256)
	l.Connections = cmp.Or(l.Connections, 8)
	l.TotalConnections = cmp.Or(l.TotalConnections, 384)
	l.IdleConnections = cmp.Or(l.IdleConnections, 128)
	l.Forwards = cmp.Or(l.Forwards, 1024)
	l.Running = cmp.Or(l.Running, max(2, runtime.GOMAXPROCS(0)))
	l.Wait = cmp.Or(l.Wait, 30*time.Second)
	l.StreamIdle = cmp.Or(l.StreamIdle, 10*time.Second)
	l.FileIdle = cmp.Or(l.FileIdle, time.Minute)
	l.Statement = cmp.Or(l.Statement, 30*time.Second)
	l.Transaction = cmp.Or(l.Transaction, time.Minute)
	l.Heavy = cmp.Or(l.Heavy, 6*time.Second)
	l.Body = cmp.Or(l.Body, 8_000_000)
	l.Response = cmp.Or(l.Response, 8_000_000)
	l.Pace = cmp.Or(l.Pace, budget.Body)
	l.FileSize = cmp.Or(l.FileSize, 10<<30)
	l.Value = cmp.Or(l.Value, 4<<20)
	l.SQL = cmp.Or(l.SQL, 1<<20)
	l.Columns = cmp.Or(l.Columns, 256)
	l.Depth = cmp.Or(l.Depth, 500)
	l.Reserve = cmp.Or(l.Reserve, disk.Reserve)
	return l
}
