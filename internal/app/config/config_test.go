package config

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/object"
	"steward/internal/oidc/registration"
)

var comparePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

// writeFile writes a file into a directory of the test and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustLoad calls Load, which must succeed.
func mustLoad(t *testing.T, flags map[string]string, environ ...string) Config {
	t.Helper()
	c, err := Load(flags, environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDefaultRegion covers the one default that is not in docs/settings.md.
func TestDefaultRegion(t *testing.T) {
	want := []Region{newRegion("local", "This machine")}
	if diff := cmp.Diff(want, mustLoad(t, nil).Regions); diff != "" {
		t.Error(diff)
	}
}

func TestSettingsAreParsed(t *testing.T) {
	kvFile := writeFile(t, "kv-url", "rediss://:p@kv:6379\n")
	file := writeFile(t, "steward.yaml", `
data: /var/lib/steward
listen: :0
s3_listen: localhost:1
kv_listen: "[::1]:2"
metrics_listen: ""
acme: [Steward.example.com, s3.example.com]
acme_ca: https://acme.example.com/directory
acme_email: tls@example.com
redirect_listen: ":80"
client_ca: /etc/clients.pem
s3_url: https://10.0.0.1:9000
kv_url: rediss://kv.example.com:6380
s3_domain: S3.example.com
database_url: postgres://u:p@db/steward
otlp_endpoint: https://Otel.example.com:4318
trace_ratio: 0.25
log_format: json
log_level: debug
rate_limit: 2.5
ingest_limit: 2048
disk_reserve: 4096
kv_memory: 2097152
kv_store_memory: 1048576
webhook_retention: 1d12h
thread_retention: 90m
drain_delay: 20s
audit_retention: 90d
session_idle: 1h
session_max: 12h
egress_allow: [10.0.0.0/8, "fd00::/8"]
trusted_proxies: 127.0.0.1/32
require_pkce: true
registration: loopback
blob_url: s3://bytes/p?endpoint=https://s3.example.com
presign_expiry: 2h
storage_prices: [STANDARD=0.03, ARCHIVE=0]
dpop_nonce: true
backup_to: s3://backups/steward?endpoint=https://s3.example.com
backup_schedule: "03:30"
backup_keep: 30
backup_recipients: [`+recipientA+`, `+recipientB+`]
regions:
  - {region: eu-1, description: Frankfurt}
  - {region: us-1, s3: none, db: "postgres://a:p@db/postgres", kv_file: `+kvFile+`}
`)
	raw := bytes.Repeat([]byte{7}, 32)
	want := Config{
		ConfigFile: file, Data: "/var/lib/steward", Listen: ":0", ListenGiven: true, S3Listen: "localhost:1", KVListen: "[::1]:2",
		BaseURL: "https://steward.example.com", S3URL: "https://10.0.0.1:9000", KVURL: "rediss://kv.example.com:6380", S3Domain: "s3.example.com",
		DatabaseURL: "postgres://u:p@db/steward", LogFormat: LogJSON, LogLevel: slog.LevelDebug, RateLimit: 2.5, IngestLimit: 2048, DiskReserve: 4096, KVMemory: 2 << 20, KVStoreMemory: 1 << 20,
		ACMEDomains: []string{"steward.example.com", "s3.example.com"}, ACMECA: "https://acme.example.com/directory",
		ACMEEmail: "tls@example.com", RedirectListen: ":80", ClientCA: "/etc/clients.pem",
		OTLPEndpoint: "https://otel.example.com:4318", TraceRatio: 0.25,
		DrainDelay:       20 * time.Second,
		WebhookRetention: 36 * time.Hour, ThreadRetention: 90 * time.Minute, AuditRetention: 90 * 24 * time.Hour,
		SessionIdle: time.Hour, SessionMax: 12 * time.Hour,
		EgressAllow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, RequirePKCE: true, DPoPNonce: true,
		Registration: registration.Loopback,
		BackupTo:     "s3://backups/steward?endpoint=https://s3.example.com", BackupSchedule: backup.Schedule{At: 3*time.Hour + 30*time.Minute}, BackupKeep: 30,
		BackupRecipients: recipientA + "\n" + recipientB,
		BlobURL:          &blob.S3Options{Endpoint: "https://s3.example.com", Bucket: "bytes", Prefix: "p"}, BlobAccessKey: "AK", BlobSecretKey: "SK",
		PresignExpiry: 2 * time.Hour, StoragePrices: map[object.Tier]float64{object.Standard: 0.03, object.Archive: 0},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		RootKey:        "a-root-key-of-24-letters", MasterKey: Secret(raw), OldMasterKeys: []Secret{Secret(raw), Secret(raw)}, AdminEmail: "owner@example.com", AdminPassword: "correct horse",
		Regions: []Region{newRegion("eu-1", "Frankfurt"), {
			Region: "us-1", S3: Engine{Kind: NoEngine}, DB: Engine{PostgreSQL, "postgres://a:p@db/postgres"}, KV: Engine{Redis, "rediss://:p@kv:6379"},
		}},
	}
	got := mustLoad(
		t, map[string]string{"config": file}, "HOME=/root", "STEWARD_ROOT_KEY=a-root-key-of-24-letters",
		"STEWARD_MASTER_KEY="+base64.StdEncoding.EncodeToString(raw),
		"STEWARD_OLD_MASTER_KEYS="+hex.EncodeToString(raw)+", "+base64.StdEncoding.EncodeToString(raw), "STEWARD_ADMIN_EMAIL=owner@example.com", "STEWARD_ADMIN_PASSWORD=correct horse",
		"STEWARD_BLOB_ACCESS_KEY=AK", "STEWARD_BLOB_SECRET_KEY=SK",
	)
	if diff := cmp.Diff(want, got, comparePrefix); diff != "" {
		t.Error(diff)
	}
}

// samples are three different valid values of settings that have a format of their own, none of them
// the default. The others accept one of commonSamples.
var samples = map[string][3]string{
	"listen":           {"h:1", "h:2", "h:3"},
	"s3-listen":        {"h:1", "h:2", "h:3"},
	"kv-listen":        {"h:1", "h:2", "h:3"},
	"metrics-listen":   {"h:1", "", "h:3"},
	"acme":             {"a.example", "b.example", "c.example,d.example"},
	"acme-ca":          {"https://a/dir", "https://b/dir", "http://127.0.0.1:14000/dir"},
	"acme-email":       {"a@example.com", "b@example.com", "c@example.com"},
	"redirect-listen":  {"h:1", "h:2", "h:3"},
	"internal-listen":  {"h:1", "h:2", ""},
	"base-url":         {"http://a", "http://b", "http://c"},
	"s3-url":           {"http://a", "http://b", "http://c"},
	"kv-url":           {"redis://a", "redis://b", "redis://c"},
	"s3-domain":        {"a", "b", "c"},
	"blob-url":         {"s3://a?endpoint=http://h", "s3://b/p?endpoint=https://h", "s3://c?endpoint=http://h&region=r"},
	"presign-expiry":   {"1s", "2h", "7d"},
	"storage-prices":   {"STANDARD=1", "ARCHIVE=0", "INFREQUENT_ACCESS=0.5"},
	"database-url":     {"postgres://a", "postgresql://b", "postgres:///c?host=/tmp"},
	"database-pooler":  {"transaction", "session", "transaction"},
	"log-format":       {"json", "text", "json"}, // only two exist: neighbours differ
	"log-level":        {"debug", "warn", "error"},
	"otlp-endpoint":    {"http://a:1", "http://b:2", "http://c:3"},
	"trace-ratio":      {"0.1", "0.2", "0.3"},
	"disk-reserve":     {"1", "2", "0"},
	"kv-memory":        {"1048576", "2097152", "3145728"},
	"kv-store-memory":  {"1048576", "2097152", "3145728"},
	"drain-delay":      {"2s", "0", "3m"},
	"session-idle":     {"1h", "2d", "5m"},
	"egress-allow":     {"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8,13.0.0.0/8"},
	"trusted-proxies":  {"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8,13.0.0.0/8"},
	"upstream-domains": {"a.example", "b.example", "c.example,org_01jcq3r0b3d6g9j2m5p8s1v4xz=d.example"},
	"registration":     {"token", "loopback", "off"},
	"mail-from":        {"a@example.com", "b@example.com", "Steward <c@example.com>"},

	"backup-to":          {"dir", "/backups/", "s3://b?endpoint=http://h"},
	"backup-schedule":    {"1m", "03:00", "23:59 UTC"},
	"backup-keep":        {"1", "2", "365"},
	"backup-recipients":  {recipientA, recipientB, recipientA + ", " + recipientB},
	"internal-advertise": {"h:1", "h:2", ""},
	"master-key-command": {"pass steward", "/usr/bin/key", "key --of steward"},
}

var commonSamples = [][3]string{{"1h", "2d", "3m"}, {"1", "2", "3"}, {"true", "false", "true"}}

// samplesOf returns three valid values of a setting.
func samplesOf(t *testing.T, s setting) [3]string {
	t.Helper()
	if values, ok := samples[s.name]; ok {
		return values
	}
	for _, values := range commonSamples {
		if !slices.ContainsFunc(values[:], func(v string) bool { return s.set(v) != nil }) {
			return values
		}
	}
	t.Fatalf("%s has a format of its own: add three values to samples", s.name)
	return [3]string{}
}

// TestSettingsHaveFieldsOfTheirOwn finds a setting that was copied and parses into another's field.
func TestSettingsHaveFieldsOfTheirOwn(t *testing.T) {
	owner := map[string]string{} // by field
	for i, s := range settings(&Config{}) {
		if s.kind == secret { // TestSettingsAreParsed covers them
			continue
		}
		var c Config
		if err := settings(&c)[i].set(samplesOf(t, s)[0]); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		v := reflect.ValueOf(c)
		changed := 0
		for j := range v.NumField() {
			if field := v.Type().Field(j).Name; !v.Field(j).IsZero() {
				changed++
				if owner[field] != "" {
					t.Errorf("%s and %s both set %s", owner[field], s.name, field)
				}
				owner[field] = s.name
			}
		}
		if changed != 1 {
			t.Errorf("%s sets %d fields", s.name, changed)
		}
	}
}

// required are the settings that others require.
var required = map[string]map[string]string{
	"tls-cert":        {"tls-key": "k"},
	"tls-key":         {"tls-cert": "c"},
	"redirect-listen": {"acme": "a.example"},
	"client-ca":       {"acme": "a.example"},
	"backup-schedule": {"backup-to": "dir"},
	"backup-keep":     {"backup-to": "dir"},

	"acme-ca":            {"acme": "a.example"},
	"acme-email":         {"acme": "a.example"},
	"internal-advertise": {"internal-listen": "10.0.0.7:7000"},
	"database-pooler":    {"database-url": "postgres://h/d"},
	"backup-recipients":  {"backup-to": "dir"},
}

// recipientA and recipientB are recipients of age.
const (
	recipientA = "age1dm8h0lf7vwrrztajgs2e0ytk87ykggpa9nz4c6t2j2dpy9ca8q7shhs7me"
	recipientB = "age18dj07kql79v3x24x4n5j2utxl6520h5djrdxe8j2cdapstx8pqasajmz0e"
)

// TestPrecedence gives each setting in every combination of flag, environment and file.
func TestPrecedence(t *testing.T) {
	for _, s := range settings(&Config{}) {
		if s.kind == secret || s.kind == notInFile {
			continue
		}
		values := samplesOf(t, s)
		for places := range 1 << len(values) {
			t.Run(fmt.Sprintf("%s/%03b", s.name, places), func(t *testing.T) { checkPrecedence(t, s, values, places) })
		}
	}
}

// checkPrecedence gives a setting as a flag (bit 0 of places), in the environment (bit 1) and in
// the file (bit 2).
func checkPrecedence(t *testing.T, s setting, values [3]string, places int) {
	flags := map[string]string{}
	var environ []string
	content := ""
	want := s.value
	if places&4 != 0 {
		content = s.key() + ": " + strconv.Quote(values[2]) + "\n"
		want = values[2]
	}
	if places&2 != 0 {
		environ = []string{s.env() + "=" + values[1]}
		want = values[1]
	}
	if places&1 != 0 {
		flags[s.name] = values[0]
		want = values[0]
	}
	flags["config"] = writeFile(t, "steward.yaml", content)
	only := map[string]string{"config": flags["config"], s.name: want}
	if places != 0 || s.value != "" {
		maps.Copy(flags, required[s.name])
		maps.Copy(only, required[s.name])
	}
	alone := mustLoad(t, only)
	alone.ListenGiven = s.name == "listen" && places != 0
	if diff := cmp.Diff(alone, mustLoad(t, flags, environ...), comparePrefix); diff != "" {
		t.Error(diff)
	}
}

func TestConfigFilePrecedence(t *testing.T) {
	a := writeFile(t, "a.yaml", "data: from-a")
	b := writeFile(t, "b.yaml", "data: from-b")
	if got := mustLoad(t, nil, "STEWARD_CONFIG="+b).Data; got != "from-b" {
		t.Errorf("environment: data is %s", got)
	}
	if got := mustLoad(t, map[string]string{"config": a}, "STEWARD_CONFIG="+b).Data; got != "from-a" {
		t.Errorf("flag and environment: data is %s", got)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	const one, two, three = "first-root-key-of-many", "second-root-key-of-many", "third-root-key-of-many"
	inEnv := writeFile(t, "two", two+"\r\n")
	inFile := writeFile(t, "three", three+"\n")
	config := "STEWARD_CONFIG=" + writeFile(t, "steward.yaml", "root_key_file: "+inFile)
	for name, test := range map[string]struct {
		environ []string
		want    Secret
	}{
		"environment over file":      {[]string{config, "STEWARD_ROOT_KEY=" + one}, one},
		"path in it over file":       {[]string{config, "STEWARD_ROOT_KEY_FILE=" + inEnv}, two},
		"file over nothing":          {[]string{config}, three},
		"environment alone":          {[]string{"STEWARD_ROOT_KEY=" + one}, one},
		"path in environment, alone": {[]string{"STEWARD_ROOT_KEY_FILE=" + inEnv}, two},
		"nowhere":                    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustLoad(t, nil, test.environ...).RootKey; got != test.want {
				t.Errorf("root key is %q", string(got))
			}
		})
	}
}

func TestMasterKeyEncodings(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb}, 32) // has + or - in base64
	for _, text := range []string{
		fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		if got := mustLoad(t, nil, "STEWARD_MASTER_KEY="+text).MasterKey; got != Secret(raw) {
			t.Errorf("%s: wrong key", text)
		}
	}
}

