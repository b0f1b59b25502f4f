// Package s3 owns the S3 listener: it speaks the S3 protocol over package object. It has no SQL.
//
// A request passes versitygw's s3api, which parses it, verifies its signature against the
// credentials of a bucket (accounts), decides by owner and policy whether it is allowed, and calls
// the gateway, its backend here. The gateway checks the caller once more, translates the request
// for the types of package object, and translates the answer and its errors back.
//
// An account of S3 is a bucket: its access key owns this bucket and nothing else. Buckets are
// created, configured and deleted by the management API only.
//
// Strings of a request share their memory with its buffers, which the next request overwrites.
// Whatever is handed to package object is a copy (text).
package s3
