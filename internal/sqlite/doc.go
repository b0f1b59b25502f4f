// Package sqlite opens SQLite files and writes to them in batches. It knows nothing of what is stored.
//
//	Conn        a connection: opening it with pragmas, statements with arguments, rows, interruption
//	Statements  prepared statements by their texts
//	Hooks       functions that SQLite calls while a statement runs
//	Bind, Value arguments and columns as values of Go
//	Batch       group commit: the writes of many callers in one transaction, each in a savepoint
package sqlite
