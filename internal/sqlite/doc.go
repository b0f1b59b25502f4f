// Package sqlite opens SQLite files and writes to them in batches. It does not care about their
// content.
//
//	Conn        a connection: opening it with pragmas, statements with arguments, rows, interruption
//	Statements  prepared statements by their texts
//	Hooks       functions that SQLite calls while a statement runs
//	Bind, Value arguments and columns as Go values
//	Batch       group commit: many callers' writes in one transaction, each in a savepoint
package sqlite
