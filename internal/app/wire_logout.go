package app

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"steward/internal/webhook/send"
)

// logoutTimeout bounds the attempt to send a logout token. The provider stops waiting earlier.
const logoutTimeout = 15 * time.Second

// sendLogout returns a function that posts logout tokens, with the deliveries' connections and
// egress check.
func sendLogout(
	post func(context.Context, send.Request) send.Result,
) func(context.Context, string, url.Values) (int, error) {
	return func(ctx context.Context, uri string, form url.Values) (status int, err error) {
		result := post(ctx, send.Request{
			Method: http.MethodPost, URL: uri, Body: []byte(form.Encode()), Timeout: logoutTimeout,
			Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
		})
		if result.Response != nil {
			status = result.Response.Status
		}
		if result.Error != "" {
			return status, errors.New(result.Error)
		}
		return status, nil
	}
}
