package mail

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"maps"
	"slices"
	"strings"
	"sync"
	texttemplate "text/template"
	"time"

	"steward/internal/stamp"
)

// Content is a mail's text. Paragraphs come before the link, if there is one, and Footnotes after it.
type Content struct {
	Subject    string
	Paragraphs []string
	Action     string // the link's text
	Link       string
	Footnotes  []string
}

//go:embed templates
var files embed.FS

var (
	textTemplate = sync.OnceValue(func() *texttemplate.Template {
		return texttemplate.Must(texttemplate.ParseFS(files, "templates/mail.txt"))
	})
	htmlTemplate = sync.OnceValue(func() *htmltemplate.Template {
		return htmltemplate.Must(htmltemplate.ParseFS(files, "templates/mail.html"))
	})
)

// Text returns the mail as plain text.
func (c Content) Text() (string, error) {
	var b bytes.Buffer
	if err := textTemplate().Execute(&b, c); err != nil {
		return "", fmt.Errorf("render mail as text: %w", err)
	}
	return b.String(), nil
}

// HTML returns the mail as an HTML page. It loads nothing from elsewhere.
func (c Content) HTML() (string, error) {
	var b bytes.Buffer
	if err := htmlTemplate().Execute(&b, c); err != nil {
		return "", fmt.Errorf("render mail as HTML: %w", err)
	}
	return b.String(), nil
}

// Formats for times.
const (
	day    = "2 January 2006"
	moment = "2 January 2006, 15:04 UTC"
)

// Invitation is the mail to a person who is invited to an organization. Inviter may be empty.
type Invitation struct {
	Org, Role, Inviter, Link string
	Expires                  stamp.Time
}

// Content returns the mail's text.
func (i Invitation) Content() Content {
	org := shownName(i.Org, "an organization")
	invites := shownName(cmp.Or(i.Inviter, "Somebody"), "Somebody")
	return Content{
		Subject: "You are invited to " + org,
		Paragraphs: []string{
			fmt.Sprintf("%s invites you to join %s on Steward, with the role %s.", invites, org, i.Role),
		},
		Action: "Answer the invitation", Link: i.Link,
		Footnotes: []string{
			fmt.Sprintf("The link works once, until %s.", i.Expires.Std().Format(day)),
			"If you do not know what this is about, ignore this message: nothing happens then.",
		},
	}
}

// maxShownName bounds a name that a mail shows, in bytes.
const maxShownName = 100

// shownName returns a name for a mail. A stranger may have chosen it, and could use invitations to
// send advertisements. If it is long, or a mail program could take it for a link, shownName returns
// otherwise.
func shownName(name, otherwise string) string {
	lower := strings.ToLower(name)
	if len(name) > maxShownName || strings.Contains(name, "/") || strings.Contains(lower, "www.") {
		return otherwise
	}
	return name
}

// Reset is the mail with a link to set a new password.
type Reset struct {
	Email, Link string
	Expires     stamp.Time
}

// Content returns the mail's text.
func (r Reset) Content() Content {
	return Content{
		Subject: "Set a new password",
		Paragraphs: []string{
			"Somebody, probably you, has asked for a new password of the account " + r.Email + " on Steward.",
		},
		Action: "Choose a new password", Link: r.Link,
		Footnotes: []string{
			fmt.Sprintf("The link works once, until %s.", r.Expires.Std().Format(moment)),
			"If it was not you, ignore this message: your password stays as it is.",
		},
	}
}

// NewEmail is the mail with a link that proves a user's new address.
type NewEmail struct {
	Email, Link string
	Expires     stamp.Time
}

// Content returns the mail's text.
func (n NewEmail) Content() Content {
	return Content{
		Subject: "Confirm your email address",
		Paragraphs: []string{
			"Somebody, probably you, wants to use the address " + n.Email + " for an account on Steward.",
		},
		Action: "Confirm the address", Link: n.Link,
		Footnotes: []string{
			fmt.Sprintf("The link works once, for the user who has asked for it, until %s.", n.Expires.Std().Format(moment)),
			"If it was not you, ignore this message: nothing happens then.",
		},
	}
}

// Notice is the mail that tells a user about a change to their account.
type Notice struct {
	Name              Event
	Email, RemoteAddr string
	At                stamp.Time
	// Link is the account page.
	Link string
}

// notices has each event's subject and sentence.
var notices = map[Event]struct{ subject, sentence string }{
	PasswordChanged:  {"Your password was changed", "The password of your account was changed."},
	NewDevice:        {"A new sign-in to your account", "Somebody has signed in to your account with a browser that was not used for it before."},
	PasskeyAdded:     {"A passkey was added to your account", "A passkey was added to your account. It can be used to sign in."},
	PasskeyRemoved:   {"A passkey was removed from your account", "A passkey was removed from your account."},
	FactorChanged:    {"The second step of your sign-in was changed", "An authenticator app was added to your account, or removed from it."},
	FactorsCleared:   {"The second step of your sign-in was removed", "An owner of your organization has removed all second factors and passkeys of your account."},
	IdentityLinked:   {"Your account was linked", "An account of another service was linked to yours. It can be used to sign in."},
	IdentityUnlinked: {"Your account was unlinked", "An account of another service was unlinked from yours. It cannot be used to sign in any more."},
	EmailChanging:    {"Your email address was changed", "Your account now has another email address. Messages are not sent to this one any more."},
}

// Content returns the mail's text. An event without its own text gets a general one.
func (n Notice) Content() Content {
	about, ok := notices[n.Name]
	if !ok {
		about.subject = "Your account was changed"
		about.sentence = "The settings of your account were changed."
	}
	when := "When: " + n.At.Std().Format(moment)
	if n.RemoteAddr != "" {
		when += ", from the address " + n.RemoteAddr
	}
	return Content{
		Subject:    about.subject,
		Paragraphs: []string{about.sentence, "Account: " + n.Email, when},
		Action:     "Open your account", Link: n.Link,
		Footnotes: []string{
			"If it was you, there is nothing to do. If not, change your password, sign out everywhere, and tell " +
				"an owner of your organization.",
		},
	}
}

// Alert is the mail about an alert.
type Alert struct {
	Title string `json:"title"`
	Text  string `json:"text"`
	// Link is the page of alerts.
	Link string `json:"-"`
}

// Content returns the mail's text.
func (a Alert) Content() Content {
	return Content{
		Subject: a.Title, Paragraphs: []string{a.Text}, Action: "Open the alerts", Link: a.Link,
		Footnotes: []string{"An owner or admin of your organization has chosen that you get its alerts."},
	}
}

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
		{"alert", Alert{
			Title: "Firing: Orders", Link: base + "/console/alerts",
			Text: `Deliveries to hooks.example.com of the webhook orders have been failing since 15 November 2026, 08:30 UTC: the destination answered 503`,
		}.Content()},
		{"email", NewEmail{Email: "grace@example.com", Link: base + "/account/email/" + token, Expires: at}.Content()},
	}
	for _, name := range slices.Sorted(maps.Keys(notices)) {
		notice := Notice{Name: name, Email: "grace@example.com", RemoteAddr: "192.0.2.7", At: at, Link: base + "/account"}
		list = append(list, Preview{"notice_" + string(name), notice.Content()})
	}
	return list
}
