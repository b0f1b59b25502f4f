// Package pipetest provides an in-process listener for tests, whose connections use the clock of a synctest
// bubble.
package pipetest

import (
	"context"
	"net"
)

// Listener accepts the connections of Dial until the channel is closed.
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

// Dial connects to the listener. It can be used as the DialContext of an http.Transport.
func (l Listener) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l <- server
	return client, nil
}
