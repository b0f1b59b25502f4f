package s3

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"steward/internal/budget"
	"steward/internal/object"
)

// A message is a body that is not an object, such as a list of keys to delete. It is read into memory
// and decoded.
const (
	// maxMessage is the maximum size of a message.
	maxMessage = 4 << 20
	// decodedSize is how many bytes a byte of a hostile message takes when it is decoded.
	decodedSize = 20
	// messageGrant is the memory that a bucket always gets: that for a message of 256 KiB.
	messageGrant = 5 << 20
)

// NewMessages returns a pool of memory for messages, for Server.Messages.
func NewMessages(size int64) *budget.Pool { return budget.NewPool(size, messageGrant) }

// takeMessage returns the memory for the message of a request. It is charged to the bucket that the
// request claims to be signed for: the body of one whose signature is wrong is not read.
func (s *Server) takeMessage(ctx fiber.Ctx, o operation) (*budget.Charge, s3err.S3Error) {
	length := int64(ctx.Request().Header.ContentLength())
	if o.stream || s.isForm(ctx) || length <= 0 {
		return s.Messages.Charge("", ""), nil
	}
	if limit := min(maxMessage, s.Messages.Share()/decodedSize); length > limit {
		return nil, s3err.GetMaxMessageLengthExceeded(limit)
	}
	b, err := s.claimedBucket(ctx)
	if err != nil {
		return s.Messages.Charge("", ""), nil // the request is refused before its body is read
	}
	charge := s.Messages.Charge(b.OrgID, b.Name)
	if !charge.Take(length * decodedSize) {
		return nil, s3err.GetAPIError(s3err.ErrSlowDown)
	}
	return charge, nil
}

// claimedBucket returns the bucket whose access key is in the query of a presigned request, or else in the
// header. It returns an error if there is none.
func (s *Server) claimedBucket(ctx fiber.Ctx) (*object.Bucket, error) {
	var access string
	if utils.IsPresignedURLAuth(ctx) {
		access, _, _ = strings.Cut(ctx.Query("X-Amz-Credential"), "/")
	} else {
		parsed, err := utils.ParseAuthorization(ctx.Get(fiber.HeaderAuthorization))
		if err != nil {
			return nil, err
		}
		access = parsed.Access
	}
	limited, cancel := context.WithTimeout(contextOf(ctx.RequestCtx(), s.base), s.Limits.Operation)
	defer cancel()
	return s.Buckets.ByAccessKey(limited, strings.Clone(access))
}
