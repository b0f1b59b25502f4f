// Package s3 owns the S3 listener: it speaks the S3 protocol over package object, on net/http. It has no SQL.
//
// An account of S3 is a bucket: its access key owns this bucket and nothing else. Buckets are
// created, configured and deleted by the management API only.
//
// How a request moves through it. Server.ServeHTTP finds the operation in one table (operation.go) by the
// method, the level of the path and the sub-resource. It verifies the signature against the credentials of
// a bucket, decides by owner, or by the bucket being public, and refuses names that the operation does not
// carry out. Only then does the operation's handler read the body (body.go), which verifies hashes,
// signatures of chunks and checksums at its end, before package object commits. A handler returns a value
// or an error; respond writes both.
package s3
