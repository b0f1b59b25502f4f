// Package mailtest is a mail server for tests. It keeps the mail it gets.
package mailtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"steward/internal/porttest"
	"steward/internal/waittest"
)

// Server is a mail server on loopback. You can stop it and start it again at the same address.
type Server struct {
	// Address is its host and port.
	Address string
	// Clients must give User and Password, unless they are empty.
	User, Password string
	// If TLS is set, the server offers STARTTLS.
	TLS *tls.Config
	// Refuse, if set, returns the error for a recipient.
	Refuse func(to string) error

	t    testing.TB
	smtp *smtp.Server

	mu     sync.Mutex
	mails  []Mail
	logins int
}

// Mail is a mail that the server got.
type Mail struct {
	From, To string // from the envelope
	Header   netmail.Header
	Subject  string
	Text     string
	HTML     string
	Raw      string
}

// New starts a mail server.
func New(t testing.TB) *Server {
	t.Helper()
	s := Prepare(t)
	s.Start()
	return s
}

// Prepare returns a mail server that is not started, so that you can set its fields. Nobody listens at
// its address.
func Prepare(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, Address: porttest.Address(porttest.Free(t))}
	t.Cleanup(s.Stop)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Certificate returns a certificate for 127.0.0.1, and the authority that signed it.
func Certificate() (*tls.Config, *x509.CertPool) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, pool
}

// URL returns the server's URL for the setting.
func (s *Server) URL() string { return "smtp://" + s.Address }

// Start starts the server, possibly again.
func (s *Server) Start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.Address)
	must(s.t, err)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }))
	server.Domain = "localhost"
	server.AllowInsecureAuth = true
	server.TLSConfig = s.TLS
	server.ErrorLog = silent{}
	s.smtp = server
	go func() { _ = server.Serve(listener) }() // it ends with an error when we close it
}

// Stop stops the server. From then on it refuses connections.
func (s *Server) Stop() {
	if s.smtp != nil {
		_ = s.smtp.Close()
	}
	s.smtp = nil
}

// Mails returns the mails to an address, oldest first.
func (s *Server) Mails(to string) []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Mail
	for _, m := range s.mails {
		if m.To == to {
			list = append(list, m)
		}
	}
	return list
}

// All returns the number of mails to anybody.
func (s *Server) All() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mails)
}

// Logins returns how often clients have signed in.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Wait waits until n mails to an address have arrived, and returns the nth.
func (s *Server) Wait(to string, n int) Mail {
	s.t.Helper()
	waittest.True(s.t, "mail to "+to, func() bool { return len(s.Mails(to)) >= n })
	return s.Mails(to)[n-1]
}

// WaitSubject waits for a mail with an address and a subject, and returns the last such mail.
func (s *Server) WaitSubject(to, subject string) (found Mail) {
	s.t.Helper()
	waittest.True(s.t, "mail to "+to+": "+subject, func() bool {
		list := s.Mails(to)
		slices.Reverse(list)
		i := slices.IndexFunc(list, func(m Mail) bool { return m.Subject == subject })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found
}

var link = regexp.MustCompile(`(?m)^https?://\S+$`)

// Link returns the link in a mail's text.
func (m Mail) Link() string { return link.FindString(m.Text) }

type session struct {
	server   *Server
	signedIn bool
	from, to string
}

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.User || password != s.server.Password {
			return errors.New("wrong password")
		}
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.logins++
		s.signedIn = true
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.User != "" && !s.signedIn {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	if s.server.Refuse != nil {
		return s.server.Refuse(to)
	}
	return nil
}

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := parse(raw)
	if err != nil {
		return err
	}
	m.From = s.from
	m.To = s.to
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, m)
	return nil
}

// Reset implements smtp.Session.
func (s *session) Reset() {}

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }

// parse reads a mail with the two alternatives text and HTML.
func parse(raw []byte) (Mail, error) {
	message, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Mail{}, err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	if err != nil {
		return Mail{}, err
	}
	m := Mail{Header: message.Header, Subject: subject, Raw: string(raw)}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return Mail{}, err
	}
	for parts := multipart.NewReader(message.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return Mail{}, err
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			return Mail{}, err
		}
		text := strings.ReplaceAll(string(body), "\r\n", "\n")
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			m.HTML = text
		} else {
			m.Text = text
		}
	}
}

type silent struct{}

// Printf implements smtp.Logger.
func (silent) Printf(string, ...any) {}

// Println implements smtp.Logger.
func (silent) Println(...any) {}
