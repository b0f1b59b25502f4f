package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// partSize is how much of a blob we hold in memory if it is large or its size is unknown. It limits blobs
// to 156 GiB.
const partSize = 16 << 20

// S3Options name a place in a bucket on an S3 server.
type S3Options struct {
	// Endpoint is the server's origin, such as https://s3.example.com.
	Endpoint  string
	Region    string
	Bucket    string
	Prefix    string
	AccessKey string
	SecretKey string
	// Timeout fails a request after the server has done nothing for so long; 0 means a minute.
	Timeout time.Duration
}

// ParseS3URL parses s3://bucket/prefix?endpoint=https://host&region=name. The URL does not contain the
// credentials.
func ParseS3URL(text string) (S3Options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil {
		return S3Options{}, errors.New("expected a URL such as s3://bucket/prefix?endpoint=https://host")
	}
	o := S3Options{
		Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Endpoint: u.Query().Get("endpoint"), Region: u.Query().Get("region"),
	}
	for name := range u.Query() {
		if name != "endpoint" && name != "region" {
			return S3Options{}, fmt.Errorf("the parameter %q of the URL is not known; there are endpoint and region", name)
		}
	}
	_, err = o.host()
	return o, err
}

// String returns the URL that ParseS3URL parses, without credentials.
func (o S3Options) String() string {
	prefix := url.URL{Path: "/" + o.Prefix}
	text := "s3://" + o.Bucket + strings.TrimSuffix(prefix.EscapedPath(), "/")
	if host, err := o.host(); err == nil {
		text += "?endpoint=" + host.Scheme + "://" + strings.ToLower(host.Host)
	}
	if o.Region != "" {
		text += "&region=" + url.QueryEscape(o.Region)
	}
	return text
}

// host returns the endpoint as a URL.
func (o S3Options) host() (*url.URL, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("expected an endpoint such as https://host or http://host:port")
	}
	return u, nil
}

// S3 keeps blobs as objects in a bucket. Keys look like the paths in Disk.
type S3 struct {
	client minio.Core
	bucket string
	prefix string
}

// OpenS3 opens the store in a bucket, which must exist. It returns ErrUnavailable if it cannot reach the
// server, or the server refuses the credentials or does not have the bucket.
func OpenS3(ctx context.Context, o S3Options) (*S3, error) {
	host, err := o.host()
	if err != nil {
		return nil, err
	}
	timeout := o.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	client, err := minio.New(host.Host, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Secure: host.Scheme == "https", Region: o.Region,
		Transport: newTransport(timeout), MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("open blob bucket: %w", err)
	}
	s := &S3{client: minio.Core{Client: client}, bucket: o.Bucket, prefix: o.Prefix}
	exists, err := client.BucketExists(ctx, o.Bucket)
	if err != nil {
		return nil, fmt.Errorf("open blob bucket: %w", explainS3(ctx, err))
	}
	if !exists {
		return nil, fmt.Errorf("%w: there is no bucket %s", ErrUnavailable, o.Bucket)
	}
	return s, nil
}

// newTransport returns a transport whose connections fail when nothing moves for as long as timeout.
func newTransport(timeout time.Duration) *http.Transport {
	dialer := net.Dialer{Timeout: min(timeout, 10*time.Second)}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return movingConn{conn, timeout}, nil
		},
		TLSHandshakeTimeout:   min(timeout, 10*time.Second),
		ResponseHeaderTimeout: timeout,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       timeout,
		DisableCompression:    true,
	}
}

// movingConn sets a deadline for every read and write. A write also extends the deadline of a read that is
// waiting for the response.
type movingConn struct {
	net.Conn
	timeout time.Duration
}

