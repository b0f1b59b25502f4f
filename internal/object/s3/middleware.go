package s3

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"steward/internal/object"
)

const (
	// maxObject is the maximum size of an object or part in one request, as in S3.
	maxObject = 5 << 30
	// chunked is the length of a body with Transfer-Encoding: chunked.
	chunked = -1
)

// servedBucket is the request's local value with the bucket whose object is the response.
const servedBucket = "steward-bucket"

// formUpload is the request's local value that marks an upload with a form.
const formUpload = "steward-form"

// around observes each request.
func (s *Server) around(ctx fiber.Ctx) error {
	started := time.Now()
	s.trace(ctx)
	o := s.operationOf(ctx)
	err := s.serve(ctx, o)
	s.done(ctx, o, started, err)
	return err
}

// serve handles a request, and adds what the protocol leaves out of the response.
func (s *Server) serve(ctx fiber.Ctx, o operation) error {
	if c, ok := connOf(ctx.RequestCtx()); ok {
		c.receive(s.Limits.Stall)
	}
	if err := s.pass(ctx, o); err != nil {
		return err
	}
	if err := sendTags(ctx); err != nil {
		return err
	}
	s.addHeaders(ctx)
	s.discardBody(ctx)
	if s.leaving.Load() {
		ctx.Response().Header.SetConnectionClose()
	}
	if ctx.Request().Header.ContentLength() == chunked {
		// What is left of the body would be taken for the next request.
		ctx.Response().Header.SetConnectionClose()
	}
	return nil
}

// pass passes a request on, or answers it with an error if it must not be.
func (s *Server) pass(ctx fiber.Ctx, o operation) error {
	if err := s.check(ctx, o); err != nil {
		sendError(ctx, err)
		return nil
	}
	message, err := s.takeMessage(ctx, o)
	if err != nil {
		sendError(ctx, err)
		return nil
	}
	defer message.Release()
	return s.next(ctx)
}

// discardBody reads the rest of a request's body. A client whose body is not read may see a reset
// connection instead of the answer. The end of a chunked body cannot be read twice, so those are left
// to the methods that store them.
func (s *Server) discardBody(ctx fiber.Ctx) {
	stream := ctx.Request().BodyStream()
	if stream == nil || ctx.Request().Header.ContentLength() == chunked {
		return
	}
	c, ok := connOf(ctx.RequestCtx())
	if !ok {
		return
	}
	body := &uploadReader{r: stream, conn: c}
	body.drain()
	if !body.ended {
		ctx.Response().Header.SetConnectionClose()
	}
}

// next passes a request on. The bucket of a form must be in the path, and trailers are corrected.
func (s *Server) next(ctx fiber.Ctx) error {
	if s.isForm(ctx) {
		ctx.Locals(formUpload, true)
		if bucket, ok := bucketOfHost(ctx, s.Domain); ok {
			ctx.Path("/" + bucket)
		}
	}
	if stream := ctx.Request().BodyStream(); stream != nil && ctx.Get("X-Amz-Content-Sha256") == signedTrailer {
		utils.ContextKeyBodyReader.Set(ctx, newTrailerReader(stream))
	}
	return ctx.Next()
}

// sendError is the answer to a request that is not passed on.
func sendError(ctx fiber.Ctx, err s3err.S3Error) {
	request, host := utils.EnsureRequestIDs(ctx)
	ctx.Response().Header.SetContentType(fiber.MIMEApplicationXML)
	ctx.Status(err.StatusCode()).Response().SetBody(err.XMLBody(request, host))
}

// check returns an error if a request must not be passed on. Paths that are not encoded as URLs would
// be internal errors, which clients retry.
func (s *Server) check(ctx fiber.Ctx, o operation) s3err.S3Error {
	if _, err := url.PathUnescape(string(ctx.Request().URI().PathOriginal())); err != nil {
		return s3err.GetAPIError(s3err.ErrInvalidURI)
	}
	if isSignedV2(ctx) {
		return errSignatureV2()
	}
	if err := o.check(ctx); err != nil {
		return err
	}
	return s.checkBody(ctx, o)
}

// checkBody returns an error if a form is too large, or if the length of what is not an object is
// unknown.
func (s *Server) checkBody(ctx fiber.Ctx, o operation) s3err.S3Error {
	length := int64(ctx.Request().Header.ContentLength())
	switch {
	case o.stream:
		return nil
	case length == chunked:
		return s3err.GetAPIError(s3err.ErrMissingContentLength)
	case s.isForm(ctx) && length > maxObject+maxFields:
		return s3err.GetEntityTooLargeErr(length, maxObject)
	}
	return nil
}

// isSignedV2 reports whether a request has a signature of version 2.
func isSignedV2(ctx fiber.Ctx) bool {
	return strings.HasPrefix(ctx.Get(fiber.HeaderAuthorization), "AWS ") || ctx.Request().URI().QueryArgs().Has("AWSAccessKeyId")
}

// hasKey reports whether the path of a request names an object. The bucket is in the path, or in the
// name of a host in a domain, unless that is empty.
func hasKey(ctx fiber.Ctx, domain string) bool {
	path := strings.TrimPrefix(string(ctx.Request().URI().PathOriginal()), "/")
	if _, ok := bucketOfHost(ctx, domain); ok {
		return path != ""
	}
	_, key, _ := strings.Cut(path, "/")
	return key != ""
}

// bucketOfHost returns the bucket that a host name in a domain names.
func bucketOfHost(ctx fiber.Ctx, domain string) (string, bool) {
	if domain == "" {
		return "", false
	}
	bucket, _, ok := strings.Cut(string(ctx.Request().Host()), "."+domain)
	return bucket, ok && bucket != ""
}

// isForm reports whether a request uploads an object with a form.
func (s *Server) isForm(ctx fiber.Ctx) bool {
	return ctx.Method() == http.MethodPost && strings.HasPrefix(ctx.Get(fiber.HeaderContentType), fiber.MIMEMultipartForm) &&
		!hasKey(ctx, s.Domain) && !ctx.Request().URI().QueryArgs().Has("delete")
}

// addHeaders adds the configured headers to a response with an object, and lets the console read
// every response.
func (s *Server) addHeaders(ctx fiber.Ctx) {
	header := &ctx.Response().Header
	header.EnableNormalizing() // the protocol turns it off, and sets its ids twice then
	for _, name := range []string{utils.HeaderAmzRequestID, utils.HeaderAmzID2} {
		id := string(header.Peek(name))
		deleteHeader(header, name)
		header.Set(name, id)
	}
	if b, ok := ctx.Locals(servedBucket).(*object.Bucket); ok {
		for name, value := range b.Config.AdditionalHeaders {
			if !hasHeader(header, name) {
				header.Set(name, value)
			}
		}
	}
	origin := ctx.Get(fiber.HeaderOrigin)
	if origin != "" && origin == s.Console && len(header.Peek(fiber.HeaderAccessControlAllowOrigin)) == 0 {
		header.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		header.Set(fiber.HeaderVary, middlewares.VaryHdr)
	}
}

// hasHeader reports whether a response has a header in any spelling.
func hasHeader(header *fasthttp.ResponseHeader, name string) bool {
	for key := range header.All() {
		if strings.EqualFold(string(key), name) {
			return true
		}
	}
	return false
}

// deleteHeader deletes a header in every spelling that the protocol uses.
func deleteHeader(header *fasthttp.ResponseHeader, name string) {
	header.Del(name)
	header.DisableNormalizing()
	header.Del(name)
	header.EnableNormalizing()
}
