package installation

import (
	"testing"

	"steward/internal/mail/mailtest"
)

// StartWithMail starts an installation with an owner and a mail server.
func StartWithMail(t *testing.T, database string, flags ...string) (*Steward, *mailtest.Server) {
	t.Helper()
	mail := mailtest.Prepare(t)
	mail.User = "steward"
	mail.Password = "p@ss"
	mail.Start()
	s := Prepare(t, database, append(flags, "--mail-from", "Steward <steward@example.com>")...)
	s.Env = []string{
		"STEWARD_ADMIN_EMAIL=" + AdminEmail, "STEWARD_ADMIN_PASSWORD=" + AdminPassword,
		"STEWARD_SMTP_URL=smtp://steward:p%40ss@" + mail.Address,
	}
	s.Start()
	return s, mail
}
