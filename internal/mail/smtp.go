package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"steward/internal/errs"
)

// Server is the mail server to which we submit mail.
type Server struct {
	// From is the sender of all mail.
	From *netmail.Address
	// RootCAs are the authorities that may have signed the server's certificate; nil means the
	// machine's.
	RootCAs *x509.CertPool

	host     string
	port     int
	security security
	user     string
	password string
}

// security says how the connection to a server is encrypted.
type security int

const (
	startTLS    security = iota // fails if the server does not offer STARTTLS, or the handshake fails
	implicitTLS                 // from the start
	unencrypted                 // for a server on this machine
)

// errURL says what ParseURL accepts. It quotes no part of the URL, because that contains a password.
var errURL = errors.New("smtp://user:password@host:587, or smtps:// for TLS from the beginning")

// ParseURL returns the server that a URL names. With smtp:// we encrypt the connection by STARTTLS,
// unless the host is this machine, and with smtps:// from the start. You cannot turn that off. The
// error shows a correct URL.
func ParseURL(text string) (*Server, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || strings.ContainsAny(text, "?#") {
		return nil, errURL
	}
	s := &Server{host: u.Hostname(), user: u.User.Username()}
	s.password, _ = u.User.Password()
	defaultPort := "587"
	switch {
	case u.Scheme == "smtps":
		s.security = implicitTLS
		defaultPort = "465"
	case u.Scheme != "smtp":
		return nil, errURL
	case isLoopback(s.host):
		s.security = unencrypted
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), defaultPort), 10, 16)
	if err != nil || port == 0 || strings.ContainsAny(s.user+s.password, "\r\n\x00") {
		return nil, errURL
	}
	s.port = int(port)
	return s, nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// smtpTimeout bounds each step of a connection.
const smtpTimeout = 20 * time.Second

func (s *Server) options() []gomail.Option {
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(smtpTimeout),
		gomail.WithTLSConfig(&tls.Config{ServerName: s.host, RootCAs: s.RootCAs, MinVersion: tls.VersionTLS12}),
	}
	method := gomail.SMTPAuthAutoDiscover
	switch s.security {
	case startTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case implicitTLS:
		options = append(options, gomail.WithSSL())
	case unencrypted:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
		method = gomail.SMTPAuthPlainNoEnc
	}
	if s.user != "" {
		options = append(options, gomail.WithSMTPAuth(method), gomail.WithUsername(s.user), gomail.WithPassword(s.password))
	}
	return options
}

// message returns a letter as an SMTP message. The id is its row's, so that recipients recognize a
// mail that we send again.
func (s *Server) message(mailID string, l Letter) (*gomail.Msg, error) {
	if strings.ContainsAny(l.To+l.Subject, "\r\n") {
		return nil, errs.New(errs.Invalid, "the address or the subject of a mail has a line break")
	}
	text, err := l.Text()
	if err != nil {
		return nil, err
	}
	html, err := l.HTML()
	if err != nil {
		return nil, err
	}
	m := gomail.NewMsg()
	m.FromMailAddress(s.From)
	m.ToMailAddress(&netmail.Address{Address: l.To})
	m.Subject(l.Subject)
	m.SetDate()
	_, domain, _ := strings.Cut(s.From.Address, "@")
	m.SetMessageIDWithValue(mailID + "@" + domain)
	m.SetGenHeader("Auto-Submitted", "auto-generated") // no automatic replies (RFC 3834)
	m.SetBodyString(gomail.TypeTextPlain, text)
	m.AddAlternativeString(gomail.TypeTextHTML, html)
	return m, nil
}

// connection connects to the mail server when the first mail is sent, and again after an error. If the
// server cannot be reached, it does not try again.
type connection struct {
	server *Server
	client *gomail.Client
	// We close socket ourselves, because the client leaves it open if it cannot sign in. It is nil
	// with implicit TLS.
	socket net.Conn
	failed error // dial's error
}

func (c *connection) send(ctx context.Context, mailID string, l Letter) error {
	message, err := c.server.message(mailID, l)
	if err != nil {
		return err
	}
	if c.failed != nil {
		return c.failed
	}
	if c.client == nil {
		if c.failed = c.dial(ctx); c.failed != nil {
			return c.failed
		}
	}
	if err := c.client.Send(message); err != nil {
		c.close()
		return fmt.Errorf("send mail: %w", err)
	}
	return nil
}

func (c *connection) dial(ctx context.Context) error {
	options := c.server.options()
	if c.server.security != implicitTLS { // the client must dial TLS itself to know that it is encrypted
		options = append(options, gomail.WithDialContextFunc(c.dialSocket))
	}
	client, err := gomail.NewClient(c.server.host, options...)
	if err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	if err := client.DialWithContext(ctx); err != nil {
		c.close()
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	c.client = client
	return nil
}

func (c *connection) dialSocket(ctx context.Context, network, address string) (net.Conn, error) {
	socket, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.socket = socket
	return socket, nil
}

// close closes the connection. It ignores errors: the server has acknowledged each mail, or we send it
// again.
func (c *connection) close() {
	if c.client != nil {
		_ = c.client.Close()
	}
	if c.socket != nil {
		_ = c.socket.Close()
	}
	c.client = nil
	c.socket = nil
}
