package libsql

import (
	"runtime"
	"time"

	"steward/internal/budget"
	"steward/internal/disk"
)

// Limits bound what clients can use. A zero field has its default.
type Limits struct {
	// Streams is the number of open streams of a database, TotalStreams that of all databases.
	Streams      int
	TotalStreams int
	// Connections is the number of connections of a database for requests that close their stream;
	// more of them wait. TotalConnections is the number of all connections in use, those of streams
	// included, IdleConnections that of those that are kept open for later.
	Connections      int
	TotalConnections int
	IdleConnections  int
	// Forwards is the number of requests that are being passed on to other nodes.
	Forwards int
	// Running is the number of statements that run at a time. Others wait for their turn.
	Running int
	// Wait is how long a request waits for a connection, or a statement for another writer.
	Wait time.Duration
	// StreamIdle is the time after which a stream without a request is closed.
	StreamIdle time.Duration
	// FileIdle is the time after which a file without a request is closed.
	FileIdle time.Duration
	// Statement is the time that a statement may take, Transaction that of a transaction.
	Statement   time.Duration
	Transaction time.Duration
	// Heavy is the time of a database's statements in a minute that is logged.
	Heavy time.Duration
	// Body is the number of bytes of a request, Response that of the rows of a pipeline's response, or of
	// one row of a cursor. Neither is more than a sixteenth of the memory for all requests.
	Body     int64
	Response int64
	// Pace is how fast a request has to be sent.
	Pace budget.Pace
	// FileSize is the size of a database in bytes.
	FileSize int64
	// Value is the number of bytes of a value or row, SQL that of a statement's text.
	Value int
	SQL   int
	// Columns is the number of columns of a table or result.
	Columns int
	// Depth is the depth of an expression.
	Depth int
	// Reserve is the number of free bytes of the file system below which nothing is written.
	Reserve int64
}

var defaults = Limits{
	Streams: 32, TotalStreams: 256, Connections: 8, TotalConnections: 384, IdleConnections: 128, Forwards: 1024,
	Wait: 30 * time.Second, StreamIdle: 10 * time.Second, FileIdle: time.Minute,
	Statement: 30 * time.Second, Transaction: time.Minute, Heavy: 6 * time.Second,
	Body: 8_000_000, Response: 8_000_000, Pace: budget.Body, FileSize: 10 << 30,
	Value: 4 << 20, SQL: 1 << 20, Columns: 256, Depth: 500, Reserve: disk.Reserve,
}

// withDefaults returns the limits with defaults in place of zeros.
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
