package webhook

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/filter"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// Destination is a URL to which we forward a webhook's requests.
type Destination struct {
	ID        string          `json:"id" example:"whds_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	CreatedAt stamp.Time      `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time      `json:"updated_at" format:"date-time"`
	CreatedBy string          `json:"created_by" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	WebhookID string          `json:"webhook_id" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	Type      string          `json:"type" doc:"url, http and webhook all mean an HTTP request" example:"url"`
	Config    Config          `json:"config" doc:"Viewers see *** for the values of headers"`
	Internal  bool            `json:"internal"`
	Metadata  json.RawMessage `json:"metadata" example:"null"`
	Secret    string          `json:"secret,omitempty" doc:"Signing secret (Standard Webhooks); shown only when the destination is created" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw0Xn4v1bTzq8="`
	Failing   *FailingState   `json:"failing,omitempty" doc:"In lists, if deliveries are failing"`
	Ignored   []string        `json:"ignored,omitempty" doc:"Keys of config that were stored before they meant something, and have no effect until the next update" example:"[\"filter\"]"`

	orgID      string
	signingKey []byte
	// previousKey is the signing key before the last rotation, which signs too until previousUntil.
	previousKey   []byte
	previousUntil stamp.Time
	pace          pace
	version       int64
}

// signer returns what signs requests to the destination.
func (d Destination) signer() *send.Signer {
	return send.NewSigner(d.signingKey).Until(d.previousUntil.Std(), d.previousKey)
}

// DestinationRef names a webhook's destination.
type DestinationRef struct{ OrgID, WebhookID, ID string }

// ETag returns the row's version.
func (d Destination) ETag() string { return page.ETag(d.version) }

// SDK returns the destination for the SDK face: SDKs know only the type url.
func (d Destination) SDK() any { return d.forSDK() }

func (d Destination) forSDK() Destination {
	d.Type = types[0]
	return d
}

// Destinations lists a webhook's destinations.
type Destinations []Destination

// SDK returns the list for the SDK face.
func (l Destinations) SDK() any {
	shown := make([]Destination, len(l))
	for i, d := range l {
		shown[i] = d.forSDK()
	}
	return shown
}

// types are three names for the one type we have.
var types = []string{"url", "http", "webhook"}

// Config is a destination's settings. We store unknown keys and return them unchanged.
type Config struct {
	URL            string
	Headers        map[string]string
	TimeoutSeconds int
	MaxRetries     int
	Concurrency    int
	Disabled       bool

	raw    json.RawMessage
	filter json.RawMessage // unchecked, as those below; nil if there is none

	rate, paused, retry json.RawMessage
}

// Defaults and limits for a destination's settings.
const (
	defaultTimeout = 15
	defaultRetries = 8
	maxURL         = 2048
	maxHeaders     = 200
	maxConfig      = 64 << 10
)

// UnmarshalJSON decodes the settings and applies defaults to absent and null keys. Names match
// exactly, so that an unknown "URL" does not pass for "url". Call check to validate the values.
func (c *Config) UnmarshalJSON(text []byte) error {
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &keys); err != nil {
		return err
	}
	*c = Config{
		TimeoutSeconds: defaultTimeout, MaxRetries: defaultRetries, Concurrency: queue.DefaultConcurrency, raw: slices.Clone(text),
	}
	for name, value := range map[string]*json.RawMessage{"filter": &c.filter, "rate": &c.rate, "paused": &c.paused, "retry": &c.retry} {
		if isSet(keys[name]) {
			*value = keys[name]
		}
	}
	return errors.Join(
		pick(keys["url"], &c.URL), pick(keys["headers"], &c.Headers), pick(keys["disabled"], &c.Disabled),
		pick(keys["timeout_seconds"], (*whole)(&c.TimeoutSeconds)), pick(keys["max_retries"], (*whole)(&c.MaxRetries)),
		pick(keys["concurrency"], (*whole)(&c.Concurrency)))
}

// pick decodes a value unless it is absent or null.
func pick(value json.RawMessage, into any) error {
	if !isSet(value) {
		return nil
	}
	return json.Unmarshal(value, into)
}

