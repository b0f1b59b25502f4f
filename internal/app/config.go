package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"steward/internal/errs"
)

// Config is everything that a start can be told, already checked. A zero field means "not set" unless its comment says otherwise.
type Config struct {
	ConfigFile string
	Data       string
	// The listeners' addresses are host:port. Port 0 stands for a free one, an empty host for all interfaces.
	Listen, S3Listen, KVListen string
	MetricsListen              string // "": no metrics listener
	// The URLs have no path and no trailing slash, so that a path can be appended. "": made from the real address.
	BaseURL, S3URL, KVURL string
	S3Domain              string // "": path-style only
	DatabaseURL           Secret // "": SQLite in Data
	LogFormat             LogFormat
	LogLevel              slog.Level
	RateLimit             float64 // requests per second and key; 0: no limit
	IngestLimit           int64   // bytes
	WebhookRetention      time.Duration
	ThreadRetention       time.Duration
	EgressAllow           []netip.Prefix
	TrustedProxies        []netip.Prefix
	RequirePKCE           bool
	RootKey               Secret // "": one is made
	MasterKey             Secret // 32 raw bytes; "": one is made in Data
	OldMasterKeys         []Secret
	AdminEmail            string
	AdminPassword         Secret   // only with AdminEmail
	Regions               []Region // never empty
}

// LogFormat is how log lines are written.
type LogFormat string

// The log formats.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Region is a place where resources can be made.
type Region struct{ Region, Description string }

// Secret is text that no log line, error or dump may show. A conversion to string gives the text.
type Secret string

// Format hides the text from every verb of fmt.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "(secret)") }

// MarshalText hides the text from JSON and slog.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// kind says where a setting can be given, and how.
type kind int

const (
	plain   kind = iota
	boolean      // as a flag it needs no value
	list         // in the file it may be a list, too
	outside      // not in the file
	secret       // never a flag, which every user of the machine can read; in the environment, or in a file of its own
)

// setting is one line of the table. Its flag, environment variable, file key and help all come from here.
type setting struct {
	name  string // as a flag, without dashes
	usage string // the word in backquotes stands for the value in the help
	value string // the default; "" leaves the zero value
	kind  kind
	set   func(text string) error // the error says what would be right, and never shows the text
}

// settings is the table, with c to parse into.
func settings(c *Config) []setting {
	return []setting{
		{"config", "YAML `file` with settings", "", outside, into(&c.ConfigFile, filePath)},
		{"data", "`directory` of everything that is kept", "./steward-data", plain, into(&c.Data, filePath)},
		{"listen", "`address` of the API and the console", "127.0.0.1:8080", plain, into(&c.Listen, address)},
		{"s3-listen", "`address` of the S3 listener (object storage is not served yet)", "127.0.0.1:9000", plain, into(&c.S3Listen, address)},
		{"kv-listen", "`address` of the Redis listener (key-value stores are not served yet)", "127.0.0.1:6380", plain, into(&c.KVListen, address)},
		{"metrics-listen", "`address` of metrics and pprof; empty turns them off", "127.0.0.1:9464", plain, into(&c.MetricsListen, optional(address))},
		{"base-url", "`URL` of the API as users see it (empty: http:// and the real address)", "", plain, into(&c.BaseURL, optional(origin("http", "https")))},
		{"s3-url", "`URL` of the S3 listener as users see it (empty: its real address)", "", plain, into(&c.S3URL, optional(origin("http", "https")))},
		{"kv-url", "`URL` of the Redis listener as users see it (empty: its real address)", "", plain, into(&c.KVURL, optional(origin("redis", "rediss")))},
		{"s3-domain", "`domain` below which each bucket is a host name (empty: path-style only)", "", plain, into(&c.S3Domain, optional(domain))},
		{"database-url", "`URL` of a PostgreSQL database (empty: SQLite in the data directory)", "", plain, into(&c.DatabaseURL, optional(databaseURL))},
		{"log-format", "`format` of the log: text or json", "text", plain, into(&c.LogFormat, logFormat)},
		{"log-level", "least `level` that is logged: debug, info, warn or error", "info", plain, into(&c.LogLevel, logLevel)},
		{"rate-limit", "requests per second that each API key may make; `n` = 0 turns the limit off", "0", plain, into(&c.RateLimit, rate)},
		{"ingest-limit", "largest webhook body that is taken, in `bytes`", "1048576", plain, into(&c.IngestLimit, ingestLimit)},
		{"webhook-retention", "`time` for which receipts and deliveries are kept", "30d", plain, into(&c.WebhookRetention, duration)},
		{"thread-retention", "`time` for which deleted threads are kept", "30d", plain, into(&c.ThreadRetention, duration)},
		{"egress-allow", "private networks that webhooks may be sent to: `CIDRs` with commas between", "", list, into(&c.EgressAllow, optional(prefixes))},
		{"trusted-proxies", "reverse proxies whose X-Forwarded-For is believed: `CIDRs` with commas between", "", list, into(&c.TrustedProxies, optional(prefixes))},
		{"require-pkce", "demand PKCE of confidential OAuth clients, too", "false", boolean, into(&c.RequirePKCE, truth)},
		{"root-key", "first API key of an empty installation, 20 or more characters (unset: one is made and printed once)", "", secret, into(&c.RootKey, rootKey)},
		{"master-key", "key that seals secrets at rest, 32 bytes in base64 or hex (unset: one is made in the data directory)", "", secret, into(&c.MasterKey, masterKey)},
		{"old-master-keys", "earlier master keys with commas between: they open what they have sealed", "", secret, into(&c.OldMasterKeys, masterKeys)},
		{"admin-email", "e-mail address of the first owner", "", secret, into(&c.AdminEmail, email)},
		{"admin-password", "password of the first owner, 8 or more characters", "", secret, into(&c.AdminPassword, password)},
	}
}

