package mail

import (
	"context"
	"fmt"
	"net"

	gomail "github.com/wneessen/go-mail"
)

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
