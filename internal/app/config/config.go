// Package config reads and checks the program's configuration: flags, environment, YAML file and
// defaults. One table of settings makes them all, with their help.
package config

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/app/datadir"
	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/object"
	"steward/internal/oidc/registration"
)

// Config is a process's checked configuration. A zero field means "not set" unless its comment says
// otherwise.
type Config struct {
	ConfigFile string
	Data       string
	// Listen, S3Listen and KVListen are host:port. Port 0 is a free port, an empty host all
	// interfaces.
	Listen, S3Listen, KVListen string
	// ListenGiven is true if the user has said where the API listens, even if that is the default.
	ListenGiven   bool
	MetricsListen string // "": no metrics listener
	// TLSCert and TLSKey are the paths to a certificate and its key. ACMEDomains are the names to
	// obtain certificates for instead. Without both, the listeners serve plain connections.
	TLSCert, TLSKey   string
	ACMEDomains       []string
	ACMECA, ACMEEmail string // "": Let's Encrypt; no address
	RedirectListen    string // "": no listener that redirects to BaseURL
	ClientCA          string // path to the CA for S3 and key-value clients; "": they need no certificate
	// InternalListen is where other replicas connect, and InternalAdvertise the address that we tell
	// them. "": no listener, and the listener's address.
	InternalListen, InternalAdvertise string
	// BaseURL, S3URL and KVURL have neither a path nor a trailing slash. "": derived from the
	// listener's address.
	BaseURL, S3URL, KVURL string
	S3Domain              string  // "": path-style only
	DatabaseURL           Secret  // "": SQLite in Data
	DatabasePooler        string  // "": none
	OTLPEndpoint          string  // "": no traces are exported
	TraceRatio            float64 // from 0 to 1
	LogFormat             LogFormat
	LogLevel              slog.Level
	RateLimit             float64 // requests per second and key; 0: no limit
	IngestLimit           int64   // bytes
	DiskReserve           int64   // bytes
	KVMemory              int64   // bytes; 0: a share of the process's memory
	KVStoreMemory         int64   // bytes
	WebhookRetention      time.Duration
	ThreadRetention       time.Duration
	DrainDelay            time.Duration // may be 0
	AuditRetention        time.Duration
	EgressAllow           []netip.Prefix
	TrustedProxies        []netip.Prefix
	SessionIdle           time.Duration
	SessionMax            time.Duration
	UpstreamDomains       map[string]string // domain → organization; "": the first one
	RequirePKCE           bool
	Registration          registration.Mode
	BlobURL               *blob.S3Options // nil: files in Data
	BlobAccessKey         Secret          // with BlobURL
	BlobSecretKey         Secret          // with BlobURL
	StoragePrices         map[object.Tier]float64
	PresignExpiry         time.Duration
	DPoPNonce             bool
	SMTPURL               Secret // "": no mail is sent
	MailFrom              string // with SMTPURL
	BackupTo              string // directory or s3:// URL; "": no scheduled backups
	BackupSchedule        backup.Schedule
	BackupKeep            int
	BackupRecipients      string // one on each line; "": scheduled backups are not encrypted
	OpenOrganizations     bool
	// Force makes the server use a database whose rows were moved away, or create one in a data
	// directory that was used with PostgreSQL. It is not a setting, but a flag for one start.
	Force            bool
	RootKey          Secret // "": generated
	MasterKey        Secret // 32 raw bytes; "": in a file in Data, generated at the first start
	MasterKeyCommand string // "": none; its output is the master key
	OldMasterKeys    []Secret
	AdminEmail       string
	AdminPassword    Secret   // only with AdminEmail
	Regions          []Region // never empty
}

// Database returns the database's options.
func (c Config) Database() db.Options {
	return db.Options{Path: datadir.DatabaseFile(c.Data), URL: string(c.DatabaseURL), Pooler: c.DatabasePooler}
}

// OnlyLocal reports whether no other machine can reach the API at a base URL: it listens on
// loopback, its base URL is on loopback, and it trusts no proxy.
func (c Config) OnlyLocal(baseURL string) bool {
	base, err := url.Parse(baseURL)
	if err != nil || !isLoopback(base.Hostname()) || len(c.TrustedProxies) > 0 {
		return false
	}
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && isLoopback(host)
}

