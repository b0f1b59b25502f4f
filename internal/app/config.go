package app

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	RequirePKCE           bool
	RootKey               Secret // "": one is made
	MasterKey             Secret // 32 raw bytes; "": one is made in Data
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
		{"s3-listen", "`address` of the S3 listener", "127.0.0.1:9000", plain, into(&c.S3Listen, address)},
		{"kv-listen", "`address` of the Redis listener", "127.0.0.1:6380", plain, into(&c.KVListen, address)},
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
		{"require-pkce", "demand PKCE of confidential OAuth clients, too", "false", boolean, into(&c.RequirePKCE, truth)},
		{"root-key", "first API key of an empty installation, 20 or more characters (unset: one is made and printed once)", "", secret, into(&c.RootKey, rootKey)},
		{"master-key", "key that seals secrets at rest, 32 bytes in base64 or hex (unset: one is made in the data directory)", "", secret, into(&c.MasterKey, masterKey)},
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

// yamlFile reads a file node by node, since a decoder into structs names neither lines nor all faults.
type yamlFile struct {
	name   string
	faults *errs.Faults
}

func (f yamlFile) label(key string, n *yaml.Node) string {
	return fmt.Sprintf("%s (%s, line %d)", key, f.name, n.Line)
}

func (f yamlFile) fault(key string, n *yaml.Node, format string, args ...any) {
	f.faults.Add(f.label(key, n), format, args...)
}

// parse gives the top of the document; an empty file is an empty mapping.
func (f yamlFile) parse(content []byte) *yaml.Node {
	var doc, rest yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	empty := &yaml.Node{Kind: yaml.MappingNode}
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return empty
	} else if err != nil {
		f.faults.Add(f.name, "must be YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return empty
	}
	if !errors.Is(decoder.Decode(&rest), io.EOF) {
		f.faults.Add(f.name, "must be a single YAML document")
	}
	if top := doc.Content[0]; top.Tag != "!!null" {
		return top
	}
	return empty
}

// entries walks a mapping. The path, "" at the top, goes before its keys in faults.
func (f yamlFile) entries(n *yaml.Node, path string, each func(key string, value *yaml.Node)) {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		f.fault(cmp.Or(strings.TrimSuffix(path, "."), "the file"), n, "must have the form `key: value`")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], target(n.Content[i+1])
		if seen[key.Value] {
			f.fault(path+key.Value, key, "must be given once")
			continue
		}
		seen[key.Value] = true
		each(key.Value, value)
	}
}

// scalar gives a single value as the text that stands in the file, so that it is parsed like a flag. Not ok is a fault, already noted.
func (f yamlFile) scalar(key string, n *yaml.Node, orList bool) (text string, ok bool) {
	n = target(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", true
	case n.Kind == yaml.ScalarNode:
		return n.Value, true
	case n.Kind == yaml.SequenceNode && orList:
		return f.joined(key, n)
	}
	f.fault(key, n, "must be a single value")
	return "", false
}

// joined gives a list in the form that a flag would have.
func (f yamlFile) joined(key string, n *yaml.Node) (text string, ok bool) {
	var items []string
	for _, item := range n.Content {
		text, ok := f.scalar(key, item, false)
		if !ok {
			return "", false
		}
		items = append(items, text)
	}
	return strings.Join(items, ","), true
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

var regionForm = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// regions reads the list of regions; none when it is empty.
func (f yamlFile) regions(n *yaml.Node) []Region {
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.fault(regionsKey, n, "must be a list of `{region: …, description: …}`")
		return nil
	}
	var all []Region
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d].", regionsKey, i)
		r := f.region(item, path)
		same := func(other Region) bool { return other.Region == r.Region }
		if !regionForm.MatchString(r.Region) {
			f.fault(path+"region", item, "must be 1 to 32 characters of a-z, 0-9 and -")
		} else if slices.ContainsFunc(all, same) {
			f.fault(path+"region", item, "must differ from the regions before it")
		}
		all = append(all, r)
	}
	return all
}

func (f yamlFile) region(n *yaml.Node, path string) (r Region) {
	f.entries(n, path, func(key string, value *yaml.Node) {
		switch key {
		case "region":
			r.Region, _ = f.scalar(path+key, value, false)
		case "description":
			r.Description, _ = f.scalar(path+key, value, false)
		default:
			f.fault(path+key, value, "is not a setting%s", didYouMean(key, []string{"region", "description"}))
		}
	})
	return r
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

// into parses a text into a field.
func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		value, err := parse(text)
		if err == nil {
			*field = value
		}
		return err
	}
}

// optional takes an empty text for the zero value.
func optional[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (zero T, err error) {
		if text == "" {
			return zero, nil
		}
		return parse(text)
	}
}

// must is a parser's answer: the value when ok, else what would be right.
func must[T any](ok bool, value T, right string) (T, error) {
	if !ok {
		var zero T
		return zero, errors.New("must be " + right)
	}
	return value, nil
}