const (
	envPrefix  = "STEWARD_"
	regionsKey = "regions" // in the file only, since it is more than one value
)

func (s setting) flag() string { return "--" + s.name }
func (s setting) env() string  { return envPrefix + strings.ToUpper(s.key()) }
func (s setting) key() string  { return strings.ReplaceAll(s.name, "-", "_") }

func (s setting) flags() []string {
	if s.kind == secret {
		return nil
	}
	return []string{s.flag()}
}

func (s setting) envs() []string {
	if s.kind == secret {
		return []string{s.env(), s.env() + "_FILE"}
	}
	return []string{s.env()}
}

func (s setting) keys() []string {
	switch s.kind {
	case outside:
		return nil
	case secret:
		return []string{s.key() + "_file"}
	}
	return []string{s.key()}
}

// names collects one form of the names of all settings.
func names(table []setting, form func(setting) []string) []string {
	var all []string
	for _, s := range table {
		all = append(all, form(s)...)
	}
	return all
}

// Load makes the configuration from flags (those that were set, by name without dashes), then the environment (as os.Environ gives
// it), then the YAML file, then defaults. A name that is given but empty counts as given: an empty STEWARD_MASTER_KEY is more likely a
// secret that failed to mount than a wish for a new key.
//
// The error is an errs.Invalid with every fault at once; it shows names and never values.
func Load(flags map[string]string, environ []string) (Config, error) {
	c := Config{Regions: []Region{{"local", "This machine"}}}
	l := loader{table: settings(&c), flags: flags, env: ours(environ), file: map[string]given{}, labels: map[string]string{}}
	l.refuseUnknown()
	l.readFile(&c)
	for _, s := range l.table {
		l.apply(s)
	}
	if label := l.labels["admin-password"]; label != "" && l.labels["admin-email"] == "" {
		l.faults.Add(label, "needs STEWARD_ADMIN_EMAIL, which says whose password it is")
	}
	return c, l.err()
}

type loader struct {
	table  []setting
	flags  map[string]string
	env    map[string]string
	file   map[string]given  // by key
	labels map[string]string // of the settings that were given, by name
	faults errs.Faults
}

// given is a value, with the name by which the user gave it.
type given struct{ label, text string }

func (l *loader) err() error {
	var e *errs.Error
	if !errors.As(l.faults.Err(), &e) {
		return nil
	}
	e.Message = "the configuration has faults"
	return e
}

// apply sets one setting from the highest place that has it.
func (l *loader) apply(s setting) {
	g, ok := l.find(s)
	switch {
	case ok:
		l.labels[s.name] = g.label
	case s.value == "":
		return
	default:
		g = given{"the default of " + s.name, s.value}
	}
	if err := s.set(g.text); err != nil {
		l.faults.Add(g.label, "%v", err)
	}
}

func (l *loader) find(s setting) (given, bool) {
	if text, ok := l.flags[s.name]; ok && s.kind != secret {
		return given{s.flag(), text}, true
	}
	if text, ok := l.env[s.env()]; ok {
		return given{s.env(), text}, true
	}
	if s.kind == secret {
		return l.findByPath(s)
	}
	g, ok := l.file[s.key()]
	return g, ok
}

