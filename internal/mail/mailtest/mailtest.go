// Package mailtest is a mail server for tests, which keeps what it gets.
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

// Server is a mail server on loopback. It can be stopped and started again at the same address.
type Server struct {
	// Address is its host and port.
	Address string
	// User and Password must be given by clients, unless they are empty.
	User, Password string
	// TLS is offered by STARTTLS, if it is set.
	TLS *tls.Config
	// Refuse returns the error for a recipient, if it is set.
	Refuse func(to string) error

	t    testing.TB
	smtp *smtp.Server

	mu     sync.Mutex
	mails  []Mail
	logins int
}

// Mail is a mail that the server got.
type Mail struct {
	From, To string // of the envelope
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

// Prepare returns a mail server that is not started, so that its fields can be set. Nobody listens at its
// address.
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

// Certificate returns a certificate for 127.0.0.1, and the authority that has signed it.
func Certificate() (*tls.Config, *x509.CertPool) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, pool
}

// URL returns the URL of the server, as a setting.
func (s *Server) URL() string { return "smtp://" + s.Address }

// Start starts the server, also again.
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
	go func() { _ = server.Serve(listener) }() // it ends with an error when it is closed
}

// Stop stops the server: connections are refused.
func (s *Server) Stop() {
	if s.smtp != nil {
		_ = s.smtp.Close()
	}
	s.smtp = nil
}

// Mails returns the mails to an address that the server has got, oldest first.
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

// All returns the number of all mails.
func (s *Server) All() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mails)
}

// Logins returns how often a client has signed in.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Wait waits for a number of mails to an address, and returns the last one.
func (s *Server) Wait(to string, n int) Mail {
	s.t.Helper()
	waittest.True(s.t, "mail to "+to, func() bool { return len(s.Mails(to)) >= n })
	return s.Mails(to)[n-1]
}

// WaitSubject waits for a mail to an address with a subject, and returns the last one.
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

// Link returns the link in the text of a mail.
func (m Mail) Link() string { return link.FindString(m.Text) }

// session is a connection of a client.
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

// silent is a logger that drops everything.
type silent struct{}

// Printf implements smtp.Logger.
func (silent) Printf(string, ...any) {}

// Println implements smtp.Logger.
func (silent) Println(...any) {}
