package mail

import (
	"bufio"
	"io"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"steward/internal/mail/mailtest"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]Server{
		"smtp://mail.example.com":                 {host: "mail.example.com", port: 587, security: startTLS},
		"smtp://u:p%40s@mail.example.com:2525/":   {host: "mail.example.com", port: 2525, security: startTLS, user: "u", password: "p@s"},
		"smtps://mail.example.com":                {host: "mail.example.com", port: 465, security: implicitTLS},
		"smtps://localhost:4650":                  {host: "localhost", port: 4650, security: implicitTLS},
		"smtp://localhost:25":                     {host: "localhost", port: 25, security: unencrypted},
		"smtp://127.0.0.2:25":                     {host: "127.0.0.2", port: 25, security: unencrypted},
		"smtp://[::1]:25":                         {host: "::1", port: 25, security: unencrypted},
		"smtp://localhost.example.com:25":         {host: "localhost.example.com", port: 25, security: startTLS},
		"smtp://10.0.0.1:25":                      {host: "10.0.0.1", port: 25, security: startTLS},
		"smtp://apikey:SG.x-y_z@smtp.example.com": {host: "smtp.example.com", port: 587, security: startTLS, user: "apikey", password: "SG.x-y_z"},
	} {
		if got, err := ParseURL(url); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	for _, url := range []string{
		"", "mail.example.com", "http://mail.example.com", "smtp://", "smtp://:25", "smtp://h:0", "smtp://h:70000",
		"smtp://h?starttls=off", "smtp://h/path", "smtp://h#x", "smtp://u:p%0d%0a@h", "SMTP+plain://h", "smtp://h:port",
	} {
		if got, err := ParseURL(url); err == nil {
			t.Errorf("%s: %+v", url, got)
		}
	}
}

// letter is a mail to be sent.
func letter() Letter {
	return Letter{To: "ada@example.com", Content: Content{Subject: "Hello", Paragraphs: []string{"a secret link"}}}
}

func send(t *testing.T, s *Server) error {
	t.Helper()
	c := connection{server: s}
	defer c.close()
	return c.send(t.Context(), "mail_1", letter())
}

// encrypted returns a client that demands STARTTLS of a server on loopback.
func encrypted(t *testing.T, address string) *Server {
	t.Helper()
	s := serverAt(t, "smtp://steward:password@"+address)
	s.security = startTLS
	return s
}

func TestMailIsSentBySTARTTLS(t *testing.T) {
	server := mailtest.Prepare(t)
	server.User = "steward"
	server.Password = "password"
	config, authority := mailtest.Certificate()
	server.TLS = config
	server.Start()
	s := encrypted(t, server.Address)
	if err := send(t, s); err == nil || server.Logins() != 0 || server.All() != 0 {
		t.Fatalf("a certificate of an unknown authority: %v, %d sign-ins", err, server.Logins())
	}
	s.RootCAs = authority
	must(t, send(t, s))
	if server.All() != 1 || server.Logins() != 1 {
		t.Errorf("%d mails, %d sign-ins", server.All(), server.Logins())
	}
}

func TestServerWithoutSTARTTLSGetsNothing(t *testing.T) {
	server := mailtest.New(t)
	server.User = "steward"
	server.Password = "password"
	err := send(t, encrypted(t, server.Address))
	if err == nil || !strings.Contains(err.Error(), "STARTTLS") || server.All() != 0 || server.Logins() != 0 {
		t.Errorf("got %v, %d mails, %d sign-ins", err, server.All(), server.Logins())
	}
}

// TestFailedSTARTTLSNeverFallsBack has a server, or somebody in between, that offers STARTTLS and refuses it, or
// answers it with something else than TLS.
func TestFailedSTARTTLSNeverFallsBack(t *testing.T) {
	for name, reply := range map[string]string{
		"refused": "454 4.7.0 TLS not available", "no handshake": "220 2.0.0 go ahead\r\n250 hello again",
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			defer listener.Close()
			lines := make(chan string, 1)
			go func() { lines <- stripTLS(listener, reply) }()
			if err := send(t, encrypted(t, listener.Addr().String())); err == nil {
				t.Error("the mail was sent")
			}
			got := <-lines
			for _, word := range []string{"AUTH", "MAIL", "secret"} {
				if strings.Contains(got, word) {
					t.Errorf("the server has got %q", got)
				}
			}
		})
	}
}

// stripTLS serves one connection as plain SMTP, answers STARTTLS as given and everything else with 250, and
// returns what it has got.
func stripTLS(listener net.Listener, answer string) string {
	conn, err := listener.Accept()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	reply := func(text string) { _, _ = io.WriteString(conn, text+"\r\n") } // the client may be gone
	reply("220 mail")
	var got strings.Builder
	for in := bufio.NewScanner(conn); in.Scan(); {
		got.WriteString(in.Text() + "\n")
		switch {
		case strings.HasPrefix(in.Text(), "EHLO"):
			reply("250-mail\r\n250-AUTH PLAIN\r\n250 STARTTLS")
		case in.Text() == "STARTTLS":
			reply(answer)
			if strings.HasPrefix(answer, "220") {
				return got.String()
			}
		default:
			reply("250 ok")
		}
	}
	return got.String()
}

func TestSenderMayHaveAnyName(t *testing.T) {
	server := mailtest.New(t)
	s := serverAt(t, server.URL())
	s.From = &netmail.Address{Name: `Ümläut "Mail", Inc.`, Address: "mail@example.com"}
	must(t, send(t, s))
	from, err := netmail.ParseAddress(server.Mails("ada@example.com")[0].Header.Get("From"))
	must(t, err)
	if *from != *s.From {
		t.Errorf("the sender is %v", from)
	}
}