func filePath(v string) (string, error) {
	return must(strings.TrimSpace(v) != "" && !strings.ContainsRune(v, 0), v, "a path")
}

var hostForm = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

func isHost(v string) bool {
	_, err := netip.ParseAddr(v)
	// Without a letter it is an IP address with a typo.
	return err == nil || len(v) <= 253 && hostForm.MatchString(strings.ToLower(v)) && strings.ContainsFunc(v, unicode.IsLetter)
}

func address(v string) (string, error) {
	host, port, err := net.SplitHostPort(v)
	_, portErr := strconv.ParseUint(port, 10, 16)
	ok := err == nil && portErr == nil && (host == "" || isHost(host))
	return must(ok, v, "host:port, such as 127.0.0.1:8080 or [::1]:8080; port 0 takes a free one")
}

// origin parses a URL that has nothing behind its host.
func origin(schemes ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		u, err := url.Parse(v)
		ok := err == nil && slices.Contains(schemes, u.Scheme) && isHost(u.Hostname()) && u.User == nil &&
			(u.Path == "" || u.Path == "/") && !strings.ContainsAny(v, "?#") && isPort(u)
		if !ok {
			u = &url.URL{}
		}
		right := strings.Join(schemes, ":// or ") + ":// and a host, without user, path, query or fragment"
		return must(ok, u.Scheme+"://"+strings.ToLower(u.Host), right)
	}
}

// isPort tells whether a URL has a usable port or none; url.Parse takes any digits, and a colon without them.
func isPort(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0 || u.Port() == "" && !strings.HasSuffix(u.Host, ":")
}

func domain(v string) (string, error) {
	_, err := netip.ParseAddr(v)
	return must(err != nil && isHost(v), strings.ToLower(v), "a domain name, such as s3.example.com, without scheme and port")
}

func databaseURL(v string) (Secret, error) {
	u, err := url.Parse(v) // its error would show the password
	ok := err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && u.Opaque == ""
	return must(ok, Secret(v), "postgres://user:password@host:port/database")
}

func logFormat(v string) (LogFormat, error) {
	f := LogFormat(v)
	return must(f == LogText || f == LogJSON, f, "text or json")
}

func logLevel(v string) (slog.Level, error) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[v]
	return must(ok, level, "debug, info, warn or error")
}

func rate(v string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	return must(err == nil && n >= 0 && !math.IsInf(n, 0), n, "a number, 0 or more")
}

func ingestLimit(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	// A row of SQLite holds 10^9 bytes, and a body comes with headers and the rest of its receipt.
	return must(err == nil && n >= 1 && n <= 1<<29, n, "a number of bytes from 1 to 536870912")
}

// duration knows days, too, which Go's own form does not: 30d, 1d12h.
func duration(v string) (time.Duration, error) {
	const day = 24 * time.Hour
	head, rest, hasDays := strings.Cut(v, "d")
	days, err := uint64(0), error(nil)
	if hasDays {
		days, err = strconv.ParseUint(head, 10, 16) // so few that a sum that overflows is negative, and refused
	} else {
		rest = v
	}
	var d time.Duration
	if rest != "" || !hasDays {
		var restErr error
		d, restErr = time.ParseDuration(rest)
		err = errors.Join(err, restErr)
	}
	d += time.Duration(days) * day
	return must(err == nil && d > 0, d, "a time above zero, such as 30d, 12h or 1d12h")
}

func prefixes(v string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	ok := true
	for item := range strings.SplitSeq(v, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(item))
		// 10.1.2.3/8 opens more than its writer saw; an IPv4 address in IPv6 form would match nothing.
		ok = ok && err == nil && p == p.Masked() && !p.Addr().Is4In6()
		all = append(all, p)
	}
	return must(ok, all, "networks with commas between, such as 10.0.0.0/8,fd00::/8, with zeros behind the prefix; one address is 10.1.2.3/32")
}

func truth(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	return must(err == nil, b, "true or false")
}

// rootKey takes what can travel in an Authorization header.
func rootKey(v string) (Secret, error) {
	unfit := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	ok := utf8.ValidString(v) && utf8.RuneCountInString(v) >= 20 && !strings.ContainsFunc(v, unfit)
	return must(ok, Secret(v), "20 or more characters, without spaces")
}

func masterKey(v string) (Secret, error) {
	decoders := []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if key, err := decode(v); err == nil && len(key) == 32 {
			return Secret(key), nil
		}
	}
	return must(false, Secret(""), "32 bytes in base64 or hex; `openssl rand -base64 32` makes one")
}

func email(v string) (string, error) {
	a, err := mail.ParseAddress(v)
	return must(err == nil && a.Address == v, v, "an e-mail address, such as owner@example.com")
}

func password(v string) (Secret, error) {
	return must(utf8.ValidString(v) && utf8.RuneCountInString(v) >= 8, Secret(v), "8 or more characters")
}