// isLoopback reports whether only this machine can reach a host.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// LogFormat is the format of log lines.
type LogFormat string

// The log formats.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Secret is text that must not appear in logs, errors and dumps. Convert it to string to read it.
type Secret string

// hidden is shown in place of a secret.
const hidden = "(secret)"

// Format implements fmt.Formatter; it hides the text from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler; it hides the text from JSON and slog.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// kind tells where and how users can give a setting.
type kind int

const (
	plain     kind = iota // flag, environment, file
	boolean               // a flag without a value means true
	list                  // in the file, a sequence as well
	notInFile             // flag or environment, not in the file
	secret                // environment, or the path to a file with the value
)

// setting is an entry in the table that flags, variables, file keys and help come from.
type setting struct {
	name  string // the flag's, without dashes
	value string // the default; "" leaves the zero value
	kind  kind
	set   func(text string) error // the error names the allowed values and never contains the text
	usage string                  // the word in backquotes is the value in the help
}

// settings returns the table of settings. They parse into c.
func settings(c *Config) []setting {
	return []setting{
		{"config", "", notInFile, into(&c.ConfigFile, filePath), "YAML `file` with settings"},
		{"data", "./steward-data", plain, into(&c.Data, filePath), "data `directory`"},
		{"listen", "127.0.0.1:8080", plain, into(&c.Listen, address), "listen `address` of the API"},
		{"s3-listen", "127.0.0.1:9000", plain, into(&c.S3Listen, address), "listen `address` of the S3 API"},
		{"kv-listen", "127.0.0.1:6380", plain, into(&c.KVListen, address), "listen `address` of the Redis protocol, for embedded key-value stores"},
		{
			"metrics-listen", "127.0.0.1:9464", plain, into(&c.MetricsListen, optional(address)),
			"listen `address` of metrics and pprof; empty disables them",
		},
		{
			"tls-cert", "", plain, into(&c.TLSCert, optional(filePath)),
			"`file` with the TLS certificate of the listeners and its chain, in PEM; read again when it changes",
		},
		{"tls-key", "", plain, into(&c.TLSKey, optional(filePath)), "`file` with the private key of --tls-cert, in PEM"},
		{
			"acme", "", list, into(&c.ACMEDomains, optional(acmeDomains)),
			"`domains` of which TLS certificates are obtained by ACME, separated by commas; this accepts the terms of the CA",
		},
		{"acme-ca", "", plain, into(&c.ACMECA, optional(acmeCA)), "`URL` of the directory of the ACME server (default: Let's Encrypt)"},
		{"acme-email", "", plain, into(&c.ACMEEmail, optional(email)), "e-mail `address` of the ACME account"},
		{
			"redirect-listen", "", plain, into(&c.RedirectListen, optional(address)),
			"listen `address` of plain HTTP, such as :80, which redirects to the base URL and answers ACME challenges",
		},
		{
			"client-ca", "", plain, into(&c.ClientCA, optional(filePath)),
			"`file` with CAs in PEM: clients of S3 and key-value stores must have a certificate of one of them",
		},
		{
			"internal-listen", "", plain, into(&c.InternalListen, optional(address)),
			"listen `address` for other replicas on the same PostgreSQL database, on a private network (default: none)",
		},
		{
			"internal-advertise", "", plain, into(&c.InternalAdvertise, optional(dialable)),
			"`address` at which the other replicas reach --internal-listen (default: that one)",
		},
		{
			"base-url", "", plain, into(&c.BaseURL, optional(origin("http", "https"))),
			"public `URL` of the API (default: https:// and the first domain of --acme; http://localhost:8080 without --listen; or http:// and the listen address)",
		},
		{
			"s3-url", "", plain, into(&c.S3URL, optional(origin("http", "https"))),
			"public `URL` of the S3 API (default: http:// and the listen address)",
		},
		{
			"kv-url", "", plain, into(&c.KVURL, optional(origin("redis", "rediss"))),
			"public `URL` of the Redis protocol (default: redis:// and the listen address)",
		},
		{"s3-domain", "", plain, into(&c.S3Domain, optional(domain)), "`domain` for virtual-hosted buckets (default: path style only)"},
		{"database-url", "", plain, into(&c.DatabaseURL, optional(databaseURL)), "PostgreSQL `URL` (default: SQLite in the data directory)"},
		{
			"database-pooler", "", plain, into(&c.DatabasePooler, optional(oneOf("transaction or session", db.TransactionPooler, db.SessionPooler))),
			"pool `mode` of a pooler such as PgBouncer that the database URL leads to: transaction or session",
		},
		{
			"blob-url", "", plain, into(&c.BlobURL, optional(blobURL)),
			"`URL` of a bucket for the bytes of objects, s3://bucket/prefix?endpoint=https://host (default: files in the data directory)",
		},
		{
			"presign-expiry", "1h", plain, into(&c.PresignExpiry, presignExpiry),
			"`duration` for which presigned URLs are valid unless the request sets one, up to 7d",
		},
		{
			"storage-prices", "", list, into(&c.StoragePrices, optional(storagePrices)),
			"`prices` in USD per GB and month by tier, such as STANDARD=0.02,ARCHIVE=0.004",
		},
		{
			"otlp-endpoint", "", plain, into(&c.OTLPEndpoint, optional(origin("http", "https"))),
			"`URL` of an OpenTelemetry collector that traces are exported to by OTLP over HTTP, such as http://127.0.0.1:4318 (default: none)",
		},
		{"trace-ratio", "1", plain, into(&c.TraceRatio, ratio), "part of the traces that is exported: `n` from 0 to 1"},
		{"log-format", "text", plain, into(&c.LogFormat, oneOf("text or json", LogText, LogJSON)), "log `format`: text or json"},
		{"log-level", "info", plain, into(&c.LogLevel, logLevel), "minimum log `level`: debug, info, warn or error"},
		{"rate-limit", "0", plain, into(&c.RateLimit, rate), "requests per second for each API key; `n` = 0 disables the limit"},
		{"ingest-limit", "1048576", plain, into(&c.IngestLimit, ingestLimit), "maximum size of a webhook request body in `bytes`"},
		{
			"disk-reserve", "268435456", plain, into(&c.DiskReserve, diskReserve),
			"free `bytes` of the data directory's disk below which nothing is added",
		},
		{
			"kv-memory", "0", plain, into(&c.KVMemory, kvMemory),
			"`bytes` of the keys and values of all embedded key-value stores that are open; 0 is a quarter of the memory",
		},
		{
			"kv-store-memory", "268435456", plain, into(&c.KVStoreMemory, kvStoreMemory),
			"`bytes` of the keys and values of one embedded key-value store; at most 3/16 of those of all",
		},
		{"webhook-retention", "30d", plain, into(&c.WebhookRetention, duration), "`duration` for which receipts and deliveries are kept"},
		{"thread-retention", "30d", plain, into(&c.ThreadRetention, duration), "`duration` for which deleted threads are kept"},
		{
			"drain-delay", "3s", plain, into(&c.DrainDelay, drainDelay),
			"`duration` for which a process that gets SIGTERM goes on serving while /readyz is 503",
		},
		{"audit-retention", "365d", plain, into(&c.AuditRetention, duration), "`duration` for which entries of the audit log are kept"},
		{
			"egress-allow", "", list, into(&c.EgressAllow, optional(prefixes)),
			"private networks that webhooks may be sent to: `CIDRs` separated by commas",
		},
		{
			"trusted-proxies", "", list, into(&c.TrustedProxies, optional(prefixes)),
			"reverse proxies whose X-Forwarded-For is trusted: `CIDRs` separated by commas",
		},
		{"session-idle", "7d", plain, into(&c.SessionIdle, sessionIdle), "`duration` after which a session ends that is not used, 5m or more"},
		{"session-max", "30d", plain, into(&c.SessionMax, duration), "`duration` after which a session ends in any case, counted from the sign-in"},
		{
			"upstream-domains", "", list, into(&c.UpstreamDomains, optional(upstreamDomains)),
			"`domains` of e-mail addresses whose users organizations may sign in with their own providers, such as example.com,org_id=example.org",
		},
		{"require-pkce", "false", boolean, into(&c.RequirePKCE, boolValue), "require PKCE of confidential OAuth clients too"},
		{
			"registration", "off", plain, into(&c.Registration, oneOf("off, token or loopback", registration.Modes()...)),
			"`who` may register OAuth clients: off (nobody), token (with an initial access token), or loopback (also programs on the user's machine); both also accept clients that a document describes",
		},
		{"dpop-nonce", "false", boolean, into(&c.DPoPNonce, boolValue), "require a nonce of the server in DPoP proofs"},
		{
			"mail-from", "", plain, into(&c.MailFrom, optional(mailFrom)),
			"`address` that mail is sent from, such as Steward <steward@example.com>; required with STEWARD_SMTP_URL",
		},
		{
			"smtp-url", "", secret, into(&c.SMTPURL, smtpURL),
			"mail server, smtp://user:password@host:587, or smtps:// for TLS from the beginning (default: no mail is sent)",
		},
		{
			"open-organizations", "false", boolean, into(&c.OpenOrganizations, boolValue),
			"let every user create organizations, and not only owners of the first one",
		},
		{
			"backup-to", "", plain, into(&c.BackupTo, optional(backupTarget)),
			"`target` of backups at a schedule: a directory, or s3://bucket/prefix?endpoint=https://host with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (default: none are made)",
		},
		{
			"backup-schedule", "24h", plain, into(&c.BackupSchedule, backupSchedule),
			"`when` backups are made: an interval such as 24h, or a time of the day in UTC such as 03:00",
		},
		{"backup-keep", "7", plain, into(&c.BackupKeep, backupKeep), "keep the newest `n` backups of --backup-to and remove others"},
		{
			"backup-recipients", "", list, into(&c.BackupRecipients, optional(backupRecipients)),
			"encrypt the backups of --backup-to for age `recipients` (age1…) separated by commas; their identities are not needed here",
		},
		{"blob-access-key", "", secret, into(&c.BlobAccessKey, blobCredential), "access key for --blob-url"},
		{"blob-secret-key", "", secret, into(&c.BlobSecretKey, blobCredential), "secret key for --blob-url"},
		{
			"root-key", "", secret, into(&c.RootKey, rootKey),
			"first API key of an empty installation, 20 or more characters (default: generated and printed once)",
		},
		{
			"master-key", "", secret, into(&c.MasterKey, masterKey),
			"key that encrypts secrets at rest, 32 bytes in base64 or hex (default: generated in the data directory)",
		},
		{
			"master-key-command", "", plain, into(&c.MasterKeyCommand, optional(commandLine)),
			"`command` that prints the master key, run once at the start; words are separated by spaces, without a shell",
		},
		{
			"old-master-keys", "", secret, into(&c.OldMasterKeys, masterKeys),
			"previous master keys, separated by commas, to decrypt what they encrypted",
		},
		{"admin-email", "", secret, into(&c.AdminEmail, email), "e-mail address of the first owner"},
		{
			"admin-password", "", secret, into(&c.AdminPassword, password),
			fmt.Sprintf("password of the first owner, %d or more characters and not a common one", account.MinPassword),
		},
	}
}

const (
	envPrefix  = "STEWARD_"
	envFile    = "_FILE"   // after the name of a secret's variable: the path to a file
	regionsKey = "regions" // in the file only, because it is a list of mappings
)

// key returns the setting's key in the YAML file.
func (s setting) key() string { return strings.ReplaceAll(s.name, "-", "_") }

// env returns the setting's environment variable.
func (s setting) env() string { return envPrefix + strings.ToUpper(s.key()) }

// fileKey returns the key that can hold the setting in the YAML file, or "".
func (s setting) fileKey() string {
	switch s.kind {
	case notInFile:
		return ""
	case secret:
		return s.key() + "_file"
	}
	return s.key()
}
