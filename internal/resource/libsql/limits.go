package libsql

import (
	"sync/atomic"
	"syscall"
	"time"
)

// Limits bound what clients can use. A zero field has its default.
type Limits struct {
	// Streams is the number of open streams of a database, TotalStreams that of all databases.
	Streams      int
	TotalStreams int
	// Connections is the number of connections of a database for requests that close their stream;
	// more of them wait. TotalConnections is the number of all connections, those of streams included.
	Connections      int
	TotalConnections int
	// Wait is how long a request waits for a connection, or a statement for another writer.
	Wait time.Duration
	// StreamIdle is the time after which a stream without a request is closed.
	StreamIdle time.Duration
	// FileIdle is the time after which a file without a request is closed.
	FileIdle time.Duration
	// Statement is the time that a statement may take, Transaction that of a transaction.
	Statement   time.Duration
	Transaction time.Duration
	// Body is the number of bytes of a request, Response that of a pipeline's response. Cursors are not
	// limited, since they are not kept in memory.
	Body     int64
	Response int64
	// Memory is the number of bytes that the bodies and responses of all requests take at a time.
	Memory int64
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
	Streams: 32, TotalStreams: 256, Connections: 8, TotalConnections: 512,
	Wait: 30 * time.Second, StreamIdle: 10 * time.Second, FileIdle: time.Minute,
	Statement: 30 * time.Second, Transaction: time.Minute,
	Body: 16 << 20, Response: 16 << 20, Memory: 1 << 30, FileSize: 10 << 30,
	Value: 4 << 20, SQL: 1 << 20, Columns: 256, Depth: 500, Reserve: 256 << 20,
}

// withDefaults returns the limits with defaults in place of zeros.
func (l Limits) withDefaults() Limits {
	orDefault(&l.Streams, defaults.Streams)
	orDefault(&l.TotalStreams, defaults.TotalStreams)
	orDefault(&l.Connections, defaults.Connections)
	orDefault(&l.TotalConnections, defaults.TotalConnections)
	orDefault(&l.Wait, defaults.Wait)
	orDefault(&l.StreamIdle, defaults.StreamIdle)
	orDefault(&l.FileIdle, defaults.FileIdle)
	orDefault(&l.Statement, defaults.Statement)
	orDefault(&l.Transaction, defaults.Transaction)
	orDefault(&l.Body, defaults.Body)
	orDefault(&l.Response, defaults.Response)
	orDefault(&l.Memory, defaults.Memory)
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

// quota counts what is used of a limit.
type quota struct {
	limit int64
	used  atomic.Int64
}

// take reports whether n more are within the limit, and counts them if so.
func (q *quota) take(n int64) bool {
	if q.used.Add(n) <= q.limit {
		return true
	}
	q.used.Add(-n)
	return false
}

func (q *quota) release(n int64) { q.used.Add(-n) }

// disk knows whether the file system of a directory is almost full.
type disk struct {
	dir     string
	reserve int64
	// checked is when it was last read, in nanoseconds since 1970.
	checked atomic.Int64
	low     atomic.Bool
}

// diskAge is for how long the free space that was read is used.
const diskAge = 50 * time.Millisecond

// full reports whether less than the reserve is free.
func (d *disk) full(now time.Time) bool {
	last := d.checked.Load()
	if now.UnixNano()-last > int64(diskAge) && d.checked.CompareAndSwap(last, now.UnixNano()) {
		var stat syscall.Statfs_t
		err := syscall.Statfs(d.dir, &stat)
		d.low.Store(err == nil && int64(stat.Bavail)*int64(stat.Bsize) < d.reserve)
	}
	return d.low.Load()
}
