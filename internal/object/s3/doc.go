// Package s3 serves the S3 protocol over package object, on net/http. It has no SQL.
//
// An S3 account is a bucket: its access key owns this bucket and nothing else. Only the management API
// creates, configures and deletes buckets.
//
// Server.ServeHTTP looks up a request's operation in one table (operation.go) by method, path and
// sub-resource. It then verifies the signature with a bucket's credentials, checks that the caller owns the
// bucket or that the bucket is public, and refuses parameters that the operation does not implement. Only
// now does the operation's handler read the body (body.go). The body verifies its hash, chunk signatures
// and checksum when it ends, before package object commits. A handler returns a value or an error; respond
// writes both.
package s3
