package audit

import (
	"context"

	"steward/internal/web"
)

// source returns the request id and remote address, if the context belongs to a request.
func source(ctx context.Context) (requestID, remoteAddr string) {
	meta := web.Request(ctx)
	return meta.ID, meta.RemoteAddr
}

// RemoteAddr returns the remote address of the context's request, or "".
func RemoteAddr(ctx context.Context) string {
	_, remoteAddr := source(ctx)
	return remoteAddr
}
