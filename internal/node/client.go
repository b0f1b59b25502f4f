package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"steward/internal/errs"
	"steward/internal/seal"
)

const (
	// We give a node dialTimeout to accept a connection, and upgradeTimeout to answer Dial.
	dialTimeout    = 2 * time.Second
	upgradeTimeout = 5 * time.Second
	// We probe a silent connection, and close it after maxProbes without an answer. The database cannot
	// tell us: a node that is cut off from us may still reach it, and be alive.
	probeEvery = 5 * time.Second
	maxProbes  = 3
	// idleTimeout closes unused connections. It is shorter than the server's timeout.
	idleTimeout = 30 * time.Second
	// maxAnswer caps an answer to Call, and maxHeader one without its body, in bytes.
	maxAnswer = 64 << 20
	maxHeader = 64 << 10
	// clientHeader carries the address of the client on whose behalf we send a request.
	clientHeader = "Steward-Client"
)

// Client sends requests to other nodes. Create one with NewClient.
type Client struct {
	directory *Directory
	ring      *seal.Ring
	log       *slog.Logger
	transport *http.Transport
	dialer    net.Dialer
}

// NewClient returns a client that finds nodes in a directory.
func NewClient(d *Directory, ring *seal.Ring) *Client {
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeEvery, Interval: probeEvery, Count: maxProbes},
	}
	c := &Client{directory: d, ring: ring, log: d.Log, dialer: dialer}
	c.transport = &http.Transport{
		DialContext: c.dialer.DialContext, DisableCompression: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeader,
	}
	return c
}

// Others lists the other known nodes.
func (c *Client) Others(ctx context.Context) ([]string, error) { return c.directory.Others(ctx) }

// Close closes unused connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// sign adds a token for a node to a request with the given body.
func (c *Client) sign(r *http.Request, body []byte, n Node) {
	to, now := targetOf(r, n), c.directory.Now()
	token := sign(c.ring, to, body, now)
	if n.Schema < schemaOfBodies {
		token = signNarrow(c.ring, to, now)
	}
	r.Header.Set(tokenHeader, token)
}

// reach returns a node, and a context that ends when the node's process dies. It returns Unavailable if
// there is no such process.
func (c *Client) reach(ctx context.Context, id string) (Node, context.Context, error) {
	n, life, err := c.directory.find(ctx, id)
	if errs.KindOf(err) == errs.NotFound {
		err = unreachable(err, id)
	}
	return n, life, err
}

// Forward passes a request on to a node, with its path and the body that we have read, and streams back the
// answer. It returns Unavailable if the node answers nothing; it may have executed the request all the
// same. If the node fails later, Forward cuts the client's connection.
func (c *Client) Forward(w http.ResponseWriter, r *http.Request, body []byte, id string) error {
	n, life, err := c.reach(r.Context(), id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	var failed error
	proxy := httputil.ReverseProxy{
		Transport: c.transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "http", Host: n.Address, Path: r.URL.Path, RawPath: r.URL.RawPath}
			p.Out.Host = ""
			p.Out.Body = io.NopCloser(bytes.NewReader(body))
			p.Out.ContentLength = int64(len(body))
			p.Out.Header.Set(clientHeader, r.RemoteAddr)
			c.sign(p.Out, body, n)
		},
		ModifyResponse: refused,
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	if failed != nil {
		return c.failed(n, failed)
	}
	return nil
}

// errRefused means that a node did not accept a token, for example because it was made for the previous
// process.
var errRefused = errors.New("the node has refused the request")

// refused returns errRefused if an answer says that a Server has refused the token.
func refused(r *http.Response) error {
	if r.Header.Get(refusalHeader) == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errRefused, r.Header.Get(refusalHeader))
}

// failed logs that a node could not be reached, and returns the error for it.
func (c *Client) failed(n Node, err error) error {
	if !errors.Is(err, context.Canceled) {
		c.log.Warn("a request could not be passed on to another replica", "node", n.ID, "address", n.Address, "error", err)
	}
	return unreachable(err, n.ID)
}

// Dial connects to the service that a node offers at a path, on behalf of a client. client is its address.
// The connection closes when the node's process dies. Dial returns Unavailable.
func (c *Client) Dial(ctx context.Context, id, path, client string) (net.Conn, error) {
	n, life, err := c.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	conn, err := c.dialer.DialContext(ctx, "tcp", n.Address)
	if err != nil {
		return nil, c.failed(n, err)
	}
	in, err := c.upgrade(conn, n, newUpgrade(n, path, client))
	if err != nil {
		_ = conn.Close()
		return nil, c.failed(n, err)
	}
	return &link{Conn: conn, in: in, stop: context.AfterFunc(life, func() { _ = conn.Close() })}, nil
}

// newUpgrade returns a request that switches its connection to our protocol.
func newUpgrade(n Node, path, client string) *http.Request {
	return &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: n.Address, Path: path}, Host: n.Address,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {Protocol}, clientHeader: {client}},
	}
}

// upgrade sends an upgrade request and reads the answer. The reader continues after the answer.
func (c *Client) upgrade(conn net.Conn, n Node, r *http.Request) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(upgradeTimeout)); err != nil {
		return nil, err
	}
	c.sign(r, nil, n)
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxHeader}
	in := bufio.NewReader(limited)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("the node answered %s %s", answer.Status, answer.Header.Get(refusalHeader))
	}
	limited.N = math.MaxInt64
	return in, conn.SetDeadline(time.Time{})
}

// link is a connection to a node. Its buffer holds anything that arrived with the answer.
type link struct {
	net.Conn
	in   *bufio.Reader
	stop func() bool
}

func (l *link) Read(b []byte) (int, error) { return l.in.Read(b) }

// Close closes the connection.
func (l *link) Close() error {
	l.stop()
	return l.Conn.Close()
}

// CloseWrite tells the node that we will send nothing more.
func (l *link) CloseWrite() error {
	half, ok := l.Conn.(interface{ CloseWrite() error })
	if !ok {
		return l.Close()
	}
	return half.CloseWrite()
}

// Call makes a node run the service at a path, with JSON values in and out. out may be nil. It returns the
// node's errors, and NotFound or Unavailable.
func (c *Client) Call(ctx context.Context, id, path string, in, out any) error {
	n, life, err := c.directory.find(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode request to node: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.Address+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request to node: %w", err)
	}
	c.sign(r, body, n)
	answer, err := c.transport.RoundTrip(r)
	if err != nil {
		return c.failed(n, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := refused(answer); err != nil {
		return c.failed(n, err)
	}
	return readAnswer(answer, out)
}

// readAnswer decodes an answer to Call. It keeps numbers as they are written.
func readAnswer(answer *http.Response, out any) error {
	dec := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer))
	dec.UseNumber()
	if answer.StatusCode != http.StatusOK {
		failure := &errs.Error{}
		if err := dec.Decode(failure); err != nil {
			return fmt.Errorf("decode error of node (%s): %w", answer.Status, err)
		}
		return failure
	}
	if out == nil {
		return nil
	}
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("decode answer of node: %w", err)
	}
	return nil
}
