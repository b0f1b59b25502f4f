package providertest

import (
	"encoding/json"
	"slices"

	"steward/internal/db"
	"steward/internal/mail"
)

// Mail reads the mail that a provider queues.
type Mail struct{ fixture *Fixture }

// ServeWithMail serves a provider on a server that sends mail.
func (f *Fixture) ServeWithMail() *Mail {
	f.T.Helper()
	f.Accounts.Mail = &mail.Store{DB: f.DB, Ring: f.stores.Ring, Now: f.Clock.Now}
	f.Serve(f.NewProvider())
	return &Mail{f}
}

// Want requires the mail queued since the last call: "reset" or a notice's name, and the address, or
// "email of" and a user's id.
func (m *Mail) Want(want ...string) {
	f := m.fixture
	f.T.Helper()
	var queued []string
	Must(f.T, f.DB.Write(f.T.Context(), func(tx *db.Tx) (err error) {
		queued, err = db.Collect(tx, m.scan, `SELECT kind, body FROM mails WHERE kind <> 'invitation' ORDER BY id`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`DELETE FROM mails WHERE kind <> 'invitation'`)
		return err
	}))
	if !slices.Equal(queued, want) {
		f.T.Errorf("queued mail %q, want %q", queued, want)
	}
}

func (m *Mail) scan(row db.Row) (string, error) {
	var r mail.Request
	var kind string
	var body []byte
	if err := row.Scan(&kind, &body); err != nil {
		return "", err
	}
	body, err := m.fixture.stores.Ring.Open("mail", body)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return "", err
	}
	switch r.Kind = mail.Kind(kind); r.Kind {
	case mail.KindReset:
		return "reset " + r.To, nil
	case mail.KindEmail:
		return "email of " + r.UserID, nil
	}
	return string(r.Notice) + " " + r.To, nil
}
