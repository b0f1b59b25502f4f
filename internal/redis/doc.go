// Package redis is a Redis server for one keyspace, as a library: commands, transactions, scripts,
// publish/subscribe, and a log that makes acknowledged changes durable.
//
// A Store is an open keyspace. A Reader reads a connection's requests, and its Client keeps them in an
// inbox. Each store has one goroutine, which works in turns: it takes requests from the inboxes and runs
// them one after the other, so commands need no locks (store.go). A command is an entry in a table
// (command.go) plus a function that takes a call: it looks keys up, changes them and appends its reply.
//
// A turn appends its changes to the log as effects: commands that touch at most one key and give the
// same result whenever they run, such as PEXPIREAT for EXPIRE (log.go). One request's changes form one
// frame, which is replayed whole or not at all. Replies leave once the log is on disk.
package redis