// findByPath reads a secret from the file that the environment or the configuration file names, as container platforms mount them.
func (l *loader) findByPath(s setting) (given, bool) {
	path, ok := l.file[s.key()+"_file"]
	if text, fromEnv := l.env[s.env()+"_FILE"]; fromEnv {
		path, ok = given{s.env() + "_FILE", text}, true
	}
	if !ok {
		return given{}, false
	}
	content, err := os.ReadFile(path.text)
	if err != nil {
		l.faults.Add(path.label, "must be the path of a readable file: %v", reason(err))
		return given{}, false
	}
	return given{path.label, strings.TrimRight(string(content), "\r\n")}, true
}

// reason is an error of a file without its path: who mixes up STEWARD_X and STEWARD_X_FILE has put a secret there.
func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// refuseUnknown looks for flags and environment variables that are no setting. Those of the file are refused as it is read.
func (l *loader) refuseUnknown() {
	for _, name := range slices.Sorted(maps.Keys(l.flags)) {
		if known := names(l.table, setting.flags); !slices.Contains(known, "--"+name) {
			l.faults.Add("--"+name, "%s", unknownFlag("--"+name, known, "steward serve"))
		}
	}
	known := names(l.table, setting.envs)
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		l.faults.Check(slices.Contains(known, name), name, "is not a setting%s", didYouMean(name, known))
	}
	for _, s := range l.table {
		_, direct := l.env[s.env()]
		_, byPath := l.env[s.env()+"_FILE"]
		l.faults.Check(s.kind != secret || !direct || !byPath, s.env()+"_FILE", "must not be set together with %s", s.env())
	}
}

// unknownFlag words why a flag is refused. A secret is told where it belongs.
func unknownFlag(flag string, known []string, command string) string {
	for _, s := range settings(&Config{}) {
		if s.kind == secret && s.flag() == flag {
			return fmt.Sprintf("is not a flag, since every user of the machine can read those: set %s, or %s_FILE to the path of a file", s.env(), s.env())
		}
	}
	return "is not a flag" + cmp.Or(nearest(flag, known), "; `"+command+" --help` lists them")
}

// kubernetes matches what Kubernetes adds to the environment when a Service is called `steward` or `steward-…`.
var kubernetes = regexp.MustCompile(`^STEWARD_([^=]*_)?(SERVICE_HOST=|SERVICE_PORT(_[^=]*)?=|PORT_\d+_(TCP|UDP|SCTP)(_[^=]*)?=|PORT=(tcp|udp|sctp)://)`)

// ours picks Steward's variables from an environment. Those for its tests, and those that Kubernetes adds, are nobody's settings.
func ours(environ []string) map[string]string {
	env := map[string]string{}
	for _, line := range environ {
		name, text, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, envPrefix+"TEST_") && !kubernetes.MatchString(line) {
			env[name] = text
		}
	}
	return env
}

// readFile takes the values of the YAML file, if one was named.
func (l *loader) readFile(c *Config) {
	where, ok := l.find(l.table[slices.IndexFunc(l.table, func(s setting) bool { return s.name == "config" })])
	if !ok || where.text == "" { // an empty one is refused in its turn
		return
	}
	content, err := os.ReadFile(where.text)
	if err != nil {
		l.faults.Add(where.label, "must be the path of a readable file: %v", reason(err))
		return
	}
	file := yamlFile{name: filepath.Base(where.text), faults: &l.faults}
	file.entries(file.parse(content), "", func(key string, value *yaml.Node) { l.takeKey(c, file, key, value) })
}

// takeKey takes one entry of the YAML file.
func (l *loader) takeKey(c *Config, file yamlFile, key string, value *yaml.Node) {
	if key == regionsKey {
		if regions := file.regions(value); len(regions) > 0 {
			c.Regions = regions
		}
		return
	}
	for _, s := range l.table {
		if slices.Contains(s.keys(), key) {
			if text, ok := file.scalar(key, value, s.kind == list); ok {
				l.file[key] = given{file.label(key, value), text}
			}
			return
		}
		if s.kind == secret && s.key() == key {
			file.fault(key, value, "must not stand in this file: set %s_file to the path of a file of its own, or %s", key, s.env())
			return
		}
	}
	file.fault(key, value, "is not a setting%s", didYouMean(key, append(names(l.table, setting.keys), regionsKey)))
}

// didYouMean ends the refusal of a name with what would be right: the nearest one, or where to look.
func didYouMean(name string, known []string) string {
	return cmp.Or(nearest(name, known), "; `steward serve --help` lists them")
}

// nearest asks for the known name that is most like the given one; "" when none is like it.
func nearest(name string, known []string) string {
	bare := func(s string) string {
		return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(s, envPrefix), "--"))
	}
	question, least := "", max(2, len(bare(name))/3)+1
	for _, k := range known {
		if d := distance(bare(name), bare(k)); d < least {
			question, least = "; did you mean "+k+"?", d
		}
	}
	return question
}

// distance is Levenshtein's: how many bytes to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