func TestFileMayBeEmpty(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "comment": "# nothing\n", "null": "~", "mapping": "{}", "no regions": "regions: []", "null regions": "regions:\n",
	} {
		got := mustLoad(t, nil, "STEWARD_CONFIG="+writeFile(t, "x.yaml", content))
		got.ConfigFile = ""
		if diff := cmp.Diff(mustLoad(t, nil), got, comparePrefix); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFileMayHaveAliases(t *testing.T) {
	got := mustLoad(t, nil, "STEWARD_CONFIG="+writeFile(t, "x.yaml", "listen: &a h:1\ns3_listen: *a\nwebhook_retention: &b 1d\nthread_retention: *b"))
	if got.S3Listen != "h:1" || got.ThreadRetention != 24*time.Hour {
		t.Errorf("got %+v", got)
	}
}

func TestOtherVariablesAreIgnored(t *testing.T) {
	mustLoad(
		t, nil, "STEWARDS=1", "steward_x=1", "STEWARD_TEST_POSTGRES=postgres://x", "STEWARD_URL=http://h", "STEWARD_KEY=sk_x", "STEWARD_SERVICE_HOST=10.0.0.1", "STEWARD_SERVICE_PORT=80",
		"STEWARD_SERVICE_PORT_HTTP=80", "STEWARD_PORT=tcp://10.0.0.1:80", "STEWARD_PORT_80_TCP=tcp://10.0.0.1:80", "STEWARD_PORT_80_TCP_ADDR=10.0.0.1",
		"STEWARD_PG_SERVICE_HOST=10.0.0.1", "STEWARD_PG_PORT=tcp://10.0.0.1:5432",
	)
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	c := mustLoad(
		t, map[string]string{"database-url": "postgres://u:QQQ@h/d"}, "STEWARD_ROOT_KEY=QQQQQQQQQQQQQQQQQQQQ",
		"STEWARD_MASTER_KEY="+base64.StdEncoding.EncodeToString([]byte("QQQ45678901234567890123456789012")),
		"STEWARD_ADMIN_EMAIL=a@b.c", "STEWARD_ADMIN_PASSWORD=QQQQQQQQQQ",
		"STEWARD_SMTP_URL=smtp://u:QQQ@mail.example.com", "STEWARD_MAIL_FROM=a@b.c",
	)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb, c, c.RootKey)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(asJSON)
	slog.New(slog.NewTextHandler(&out, nil)).Info("start", "config", c, "key", c.RootKey)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("start", "config", c, "key", c.RootKey)
	if got := out.String(); strings.Contains(got, "QQQ") || strings.Contains(got, "515151") || strings.Contains(got, "UVFR") {
		t.Errorf("secrets were printed: %s", got)
	}
}

func TestExplainShowsNoPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://u:QQQ@h/d", "postgres://h/d?user=u&password=QQQ", "postgres://h/d?sslpassword=QQQ", "postgres://h/d?password=QQQ;",
		"postgres://h/d?PassWord=QQQ", "postgres://h/d?pass%77ord=QQQ",
	} {
		all, err := Explain(map[string]string{"database-url": url}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(all); strings.Contains(text, "QQQ") {
			t.Errorf("%s: %s", url, text)
		}
	}
}
