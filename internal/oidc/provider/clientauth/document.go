package clientauth

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/oidc"
)

const (
	// maxDocument bounds how many bytes of a Client ID Metadata Document we read.
	maxDocument = 5 << 10
	// minFresh and maxFresh bound how long we use a document before we request it again.
	minFresh = 5 * time.Minute
	maxFresh = 24 * time.Hour
)

// ErrDocument is the error for every document that we cannot read. It hides the reason, which could tell
// users what answers at an internal address.
var ErrDocument = errors.New("the document cannot be read")

// Document requests a client's document for a user in an organization. It returns Invalid with the
// document's faults, or ErrDocument, which wraps the reason for the log.
func (k *Keys) Document(ctx context.Context, orgID, uri string) (oidc.Document, error) {
	if !k.begin(orgID) {
		return oidc.Document{}, fmt.Errorf("%w: too many are being read", ErrDocument)
	}
	defer k.end(orgID)
	header, text, err := k.get(ctx, uri, "application/json", maxDocument)
	if err != nil {
		return oidc.Document{}, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || media != "application/json" && !(strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return oidc.Document{}, fmt.Errorf("%w: it is not JSON", ErrDocument)
	}
	return oidc.ParseDocument(uri, text, freshness(header))
}

// freshness returns how long we may use a response, going by its Cache-Control.
func freshness(header http.Header) time.Duration {
	fresh := minFresh
	for _, directive := range strings.Split(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return minFresh
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err == nil {
				fresh = min(max(time.Duration(seconds)*time.Second, minFresh), maxFresh)
			}
		}
	}
	return fresh
}
