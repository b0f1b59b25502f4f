package s3

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api/utils"

	"steward/internal/web"
)

// RoutePrefix is what the Route of every S3 request begins with. The name of its operation follows.
const RoutePrefix = "s3."

// unknownRoute is the Route of requests that are not carried out.
const unknownRoute = RoutePrefix + "unknown"

// Local values of a request.
const (
	// tracedContext is the context with the span of the request.
	tracedContext = "steward-context"
	// servedRequest is the first *request that was begun: a copy has one for its source, too.
	servedRequest = "steward-request"
)

// trace begins the span of a request.
func (s *Server) trace(ctx fiber.Ctx) {
	if s.Trace != nil {
		ctx.Locals(tracedContext, s.Trace(s.base, ctx.Get("Traceparent")))
	}
}

// contextOf returns the context of a request, which belongs to its span. That of the request itself
// would end as soon as the server is shut down, and is used again for the next request.
func contextOf(ctx context.Context, base context.Context) context.Context {
	if traced, ok := ctx.Value(tracedContext).(context.Context); ok {
		return traced
	}
	return base
}

// note has Done be told of a request.
func (r *request) note() {
	r.meta = web.Meta{ID: r.RequestID, RemoteAddr: r.Address, OrgID: r.bucket.OrgID, Resource: r.bucket.Name}
	if r.http.UserValue(servedRequest) == nil {
		r.http.SetUserValue(servedRequest, r)
	}
}

// done reports a request that has been served, up to the beginning of its response.
func (s *Server) done(ctx fiber.Ctx, o operation, started time.Time, err error) {
	if s.Done == nil {
		return
	}
	took := time.Since(started)
	served := web.Served{
		Meta: metaOf(ctx), Method: ctx.Method(), Status: statusOf(ctx, err), Bytes: responseSize(ctx),
		At: started.Add(took), Took: took, Context: contextOf(ctx.RequestCtx(), s.base),
	}
	served.Route = cmp.Or(o.name, unknownRoute)
	if served.Status < http.StatusMultipleChoices {
		served.Received = max(ctx.Request().Header.ContentLength(), 0)
	}
	s.Done(served)
}

// metaOf returns what is known of a request. The organization and the bucket are known if the caller
// was authorized.
func metaOf(ctx fiber.Ctx) *web.Meta {
	if r, ok := ctx.Locals(servedRequest).(*request); ok {
		return &r.meta
	}
	id, _ := utils.EnsureRequestIDs(ctx)
	return &web.Meta{ID: strings.Clone(id), RemoteAddr: ctx.RequestCtx().RemoteIP().String()}
}

// statusOf returns the status of a response, which the server makes of an error if there is one.
func statusOf(ctx fiber.Ctx, err error) int {
	if err == nil {
		return ctx.Response().StatusCode()
	}
	var known *fiber.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return http.StatusInternalServerError
}

// responseSize returns the size of the body of a response, 0 if it is not known yet.
func responseSize(ctx fiber.Ctx) int {
	response := ctx.Response()
	switch {
	case ctx.Method() == http.MethodHead:
		return 0
	case response.IsBodyStream():
		return max(response.Header.ContentLength(), 0)
	}
	return len(response.Body())
}
