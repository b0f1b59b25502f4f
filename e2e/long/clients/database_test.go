package clients

import (
	"testing"

	"steward/e2e/installation"
)

// TestDatabaseClients uses databases with @libsql/client and drizzle-orm at once after their creation.
func TestDatabaseClients(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(_ *testing.T, s *installation.Steward) {
		s.NewDatabase("client").RunScript("libsql.mjs")
		s.NewDatabase("drizzle").RunScript("drizzle.mjs")
	})
}
