package s3

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"steward/internal/object"
)

// MaxExpiry is the maximum time for which a presigned URL is valid.
const MaxExpiry = 7 * 24 * time.Hour

// Presign returns a path-style URL with which anybody may GET or PUT an object for a time.
func (s *Server) Presign(b *object.Bucket, key, method string, expiry time.Duration) (string, error) {
	seconds := int64(expiry / time.Second)
	if seconds < 1 || expiry > MaxExpiry {
		return "", fmt.Errorf("presign: expiry %s is not between 1 second and 7 days", expiry)
	}
	target := s.Origin + "/" + b.Name + "/" + escaped(key) + "?X-Amz-Expires=" + strconv.FormatInt(seconds, 10)
	request, err := http.NewRequest(method, target, nil)
	if err != nil {
		return "", fmt.Errorf("presign: %w", err)
	}
	region := s.Region
	setRegion(&region)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	credentials := aws.Credentials{AccessKeyID: b.AccessKey, SecretAccessKey: b.SecretKey}
	url, _, err := signer.PresignHTTP(context.Background(), credentials, request, "UNSIGNED-PAYLOAD", "s3", region, s.Now())
	if err != nil {
		return "", fmt.Errorf("presign: %w", err)
	}
	return url, nil
}
