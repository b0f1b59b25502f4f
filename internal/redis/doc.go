// Package redis is a Redis server for one keyspace, as a library: commands, transactions, scripts, publish
// and subscribe, and a log that makes what was acknowledged durable.
//
// A Store is an open keyspace. A Conn reads the requests of a connection and puts them into the inbox
// of its Client; one goroutine for each store, in turns, takes requests from the inboxes and runs them
// one after the other, so that commands need no locks (store.go). A command is one entry of a table
// (command.go) and a function of a call: it looks keys up, changes them, and appends its reply.
//
// What a turn changes is appended to the log as effects: commands that have one key at most and the
// same result whenever they run, such as PEXPIREAT for EXPIRE (log.go). All that one request changes is
// one frame of the log, which is replayed whole or not at all. Replies leave when the log is on disk.
package redis
