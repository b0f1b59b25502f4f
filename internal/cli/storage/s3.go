package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/minio/minio-go/v7"
	s3credentials "github.com/minio/minio-go/v7/pkg/credentials"

	"steward/internal/cli/exit"
	"steward/internal/cli/session"
)

// bucketEntry has everything that S3 clients need for a bucket.
type bucketEntry struct {
	Name   string  `json:"bucket_name"`
	Access *string `json:"access_key"`
	Secret *string `json:"secret_key"`
	Region string  `json:"region"`
	Env    map[string]string
}

func newCopier(s *session.Session) *Copier {
	return &Copier{session: s, clients: map[string]*minio.Client{}}
}

// client returns a client with a bucket's credentials.
func (c *Copier) client(ctx context.Context, bucket string) (*minio.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clients[bucket]; known != nil {
		return known, nil
	}
	client, err := s3Client(ctx, c.session, bucket)
	if err == nil {
		c.clients[bucket] = client
	}
	return client, err
}

func s3Client(ctx context.Context, s *session.Session, bucket string) (*minio.Client, error) {
	entry, err := findBucket(ctx, s, bucket)
	if err != nil {
		return nil, err
	}
	if entry.Access == nil || entry.Secret == nil {
		return nil, &exit.Error{
			Code: exit.Denied, Message: "you may not see the credentials of bucket " + bucket,
			Advice: "The role member is required; see `steward whoami`.",
		}
	}
	endpoint, err := url.Parse(entry.Env["S3_ENDPOINT"])
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("the server names no S3 endpoint")
	}
	return minio.New(endpoint.Host, &minio.Options{
		Creds: s3credentials.NewStaticV4(*entry.Access, *entry.Secret, ""), Secure: endpoint.Scheme == "https",
		Region: entry.Region, BucketLookup: minio.BucketLookupPath,
	})
}

func findBucket(ctx context.Context, s *session.Session, name string) (entry bucketEntry, err error) {
	raw, err := s.API.Get(ctx, "/resource", url.Values{"type": {"s3"}, "name": {name}})
	if err != nil {
		return entry, err
	}
	var res struct{ S3 []json.RawMessage }
	if err := session.Decode(raw, &res); err != nil {
		return entry, err
	}
	for _, item := range res.S3 {
		if err := session.Decode(item, &entry); err != nil {
			return entry, err
		}
		if entry.Name == name {
			return entry, nil
		}
	}
	return entry, &exit.Error{
		Code: exit.NotFound, Message: fmt.Sprintf("bucket %s does not exist", name),
		Advice: "List the buckets with `steward bucket list`.",
	}
}

// missing returns the failure for an object that does not exist.
func missing(message string) error {
	return &exit.Error{Code: exit.NotFound, Message: message, Advice: "List what there is with `steward object ls s3://BUCKET`."}
}

// transferFailure returns the failure that a transfer's error stands for.
func transferFailure(err error) error {
	var f *exit.Error
	if err == nil || errors.As(err, &f) || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, ErrNotFound) {
		return missing(err.Error())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &exit.Error{Code: exit.NotFound, Message: err.Error(), Cause: err}
	}
	if res := minio.ToErrorResponse(err); res.StatusCode != 0 {
		return &exit.Error{Code: exit.OfStatus(res.StatusCode), Message: err.Error(), RequestID: res.RequestID, Cause: err}
	}
	if address, ok := errors.AsType[*url.Error](err); ok {
		return session.Unreachable(err, "the S3 listener at "+address.URL)
	}
	return err
}
