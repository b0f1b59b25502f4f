// Package pipetest gives tests a listener whose connections are within the process, so that their deadlines follow the clock of a synctest
// bubble. It knows nothing of the house: the tests inside of web need it, too.
package pipetest

import (
	"context"
	"net"
)

// Listener takes connections that Dial makes, until its channel is closed.
type Listener chan net.Conn

// Accept gives the next connection.
func (l Listener) Accept() (net.Conn, error) {
	conn, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close does nothing: whoever made the channel closes it.
func (l Listener) Close() error { return nil }

// Addr is an address that means nothing.
func (l Listener) Addr() net.Addr { return &net.TCPAddr{} }

// Dial connects to the listener; it has the form that http.Transport wants.
func (l Listener) Dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	l <- theirs
	return ours, nil
}