// isSet reports whether a value is neither absent nor null.
func isSet(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// whole accepts an integer in any form JSON allows: 5, 5.0 or 5e0.
type whole int

func (w *whole) UnmarshalJSON(text []byte) error {
	var n float64
	if err := json.Unmarshal(text, &n); err != nil || n != math.Trunc(n) || math.Abs(n) > 1e9 {
		return errors.New("expected an integer")
	}
	*w = whole(n)
	return nil
}

// MarshalJSON returns the settings as the client sent them.
func (c Config) MarshalJSON() ([]byte, error) {
	if c.raw == nil {
		return []byte("{}"), nil
	}
	return c.raw, nil
}

// Schema documents the known keys. check repeats the ranges for settings that do not arrive over HTTP.
func (Config) Schema(huma.Registry) *huma.Schema {
	number := func(least, most, fallback float64, doc string) *huma.Schema {
		return &huma.Schema{Type: "integer", Minimum: &least, Maximum: &most, Default: fallback, Nullable: true, Description: doc}
	}
	text := &huma.Schema{Type: "string"}
	headers := maxHeaders
	s := &huma.Schema{Type: "object", AdditionalProperties: true, Required: []string{"url"}, Properties: map[string]*huma.Schema{
		"url": {Type: "string", Description: "An http or https URL", Examples: []any{"https://example.com/hook"}},
		"headers": {
			Type: "object", AdditionalProperties: text, MaxProperties: &headers, Nullable: true,
			Description: "Headers of every delivery",
		},
		"timeout_seconds": number(1, 60, defaultTimeout, "Timeout of one attempt"),
		"max_retries":     number(0, 20, defaultRetries, "Retries after the first attempt"),
		"concurrency":     number(1, 100, queue.DefaultConcurrency, "Deliveries at the same time; with 1 they arrive in order"),
		"disabled":        {Type: "boolean", Nullable: true, Description: "If true, nothing is forwarded"},
		"paused":          {Type: "boolean", Nullable: true, Description: "If true, nothing is attempted, and deliveries wait until it is false"},
		"rate": {
			Type: "object", AdditionalProperties: true, Nullable: true,
			Description: "How many attempts may begin: at most limit (1 to 1000) per second or minute",
			Examples:    []any{map[string]any{"limit": 10, "per": "second"}},
		},
		"retry": {
			Type: "object", AdditionalProperties: true, Nullable: true,
			Description: "When failed deliveries are attempted again: type exponential (delay_seconds, then twice as long each time, up to a day), linear (every delay_seconds) or list (delays_seconds, one for each retry). It ends after max_attempts (else max_retries or the list decide), or give_up_after_seconds after the request",
			Examples:    []any{map[string]any{"type": "list", "delays_seconds": []int{10, 60, 600}}},
		},
		"filter": {
			Type: "object", AdditionalProperties: true, Nullable: true,
			Description: "Which requests are forwarded: conditions on body, headers, query, path and method, with plain values or the operators $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $exist, $startsWith, $endsWith, $contains, $or, $and and $not",
		},
	}}
	s.Examples = []any{map[string]any{
		"url": "https://hooks.example.com/orders", "headers": map[string]any{"X-Tenant": "acme"}, "timeout_seconds": 15,
	}}
	s.PrecomputeMessages()
	return s
}

// check returns Invalid with every fault, or nil.
func (c Config) check() error {
	var faults errs.Faults
	c.inspect(&faults)
	return faults.Err()
}

func (c Config) inspect(faults *errs.Faults) {
	faults.Check(len(c.URL) <= maxURL && reachable(c.URL),
		"body.config.url", "expected an absolute http or https URL without user and password, of at most %d characters", maxURL)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		faults.Check(send.Sendable(name, c.Headers[name]),
			"body.config.headers."+name, "expected a valid HTTP header that is not reserved")
	}
	faults.Check(c.TimeoutSeconds >= 1 && c.TimeoutSeconds <= 60, "body.config.timeout_seconds", "expected 1 to 60")
	faults.Check(c.MaxRetries >= 0 && c.MaxRetries <= 20, "body.config.max_retries", "expected 0 to 20")
	faults.Check(c.Concurrency >= 1 && c.Concurrency <= 100, "body.config.concurrency", "expected 1 to 100")
	if c.filter != nil {
		_, err := filter.Compile(c.filter, "body.config.filter")
		faults.AddAll(err)
	}
	c.pace(faults)
	faults.Check(len(c.raw) <= maxConfig, "body.config", "expected at most %d bytes", maxConfig)
}

