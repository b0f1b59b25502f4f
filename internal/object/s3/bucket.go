package s3

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/http"
	"strings"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/errs"
	"steward/internal/object"
)

// ListBuckets returns the bucket of the caller.
func (g *gateway) ListBuckets(ctx context.Context, in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	owner := strings.Clone(in.Owner)
	out := s3response.ListAllMyBucketsResult{
		Owner: s3response.CanonicalUser{ID: owner, DisplayName: owner}, Prefix: strings.Clone(in.Prefix),
	}
	ctx, cancel := context.WithTimeout(contextOf(ctx, g.base), g.limits.Operation)
	defer cancel()
	b, err := g.buckets.ByAccessKey(ctx, owner)
	switch {
	case errs.KindOf(err) == errs.NotFound:
		return out, nil
	case err != nil:
		return out, g.apiError("list buckets", err, s3err.ErrNoSuchBucket)
	}
	if strings.HasPrefix(b.Name, in.Prefix) && b.Name > in.ContinuationToken {
		out.Buckets.Bucket = []s3response.ListAllMyBucketsEntry{{Name: b.Name, CreationDate: b.CreatedAt.Std()}}
	}
	return out, nil
}

// HeadBucket reports that a bucket exists.
func (g *gateway) HeadBucket(ctx context.Context, in *awss3.HeadBucketInput) (*awss3.HeadBucketOutput, error) {
	if _, err := g.begin(ctx, toWrite, in.Bucket); err != nil {
		return nil, err
	}
	return &awss3.HeadBucketOutput{}, nil
}

// CreateBucket is refused: buckets are resources of the management API. Clients that create their
// bucket before they use it are told that they own it, and go on.
func (g *gateway) CreateBucket(ctx context.Context, in *awss3.CreateBucketInput, _ []byte) error {
	_, err := g.begin(ctx, toWrite, in.Bucket)
	var known s3err.S3Error
	switch {
	case err == nil:
		return s3err.GetAPIError(s3err.ErrBucketAlreadyOwnedByYou)
	case errors.As(err, &known) && known.StatusCode() == http.StatusNotFound:
		return s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	return err
}

// DeleteBucket is refused: buckets are resources of the management API.
func (g *gateway) DeleteBucket(context.Context, string) error {
	return s3err.GetAPIError(s3err.ErrAccessDenied)
}

// GetBucketAcl names the access key of a bucket as its owner. The protocol calls it before the
// caller is authorized.
func (g *gateway) GetBucketAcl(ctx context.Context, in *awss3.GetBucketAclInput) ([]byte, error) {
	b, err := g.bucket(ctx, text(in.Bucket))
	if err != nil {
		return nil, err
	}
	return json.Marshal(auth.ACL{Owner: b.AccessKey, Grantees: []auth.Grantee{
		{Permission: auth.PermissionFullControl, Access: b.AccessKey, Type: types.TypeCanonicalUser},
	}})
}

// statement is one of a policy.
type statement struct {
	Effect    string
	Principal map[string]string
	Action    []string
	Resource  []string
}

// GetBucketPolicy returns the policy of a public bucket: everybody may read objects, and the owner,
// whose rights a policy replaces, may do everything. A bucket that is not public has none. The
// protocol calls it before the caller is authorized.
func (g *gateway) GetBucketPolicy(ctx context.Context, name string) ([]byte, error) {
	b, err := g.bucket(ctx, strings.Clone(name))
	if err != nil {
		return nil, err
	}
	if !isPublic(b) {
		return nil, s3err.GetAPIError(s3err.ErrNoSuchBucketPolicy)
	}
	bucket := "arn:aws:s3:::" + b.Name
	return json.Marshal(map[string]any{
		"Version": "2012-10-17",
		"Statement": []statement{
			{"Allow", map[string]string{"AWS": b.AccessKey}, []string{"s3:*"}, []string{bucket, bucket + "/*"}},
			{"Allow", map[string]string{"AWS": "*"}, []string{"s3:GetObject"}, []string{bucket + "/*"}},
		},
	})
}

// corsConfiguration is what auth.ParseCORSOutput reads.
type corsConfiguration struct {
	XMLName xml.Name        `xml:"CORSConfiguration"`
	Rules   []auth.CORSRule `xml:"CORSRule"`
}

// GetBucketCors returns the rules of a bucket. That for the console comes first. The protocol calls
// it before the caller is authorized.
func (g *gateway) GetBucketCors(ctx context.Context, name string) ([]byte, error) {
	b, err := g.bucket(ctx, strings.Clone(name))
	if err != nil {
		return nil, err
	}
	rules := corsRules(g.console, b.Config.CORS)
	if len(rules) == 0 {
		return nil, s3err.GetAPIError(s3err.ErrNoSuchCORSConfiguration)
	}
	return xml.Marshal(corsConfiguration{Rules: rules})
}

// corsRules returns the rule of the console's origin and that of a configuration, which may be nil.
// As in S3, no origins allow nobody, and no headers allow simple requests only; GET and HEAD are
// the default methods.
func corsRules(console string, c *object.CORS) (rules []auth.CORSRule) {
	if console != "" {
		rules = append(rules, auth.CORSRule{
			AllowedOrigins: []auth.CORSOrigin{auth.CORSOrigin(console)},
			AllowedMethods: []auth.CORSHTTPMethod{"GET", "HEAD", "PUT", "POST", "DELETE"},
			AllowedHeaders: []auth.CORSHeader{"*"},
			ExposeHeaders:  []auth.CORSHeader{"ETag"},
		})
	}
	if c == nil || len(c.AllowedOrigins) == 0 {
		return rules
	}
	rule := auth.CORSRule{
		AllowedOrigins: convert[auth.CORSOrigin](c.AllowedOrigins),
		AllowedMethods: convert[auth.CORSHTTPMethod](c.AllowedMethods),
		AllowedHeaders: convert[auth.CORSHeader](c.AllowedHeaders),
		ExposeHeaders:  convert[auth.CORSHeader](c.ExposeHeaders),
	}
	if len(rule.AllowedMethods) == 0 {
		rule.AllowedMethods = []auth.CORSHTTPMethod{"GET", "HEAD"}
	}
	if c.MaxAgeSeconds != nil {
		seconds := int32(*c.MaxAgeSeconds)
		rule.MaxAgeSeconds = &seconds
	}
	return append(rules, rule)
}

func convert[T ~string](list []string) []T {
	out := make([]T, len(list))
	for i, s := range list {
		out[i] = T(s)
	}
	return out
}

// GetBucketVersioning says that versioning is off.
func (g *gateway) GetBucketVersioning(ctx context.Context, name string) (s3response.GetBucketVersioningOutput, error) {
	_, err := g.bucket(ctx, strings.Clone(name))
	return s3response.GetBucketVersioningOutput{}, err
}

// GetBucketOwnershipControls says that ACLs are off.
func (g *gateway) GetBucketOwnershipControls(ctx context.Context, name string) (types.ObjectOwnership, error) {
	_, err := g.bucket(ctx, strings.Clone(name))
	return types.ObjectOwnershipBucketOwnerEnforced, err
}

// GetObjectLockConfiguration says that there is none. The protocol asks before each write.
func (g *gateway) GetObjectLockConfiguration(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrObjectLockConfigurationNotFound)
}

// GetBucketTagging says that there are no tags.
func (g *gateway) GetBucketTagging(context.Context, string) (map[string]string, error) {
	return nil, s3err.GetAPIError(s3err.ErrBucketTaggingNotFound)
}
