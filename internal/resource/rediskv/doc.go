// Package rediskv provides key-value stores on a Redis or Valkey server: an ACL user each, named by
// the store's id, who may use the keys and channels that begin with the id and a colon. Besides base
// packages it imports resource.
//
// Create, Rotate and Delete change the user through the admin URL (engine.go); acl.go says what a
// user may do. Clients connect to the server directly. Redis forgets its users at a restart unless it has
// an ACL file, so the manager calls Ensure from time to time, which creates those that are missing.
// docs/engines.md tells administrators what the server must have.
package rediskv