// reachable reports whether we could send requests to a URL.
func reachable(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0
}

// disable returns the settings with disabled set to true.
func (c Config) disable() (Config, error) {
	c.Disabled = true
	return c.edit(func(keys map[string]json.RawMessage) { keys["disabled"] = json.RawMessage("true") })
}

// mask replaces values that a caller may not see.
const mask = "***"

// masked returns the settings with every header value masked.
func (c Config) masked() (Config, error) {
	return c.mapHeaders(func(string, string) string { return mask })
}

// unmasked returns the settings with before's values wherever c has a mask: a caller who saw masked
// settings sends the masks back.
func (c Config) unmasked(before Config) (Config, error) {
	if !slices.Contains(slices.Collect(maps.Values(c.Headers)), mask) {
		return c, nil
	}
	return c.mapHeaders(func(name, value string) string {
		if kept, ok := before.Headers[name]; ok && value == mask {
			return kept
		}
		return value
	})
}

// mapHeaders returns the settings with each header value mapped.
func (c Config) mapHeaders(value func(name, value string) string) (Config, error) {
	headers := make(map[string]string, len(c.Headers))
	for name, before := range c.Headers {
		headers[name] = value(name, before)
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return c, fmt.Errorf("encode headers: %w", err)
	}
	c.Headers = headers
	return c.edit(func(keys map[string]json.RawMessage) {
		if len(headers) > 0 {
			keys["headers"] = text
		}
	})
}

// edit returns the settings with their JSON changed. Afterwards each key appears once.
func (c Config) edit(change func(keys map[string]json.RawMessage)) (Config, error) {
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(c.raw, &keys); err != nil {
		return c, fmt.Errorf("decode config: %w", err)
	}
	change(keys)
	text, err := json.Marshal(keys)
	if err != nil {
		return c, fmt.Errorf("encode config: %w", err)
	}
	c.raw = text
	return c, nil
}

// NewDestination is the body of a create request.
type NewDestination struct {
	Type     string            `json:"type" doc:"url; http and webhook mean the same" example:"url"`
	Config   Config            `json:"config"`
	Internal bool              `json:"-"`
	Metadata map[string]string `json:"-"`
}

// build returns a destination with a new secret, or Invalid.
func (n NewDestination) build(now time.Time) (Destination, error) {
	d := Destination{
		ID: id.At(id.Destination, now), CreatedAt: stamp.Of(now), UpdatedAt: stamp.Of(now), Type: n.Type, Config: n.Config,
		Internal: n.Internal, Secret: newSecret(), version: 1,
	}
	if n.Metadata != nil {
		text, err := json.Marshal(n.Metadata)
		if err != nil {
			return Destination{}, err
		}
		d.Metadata = text
	}
	var faults errs.Faults
	n.Check(&faults)
	return d, faults.Err()
}

// Check implements web.Checked.
func (n NewDestination) Check(faults *errs.Faults) {
	faults.Check(slices.Contains(types, n.Type), "body.type", "expected one of %s", strings.Join(types, ", "))
	n.Config.inspect(faults)
}

// DestinationPatch is a partial update.
type DestinationPatch struct {
	Config page.Opt[Config] `json:"config,omitempty" required:"false" doc:"Replaces all settings; if it is missing nothing changes"`
}

// Check implements web.Checked.
func (p DestinationPatch) Check(faults *errs.Faults) {
	if c := p.Config.Ptr(); c != nil {
		c.inspect(faults)
	}
}

const secretPrefix = "whsec_"

// newSecret returns a Standard Webhooks secret with 32 random bytes.
func newSecret() string {
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}
