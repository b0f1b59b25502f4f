// Package libsql is the embedded engine of databases: one SQLite file each, served over Hrana, the protocol
// of libSQL clients, in its variant over HTTP with JSON.
//
// A request to /db/{id}/v2/pipeline (or v3) carries the password of the database as a bearer token
// and a list of requests for a stream, which is one connection to the file. A pipeline that ends with
// `close` takes a connection from the database's pool and returns it. Any other one leaves a stream
// behind, which the next pipeline continues with the baton of the response: that is how clients have
// interactive transactions. A stream that is not continued is closed, and its transaction rolled back.
//
//	Engine      files, lookups, streams and connections of all databases; implements resource.Databases
//	database    an open file: its pool, its streams, its batch, the lock that its writers take in turn
//	conn        a connection with its prepared statements, limits, deadline and authorizer
//	turn        its place in the queue of statements
//	stream      a conn that executes Hrana requests
//	sharing     which statements share commits
//
// A pipeline of one statement that writes rows, and `close`, does not need a connection of its own: such
// statements run one after the other in a transaction that they share, each in a savepoint, and are
// answered after its commit (share.go, sqlite.Batch).
//
// Memory, streams and connections are budget.Pools, statements go through a budget.Queue: owners are
// organizations, and below them databases.
//
// The authorizer refuses everything that reaches outside of the file, or changes how it is written.
package libsql
