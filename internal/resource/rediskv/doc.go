// Package rediskv provides key-value stores on Redis or Valkey: an ACL user each, named by the store's id,
// who may use the keys and channels that begin with the id and a colon, or with the id in braces and a
// colon.
//
// The admin URL leads to one server, to a Redis Cluster, or to the sentinels of a master and its replicas
// (address.go, sentinel.go). Each server has users of its own: Create, Rotate and Delete change the user
// on all of them (engine.go, server.go); acl.go says what a user may do. Clients connect to the servers
// directly. Redis forgets its users at a restart unless it has an ACL file, and servers may join later, so
// the manager calls Ensure from time to time, which sets the users there (ensure.go).
// docs/engines.md tells administrators what the servers must have.
package rediskv
