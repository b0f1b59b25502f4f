//go:build !linux

package db

import "syscall"

// setUserTimeout does nothing: only Linux has the option. Keepalive still works.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
