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
	// maxDocument caps the bytes we read from a Client ID Metadata Document.
	maxDocument = 5 << 10
	// We use a document for at least minFresh and at most maxFresh before requesting it again.
	minFresh = 5 * time.Minute
	maxFresh = 24 * time.Hour
)

// ErrDocument means that we cannot read a document. It gives users no reason, since that would reveal
// what an address answers.
var ErrDocument = errors.New("the document cannot be read")

// Document requests a client's document for a user in an organization. It returns ErrDocument, with the
// reason for the log, or Invalid with the document's faults.
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
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
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