func (c movingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c movingConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (s *S3) key(blobID string) (string, error) {
	directory, name, err := place(blobID)
	return path.Join(s.prefix, directory, name), err
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, blobID string, r io.Reader, size int64) error {
	key, err := s.key(blobID)
	if err != nil {
		return err
	}
	in := &source{ctx: ctx, r: r}
	_, err = s.client.Client.PutObject(ctx, s.bucket, key, in, size, minio.PutObjectOptions{PartSize: partSize})
	if err == nil {
		err = in.checkEnd(size)
	}
	if err == nil {
		return nil
	}
	return s.undo(ctx, blobID, in, size, err)
}

// checkEnd returns io.ErrUnexpectedEOF unless the reader has exactly size bytes. We must look for more
// ourselves, because the S3 client stops reading after size.
func (s *source) checkEnd(size int64) error {
	if size >= 0 {
		if _, err := io.CopyN(io.Discard, s, 1); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return s.checkSize(size)
}

// undo deletes whatever a failed Put may have written, and returns the error for the caller.
func (s *S3) undo(ctx context.Context, blobID string, in *source, size int64, cause error) error {
	deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = s.Delete(deleting, blobID) // if this fails, List shows it
	if in.err != nil {
		return in.err
	}
	if size >= 0 && (in.n > size || in.ended && in.n < size) {
		return io.ErrUnexpectedEOF
	}
	return explainS3(ctx, cause)
}

// Open implements Store.
func (s *S3) Open(ctx context.Context, blobID string, offset, length int64) (io.ReadCloser, error) {
	key, err := s.key(blobID)
	if err != nil {
		return nil, err
	}
	var options minio.GetObjectOptions
	switch {
	case length == 0: // a range cannot be empty
		if _, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{}); err != nil {
			return nil, explainS3(ctx, err)
		}
		return io.NopCloser(strings.NewReader("")), nil
	case length > 0:
		err = options.SetRange(offset, offset+length-1)
	case offset > 0:
		err = options.SetRange(offset, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	r, _, _, err := s.client.GetObject(ctx, s.bucket, key, options)
	if err != nil {
		return nil, explainS3(ctx, err)
	}
	return s3Reader{ctx, r}, nil
}

// s3Reader translates a response's read errors.
type s3Reader struct {
	ctx context.Context
	io.ReadCloser
}

func (r s3Reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		return n, explainS3(r.ctx, err)
	}
	return n, err
}

// Size implements Store.
func (s *S3) Size(ctx context.Context, blobID string) (int64, error) {
	key, err := s.key(blobID)
	if err != nil {
		return 0, err
	}
	info, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return 0, explainS3(ctx, err)
	}
	return info.Size, nil
}

// Delete implements Store. It also aborts multipart uploads that a crash left.
func (s *S3) Delete(ctx context.Context, blobID string) error {
	key, err := s.key(blobID)
	if err != nil {
		return nil
	}
	if err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}); err != nil {
		if err := explainS3(ctx, err); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if err := s.client.RemoveIncompleteUpload(ctx, s.bucket, key); err != nil {
		if err := explainS3(ctx, err); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// uploadsFollow begins the cursors for the second part of a list.
const uploadsFollow = "uploads:"

// List implements Store. It lists objects first, and then unfinished multipart uploads. The cursor is the
// last key.
func (s *S3) List(ctx context.Context, cursor string, limit int) (blobs []Info, next string, err error) {
	if after, ok := strings.CutPrefix(cursor, uploadsFollow); ok {
		return s.listUploads(ctx, after, limit)
	}
	root := s.root()
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{
		Prefix: root, Recursive: true, StartAfter: cursor, MaxKeys: min(limit, 1000),
	}) {
		if o.Err != nil {
			return nil, "", explainS3(ctx, o.Err)
		}
		if len(blobs) >= limit {
			return blobs, next, nil
		}
		blobs = append(blobs, Info{ID: path.Base(o.Key), ModTime: o.LastModified})
		next = o.Key
	}
	return blobs, uploadsFollow, nil
}

// root returns the common prefix of all keys.
func (s *S3) root() string {
	if s.prefix == "" {
		return ""
	}
	return s.prefix + "/"
}

func (s *S3) listUploads(ctx context.Context, after string, limit int) (blobs []Info, next string, err error) {
	found, err := s.client.ListMultipartUploads(ctx, s.bucket, s.root(), after, "", "", min(limit, 1000))
	if err != nil {
		return nil, "", explainS3(ctx, err)
	}
	for _, u := range found.Uploads {
		blobs = append(blobs, Info{ID: path.Base(u.Key), ModTime: u.Initiated})
		next = uploadsFollow + u.Key
	}
	if !found.IsTruncated {
		next = ""
	}
	return blobs, next, nil
}

// Sweep aborts multipart uploads that began before a time.
func (s *S3) Sweep(ctx context.Context, before time.Time) error {
	for key, upload := "", ""; ; {
		found, err := s.client.ListMultipartUploads(ctx, s.bucket, s.root(), key, upload, "", 1000)
		if err != nil {
			return explainS3(ctx, err)
		}
		for _, u := range found.Uploads {
			if !u.Initiated.Before(before) {
				continue
			}
			if err := explainS3(ctx, s.client.AbortMultipartUpload(ctx, s.bucket, u.Key, u.UploadID)); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		if !found.IsTruncated || found.NextKeyMarker == "" {
			return nil
		}
		key = found.NextKeyMarker
		upload = found.NextUploadIDMarker
	}
}

// explainS3 wraps the server's errors in this package's errors. Everything that it does not know becomes
// ErrUnavailable, because a retry may succeed and the client must hear that.
func explainS3(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	response := minio.ToErrorResponse(err)
	switch {
	case response.Code == minio.NoSuchKey, response.Code == "NoSuchUpload":
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case response.StatusCode == http.StatusInsufficientStorage, response.Code == "XMinioStorageFull", response.Code == "QuotaExceeded":
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
