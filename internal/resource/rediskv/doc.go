// Package rediskv provides key-value stores on Redis or Valkey. Each store has an ACL user, named by the
// store's id. The user may access the keys and channels that begin with the id and a colon, or with the
// id in braces and a colon.
//
// The admin URL leads to one server, to a Redis Cluster, or to the sentinels that watch a master and its
// replicas (address.go, sentinel.go). Each server has its own users: Create, Rotate and Delete change the
// user on every server (engine.go, server.go), and acl.go says what a user may do. Clients connect to the
// servers directly.
//
// Redis forgets its users at a restart unless it has an ACL file, and servers may join later. So the
// manager regularly calls Ensure, which sets the users there (ensure.go). docs/engines.md tells
// administrators what the servers must have.
package rediskv
