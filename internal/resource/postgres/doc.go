// Package postgres provides databases on a PostgreSQL server. Each has a role that owns it, and the
// resource's id names both.
//
// Create, Rotate and Delete work through the admin URL (engine.go, delete.go). Clients connect to the server
// directly with the role. So do Tables and Query, which run users' SQL (query.go). Nothing that a user has
// written ever runs with the admin's rights. docs/engines.md tells administrators what the server must have.
package postgres
