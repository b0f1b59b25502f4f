// Package resource owns regions and what is provisioned in them: buckets (s3), databases (db) and key-value
// stores (kv).
//
// A request names an organization and a region, whose engines make and serve the resources. Buckets
// are rows of package object, whose methods fill Buckets. Databases and key-value stores have a row
// here (store.go) and are made by an Engine: files of this process, or another server. Both must
// agree after a crash at any point, so a Manager moves each resource through states: it writes what
// it is about to do, calls the engine, and writes that it is done (manager.go). What a process leaves
// in between, any replica completes (recover.go). Rows are the truth, and engines follow.
package resource
