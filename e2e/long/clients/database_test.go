package clients

import (
	"testing"

	"steward/e2e/installation"
)

// TestDatabaseClients uses databases with @libsql/client and drizzle-orm at once after their creation.
func TestDatabaseClients(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	s.NewDatabase("client").RunScript("libsql.mjs")
	s.NewDatabase("drizzle").RunScript("drizzle.mjs")
}
