package webhook

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
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
)

// Destination is where a webhook's requests are forwarded to.
type Destination struct {
	ID        string          `json:"id" example:"whds_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	CreatedAt stamp.Time      `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time      `json:"updated_at" format:"date-time"`
	CreatedBy string          `json:"created_by"`
	WebhookID string          `json:"webhook_id"`
	Type      string          `json:"type" doc:"Always an HTTP request; the name that was sent is kept" example:"url"`
	Config    Config          `json:"config"`
	Internal  bool            `json:"internal"`
	Metadata  json.RawMessage `json:"metadata"`
	Secret    string          `json:"secret,omitempty" doc:"Signs what is sent (Standard Webhooks); shown at create only"`

	orgID   string
	sealed  []byte
	version int64
}

// ETag is the row's version.
func (d Destination) ETag() string { return page.ETag(d.version) }

// types are the names for the one type that there is.
var types = []string{"url", "http", "webhook"}

// Config is a destination's settings. Keys that are not ours are kept and given back.
type Config struct {
	URL            string
	Headers        map[string]string
	TimeoutSeconds int
	MaxRetries     int
	Concurrency    int
	Disabled       bool

	raw json.RawMessage
}

// Defaults of a destination's settings.
const (
	defaultTimeout     = 15
	defaultRetries     = 8
	defaultConcurrency = 10
	maxURL             = 2048
	maxConfig          = 64 << 10
)

// UnmarshalJSON reads the settings; keys of ours that are absent or null have their defaults. Names are compared as they are, for what
// is shown must be what holds: a struct's fields would take "URL" for "url". Values are checked by check.
func (c *Config) UnmarshalJSON(text []byte) error {
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &keys); err != nil {
		return err
	}
	*c = Config{
		TimeoutSeconds: defaultTimeout, MaxRetries: defaultRetries, Concurrency: defaultConcurrency, raw: slices.Clone(text),
	}
	return errors.Join(
		pick(keys["url"], &c.URL), pick(keys["headers"], &c.Headers), pick(keys["disabled"], &c.Disabled),
		pick(keys["timeout_seconds"], (*whole)(&c.TimeoutSeconds)), pick(keys["max_retries"], (*whole)(&c.MaxRetries)),
		pick(keys["concurrency"], (*whole)(&c.Concurrency)))
}

// pick reads the value of a key that is there and not null.
func pick(value json.RawMessage, into any) error {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	return json.Unmarshal(value, into)
}

// whole is a whole number in any way that JSON writes one: 5, 5.0 and 5e0 are the same.
type whole int

func (w *whole) UnmarshalJSON(text []byte) error {
	var n float64
	if err := json.Unmarshal(text, &n); err != nil || n != math.Trunc(n) || math.Abs(n) > 1e9 {
		return errors.New("expected a whole number")
	}
	*w = whole(n)
	return nil
}

// MarshalJSON gives back what was sent.
func (c Config) MarshalJSON() ([]byte, error) {
	if c.raw == nil {
		return []byte("{}"), nil
	}
	return c.raw, nil
}

// Schema documents the keys that are ours. The ranges stand here and in check, which also guards what does not come by HTTP.
func (Config) Schema(huma.Registry) *huma.Schema {
	number := func(least, most, fallback float64, doc string) *huma.Schema {
		return &huma.Schema{Type: "integer", Minimum: &least, Maximum: &most, Default: fallback, Nullable: true, Description: doc}
	}
	text := &huma.Schema{Type: "string"}
	s := &huma.Schema{Type: "object", AdditionalProperties: true, Required: []string{"url"}, Properties: map[string]*huma.Schema{
		"url":             {Type: "string", Description: "An http or https URL", Examples: []any{"https://example.com/hook"}},
		"headers":         {Type: "object", AdditionalProperties: text, Nullable: true, Description: "Sent with every delivery"},
		"timeout_seconds": number(1, 60, defaultTimeout, "For one delivery as a whole"),
		"max_retries":     number(0, 20, defaultRetries, "Attempts after the first one"),
		"concurrency":     number(1, 100, defaultConcurrency, "Deliveries at the same time; 1 makes them arrive in order"),
		"disabled":        {Type: "boolean", Nullable: true, Description: "Nothing is forwarded while true"},
	}}
	s.PrecomputeMessages()
	return s
}

// reserved are headers that a destination's settings cannot set: the transport and the signature own them.
var reserved = []string{
	"host", "content-length", "connection", "transfer-encoding", "trailer", "upgrade", "te", "keep-alive", "proxy-connection",
	"webhook-id", "webhook-timestamp", "webhook-signature", "steward-delivery", "steward-attempt",
}

// check gives Invalid with every fault, or nil.
func (c Config) check() error {
	var faults errs.Faults
	c.inspect(&faults)
	return faults.Err()
}

func (c Config) inspect(faults *errs.Faults) {
	faults.Check(len(c.URL) <= maxURL && reachable(c.URL),
		"body.config.url", "expected an absolute http or https URL without user and password, of at most %d characters", maxURL)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		faults.Check(sendable(name, c.Headers[name]),
			"body.config.headers."+name, "expected a name and a value that HTTP allows, and no header that is set for every delivery")
	}
	faults.Check(c.TimeoutSeconds >= 1 && c.TimeoutSeconds <= 60, "body.config.timeout_seconds", "expected 1 to 60")
	faults.Check(c.MaxRetries >= 0 && c.MaxRetries <= 20, "body.config.max_retries", "expected 0 to 20")
	faults.Check(c.Concurrency >= 1 && c.Concurrency <= 100, "body.config.concurrency", "expected 1 to 100")
	faults.Check(len(c.raw) <= maxConfig, "body.config", "expected at most %d bytes", maxConfig)
}

// reachable tells whether a URL has a form that requests can be sent to.
func reachable(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0
}

// sendable tells whether a header may be set and has a name, in whatever case, and a value of the form that HTTP allows.
func sendable(name, value string) bool {
	for i := range len(name) {
		if lowerToken[name[i]] == 0 {
			return false
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return name != "" && !slices.Contains(reserved, strings.ToLower(name))
}

// disable gives the settings with disabled set, whatever else they hold.
func (c Config) disable() (Config, error) {
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(c.raw, &keys); err != nil {
		return c, err
	}
	keys["disabled"] = json.RawMessage("true")
	text, err := json.Marshal(keys)
	c.raw, c.Disabled = text, true
	return c, err
}

// NewDestination is what it takes to make a destination.
type NewDestination struct {
	Type     string            `json:"type" doc:"url; http and webhook mean the same" example:"url"`
	Config   Config            `json:"config"`
	Internal bool              `json:"-"`
	Metadata map[string]string `json:"-"`
}

// build makes the destination's row with a fresh secret, or Invalid.
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
	faults.Check(slices.Contains(types, n.Type), "body.type", "expected one of %s", strings.Join(types, ", "))
	n.Config.inspect(&faults)
	return d, faults.Err()
}

const secretPrefix = "whsec_"

// newSecret makes a Standard Webhooks secret of 32 random bytes.
func newSecret() string {
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}
