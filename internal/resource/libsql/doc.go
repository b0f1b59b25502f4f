// Package libsql is the embedded engine for databases. Each database is one SQLite file, served over
// Hrana, the protocol for libSQL clients, in its variant with JSON over HTTP.
//
// A request to /db/{id}/v2/pipeline (or v3) carries the database's password as a bearer token, and a list
// of requests for a stream. A stream is one connection to the file. A pipeline that ends with `close`
// borrows a connection from the database's pool. Any other pipeline leaves a stream behind, and the next
// pipeline continues it with the baton from the response. That gives clients interactive transactions. If
// nobody continues a stream, we close it and roll back its transaction.
//
//	Engine      files, lookups, streams and connections for all databases; implements resource.Databases
//	database    an open file: its pool, its streams, its batch, and the lock that its writers take in turn
//	conn        a connection with its prepared statements, limits, deadline and authorizer
//	turn        its place in the queue of statements
//	stream      a conn that executes Hrana requests
//	sharing     which statements share commits
//
// A pipeline with one statement that writes rows, and `close`, does not need its own connection: such
// statements run one after another in a shared transaction, each in a savepoint. We answer them after its
// commit (share.go, sqlite.Batch).
//
// Memory, streams and connections are budget.Pools, and statements go through a budget.Queue. The owners
// are organizations, and within them databases.
//
// The authorizer refuses everything that reaches outside the file, or changes how it is written.
package libsql
