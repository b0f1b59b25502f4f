package object

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"steward/internal/errs"
	"steward/internal/page"
)

// Config is a bucket's configuration. A nil field has its default.
type Config struct {
	StorageTier       *Tier
	TTL               *int64 // in seconds
	Public            *bool
	CacheControl      *string
	CORS              *CORS
	AdditionalHeaders map[string]string
}

// CORS is a bucket's CORS configuration.
type CORS struct {
	AllowedOrigins []string `json:"allowed_origins,omitempty" nullable:"true" maxItems:"100" doc:"Origins such as https://example.com, with at most one * each" example:"https://app.example.com"`
	AllowedMethods []string `json:"allowed_methods,omitempty" nullable:"true" maxItems:"5" doc:"GET, PUT, POST, DELETE, HEAD" example:"GET,PUT"`
	AllowedHeaders []string `json:"allowed_headers,omitempty" nullable:"true" maxItems:"100" doc:"Request headers, with at most one * each" example:"*"`
	ExposeHeaders  []string `json:"expose_headers,omitempty" nullable:"true" maxItems:"100" doc:"Response headers that scripts may read" example:"ETag"`
	MaxAgeSeconds  *int64   `json:"max_age_seconds,omitempty" nullable:"true" minimum:"0" maximum:"86400" doc:"How long browsers cache the answer of a preflight" example:"3600"`
}

// Patch is a partial update to a configuration: null resets a field, a missing field keeps it.
type Patch struct {
	_ struct{} `goName:"BucketConfigPatch"`

	StorageTier       page.Opt[Tier]              `json:"storage_tier,omitempty" required:"false" doc:"STANDARD, INFREQUENT_ACCESS or ARCHIVE; the tier of new objects" example:"STANDARD"`
	TTL               page.Opt[int64]             `json:"ttl,omitempty" required:"false" doc:"Seconds after which objects are deleted; 0 clears it" example:"2592000"`
	Public            page.Opt[bool]              `json:"public,omitempty" required:"false" doc:"Whether anybody may read objects"`
	CacheControl      page.Opt[string]            `json:"cache_control,omitempty" required:"false" doc:"Cache-Control of objects that have none" example:"public, max-age=3600"`
	CORS              page.Opt[CORS]              `json:"cors,omitempty" required:"false" example:"{\"allowed_origins\":[\"https://app.example.com\"],\"allowed_methods\":[\"GET\"]}"`
	AdditionalHeaders page.Opt[map[string]string] `json:"additional_headers,omitempty" required:"false" doc:"Extra headers of responses with objects" example:"{\"X-Robots-Tag\":\"noindex\"}"`
}

const (
	maxTTL         = 100 * 365 * 86400
	maxCORS        = 100
	maxHeaders     = 50
	maxHeaderValue = 4096
	maxHeaderBytes = 8192
)

// Apply returns the changed configuration, or Invalid with all faults.
func (p Patch) Apply(c Config) (Config, error) {
	c = p.set(c)
	var faults errs.Faults
	c.check(&faults)
	return c, faults.Err()
}

// Check implements web.Checked.
func (p Patch) Check(faults *errs.Faults) { p.set(Config{}).check(faults) }

func (p Patch) set(c Config) Config {
	p.StorageTier.SetPtr(&c.StorageTier)
	p.TTL.SetPtr(&c.TTL)
	if c.TTL != nil && *c.TTL == 0 {
		c.TTL = nil
	}
	p.Public.SetPtr(&c.Public)
	p.CacheControl.SetPtr(&c.CacheControl)
	p.CORS.SetPtr(&c.CORS)
	p.AdditionalHeaders.Set(&c.AdditionalHeaders)
	return c
}

func (c Config) check(faults *errs.Faults) {
	faults.Check(c.StorageTier == nil || slices.Contains(tiers, *c.StorageTier),
		"body.storage_tier", "expected STANDARD, INFREQUENT_ACCESS, ARCHIVE or null")
	faults.Check(c.TTL == nil || *c.TTL > 0 && *c.TTL <= maxTTL, "body.ttl", "expected 0 to %d seconds, or null", maxTTL)
	faults.Check(c.CacheControl == nil || len(*c.CacheControl) <= maxHeaderValue && validHeaderValue(*c.CacheControl),
		"body.cache_control", "expected a value of a Cache-Control header, or null")
	if c.CORS != nil {
		c.CORS.check(faults)
	}
	checkHeaders(faults, c.AdditionalHeaders)
}

// corsMethods lists the methods that S3 allows.
var corsMethods = []string{"GET", "PUT", "POST", "DELETE", "HEAD"}

func (c *CORS) check(faults *errs.Faults) {
	lists := []struct {
		name     string
		values   []string
		valid    func(string) bool
		expected string
	}{
		{"allowed_origins", c.AllowedOrigins, validOrigin, "an origin such as https://example.com, with at most one *"},
		{"allowed_methods", c.AllowedMethods, func(s string) bool { return slices.Contains(corsMethods, s) }, "GET, PUT, POST, DELETE or HEAD"},
		{"allowed_headers", c.AllowedHeaders, validHeaderPattern, "the name of a header, with at most one *"},
		{"expose_headers", c.ExposeHeaders, httpguts.ValidHeaderFieldName, "the name of a header"},
	}
	for _, l := range lists {
		location := "body.cors." + l.name
		faults.Check(len(l.values) <= maxCORS, location, "expected at most %d entries", maxCORS)
		for i, s := range l.values {
			faults.Check(len(s) <= 255 && l.valid(s), fmt.Sprintf("%s[%d]", location, i), "expected %s", l.expected)
		}
	}
	faults.Check(c.MaxAgeSeconds == nil || *c.MaxAgeSeconds >= 0 && *c.MaxAgeSeconds <= 86400,
		"body.cors.max_age_seconds", "expected 0 to 86400")
}

// validOrigin reports whether a text is an origin, with at most one `*`.
func validOrigin(s string) bool {
	if s == "*" {
		return true
	}
	u, err := url.Parse(strings.Replace(s, "*", "x", 1))
	return err == nil && strings.Count(s, "*") <= 1 && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "x") &&
		u.Host != "" && u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "" && validHeaderValue(s)
}

// validHeaderPattern allows one `*`, which is also a character that names of headers can have.
func validHeaderPattern(s string) bool {
	return strings.Count(s, "*") <= 1 && httpguts.ValidHeaderFieldName(s)
}

// refusedHeaders lists headers that the server sets itself, that belong to the connection, or that would give
// rights to a bucket's pages.
var refusedHeaders = []string{
	"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade", "set-cookie", "set-cookie2", "content-length", "content-range", "content-encoding",
	"date", "etag", "last-modified", "server", "www-authenticate", "location",
}

func checkHeaders(faults *errs.Faults, headers map[string]string) {
	const at = "body.additional_headers"
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		bytes += len(name) + len(value)
		lower := strings.ToLower(name)
		faults.Check(len(name) <= 255 && httpguts.ValidHeaderFieldName(name) && len(value) <= maxHeaderValue && validHeaderValue(value),
			at+"."+name, "expected the name and the value of a header")
		faults.Check(!slices.Contains(refusedHeaders, lower) && !strings.HasPrefix(lower, "x-amz-"),
			at+"."+name, "expected another header than those of the connection, of S3 itself, and Set-Cookie")
	}
	faults.Check(len(headers) <= maxHeaders && bytes <= maxHeaderBytes, at, "expected at most %d headers of %d bytes together",
		maxHeaders, maxHeaderBytes)
}

// validHeaderValue reports whether a text is visible ASCII, spaces and tabs.
func validHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}
