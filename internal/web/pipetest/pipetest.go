// Package pipetest provides an in-process listener for tests. Its connections use a synctest bubble's clock.
package pipetest

import (
	"context"
	"net"
)

// Listener accepts connections from Dial until the channel is closed.
type Listener chan net.Conn

// Accept returns the next connection.
func (l Listener) Accept() (net.Conn, error) {
	conn, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close does nothing; the owner of the channel closes it.
func (l Listener) Close() error { return nil }

// Addr returns an empty address.
func (l Listener) Addr() net.Addr { return &net.TCPAddr{} }

// Dial connects to the listener. You can use it as an http.Transport's DialContext.
func (l Listener) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l <- server
	return client, nil
}
