// Package resource owns regions and what is provisioned in them: buckets (s3), databases (db) and
// key-value stores (kv).
//
// A request names an organization and a region. Create and Delete change all resources of a request
// in one transaction or none. What a resource is belongs to its engine: buckets are those of package
// object, whose methods fill Buckets. There is no engine for databases and key-value stores yet.
package resource
