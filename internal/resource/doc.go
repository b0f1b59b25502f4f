// Package resource owns regions and the resources in them: buckets (s3), databases (db) and key-value
// stores (kv).
//
// A request names an organization and a region, whose engines create and serve the resources. Package
// object stores the buckets. A database or key-value store has a row here
// (store.go), and an Engine creates it, either as files of this process or on another server.
//
// Row and engine must agree even after a crash at any point. So a Manager moves each resource through
// states: it writes what it is about to do, calls the engine, and writes that it has done so
// (manager.go). If a process dies in between, any replica finishes its work (recover.go). Rows are the
// truth, and engines follow.
package resource
