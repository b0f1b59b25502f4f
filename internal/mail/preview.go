package mail

import (
	"maps"
	"slices"
	"time"

	"steward/internal/stamp"
)

// Preview is a mail with examples.
type Preview struct {
	Name string
	Content
}

// Previews returns all mails with examples.
func Previews() []Preview {
	const base = "https://steward.example.com"
	const token = "4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"
	at := stamp.Of(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC))
	list := []Preview{
		{"invitation", Invitation{
			Org: "Acme", Role: "member", Inviter: "Ada Lovelace", Link: base + "/invite/" + token, Expires: at,
		}.Content()},
		{"reset", Reset{Email: "grace@example.com", Link: base + "/reset/" + token, Expires: at}.Content()},
		{"email", NewEmail{Email: "grace@example.com", Link: base + "/account/email/" + token, Expires: at}.Content()},
	}
	for _, name := range slices.Sorted(maps.Keys(notices)) {
		notice := Notice{Name: name, Email: "grace@example.com", RemoteAddr: "192.0.2.7", At: at, Link: base + "/account"}
		list = append(list, Preview{"notice_" + string(name), notice.Content()})
	}
	return list
}
