package send

import (
	"net"
	"net/http"
	"time"
)

// Transport returns a transport for other requests to servers that users name. It connects only to
// addresses that Egress permits, and uses no proxy.
func (e Egress) Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: e.control()}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConns:           maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeaders,
		ForceAttemptHTTP2:      true,
	}
}
