// Package object owns buckets and their objects: the index, totals, usage by day, configuration,
// and what the management API says about them. Package blob has the bytes, package s3 speaks the
// protocol.
package object
