// Package postgres provides databases on a PostgreSQL server: a database each, and the role that owns it,
// both named by the id of the resource.
//
// Create, Rotate and Delete work through the admin URL (engine.go, delete.go). Clients connect to
// the server directly, as that role, and so do Tables and Query, which run what users write
// (query.go). Nothing that a user wrote ever runs with the rights of the admin.
// docs/engines.md tells administrators what the server must have.
package postgres
