package config

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/errs"
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

// faultsOf calls Load, which must fail, and returns the faults.
func faultsOf(t *testing.T, flags map[string]string, environ ...string) []errs.Fault {
	t.Helper()
	_, err := Load(flags, environ)
	var e *errs.Error
	if !errors.As(err, &e) || e.Kind != errs.Invalid {
		t.Fatalf("Load returned %v, want errs.Invalid", err)
	}
	return e.Faults
}

func TestDefaults(t *testing.T) {
	want := Config{
		Data: "./steward-data", Listen: "127.0.0.1:8080", S3Listen: "127.0.0.1:9000", KVListen: "127.0.0.1:6380", MetricsListen: "127.0.0.1:9464",
		LogFormat: LogText, LogLevel: slog.LevelInfo, IngestLimit: 1 << 20, DiskReserve: 256 << 20, KVStoreMemory: 256 << 20, WebhookRetention: 720 * time.Hour, PresignExpiry: time.Hour, ThreadRetention: 720 * time.Hour,
		DrainDelay:     3 * time.Second,
		TraceRatio:     1,
		AuditRetention: 365 * 24 * time.Hour,
		SessionIdle:    7 * 24 * time.Hour,
		SessionMax:     30 * 24 * time.Hour,
		Registration:   registration.Off,
		BackupSchedule: backup.Schedule{Every: 24 * time.Hour}, BackupKeep: 7,
		Regions: []Region{newRegion("local", "This machine")},
	}
	if diff := cmp.Diff(want, mustLoad(t, nil), comparePrefix); diff != "" {
		t.Error(diff)
	}
}

func TestEverySettingIsParsed(t *testing.T) {
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

// samples are three different valid values of each setting, none of them the default.
var samples = map[string][3]string{
	"data":              {"a", "b", "c"},
	"listen":            {"h:1", "h:2", "h:3"},
	"s3-listen":         {"h:1", "h:2", "h:3"},
	"kv-listen":         {"h:1", "h:2", "h:3"},
	"metrics-listen":    {"", "h:2", "h:3"},
	"tls-cert":          {"a", "b", "c"},
	"tls-key":           {"a", "b", "c"},
	"acme":              {"a.example", "b.example", "c.example,d.example"},
	"acme-ca":           {"https://a/dir", "https://b/dir", "http://127.0.0.1:14000/dir"},
	"acme-email":        {"a@example.com", "b@example.com", "c@example.com"},
	"redirect-listen":   {"h:1", "h:2", "h:3"},
	"client-ca":         {"a", "b", "c"},
	"internal-listen":   {"h:1", "h:2", ""},
	"base-url":          {"http://a", "http://b", "http://c"},
	"s3-url":            {"http://a", "http://b", "http://c"},
	"kv-url":            {"redis://a", "redis://b", "redis://c"},
	"s3-domain":         {"a", "b", "c"},
	"blob-url":          {"s3://a?endpoint=http://h", "s3://b/p?endpoint=https://h", "s3://c?endpoint=http://h&region=r"},
	"presign-expiry":    {"1s", "2h", "7d"},
	"storage-prices":    {"STANDARD=1", "ARCHIVE=0", "INFREQUENT_ACCESS=0.5"},
	"database-url":      {"postgres://a", "postgresql://b", "postgres:///c?host=/tmp"},
	"database-pooler":   {"transaction", "session", "transaction"},
	"log-format":        {"json", "text", "json"}, // only two exist: neighbours differ
	"log-level":         {"debug", "warn", "error"},
	"rate-limit":        {"1", "2", "3"},
	"otlp-endpoint":     {"http://a:1", "http://b:2", "http://c:3"},
	"trace-ratio":       {"0.1", "0.2", "0.3"},
	"ingest-limit":      {"1", "2", "3"},
	"disk-reserve":      {"1", "2", "0"},
	"kv-memory":         {"1048576", "2097152", "3145728"},
	"kv-store-memory":   {"1048576", "2097152", "3145728"},
	"webhook-retention": {"1h", "2d", "3m"},
	"thread-retention":  {"1h", "2d", "3m"},
	"drain-delay":       {"0", "2s", "3m"},
	"audit-retention":   {"1h", "2d", "3m"},
	"session-idle":      {"1h", "2d", "5m"},
	"session-max":       {"1h", "2d", "3m"},
	"egress-allow":      {"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8,13.0.0.0/8"},
	"trusted-proxies":   {"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8,13.0.0.0/8"},
	"upstream-domains":  {"a.example", "b.example", "c.example,org_01jcq3r0b3d6g9j2m5p8s1v4xz=d.example"},
	"require-pkce":      {"true", "false", "true"},
	"registration":      {"token", "loopback", "off"},
	"dpop-nonce":        {"true", "false", "true"},
	"mail-from":         {"a@example.com", "b@example.com", "Steward <c@example.com>"},

	"backup-to":          {"dir", "/backups/", "s3://b?endpoint=http://h"},
	"backup-schedule":    {"1m", "03:00", "23:59 UTC"},
	"backup-keep":        {"1", "2", "365"},
	"backup-recipients":  {recipientA, recipientB, recipientA + ", " + recipientB},
	"open-organizations": {"true", "false", "true"},
	"internal-advertise": {"h:1", "h:2", ""},
	"master-key-command": {"pass steward", "/usr/bin/key", "key --of steward"},
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
		values, ok := samples[s.name]
		if !ok {
			t.Errorf("%s has no samples: add three to this test", s.name)
			continue
		}
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

// invalid are values that must be refused wherever the setting can be given.
var invalid = map[string][]string{
	"config":             {"", "/no/such/QQQ", "/"},
	"data":               {"", "  "},
	"listen":             {"", "QQQ", "8080", "QQQ:http", "QQQ:65536", "QQQ:-1", "a b:1", "1.2.3.256:1", "::1:QQQ", "http://QQQ:1", "QQQ:1/"},
	"s3-listen":          {"", "QQQ"},
	"kv-listen":          {"", "QQQ"},
	"metrics-listen":     {"QQQ", "off"},
	"tls-cert":           {"  ", "QQQ\x00"},
	"tls-key":            {"  "},
	"acme":               {"QQQ:1", "*.QQQ.example", "10.0.0.1", "a.example,,b.example", "a.example,A.example", "https://QQQ"},
	"acme-ca":            {"QQQ", "http://QQQ/dir", "https://u:QQQ@h/dir", "https://h/dir?QQQ"},
	"acme-email":         {"QQQ", "QQQ <a@b.c>"},
	"redirect-listen":    {"QQQ", "80"},
	"client-ca":          {"  "},
	"internal-listen":    {"QQQ", "QQQ:65536"},
	"base-url":           {"QQQ", "QQQ:80", "ftp://QQQ", "http://", "http:///", "http://QQQ/path", "http://QQQ//", "http://QQQ?a=b", "http://QQQ?", "http://QQQ/#", "http://user:QQQ@host", "http://QQQ:0", "http://QQQ:65536", "http://QQQ:", "http://q q", "http://1.2.3.256", "http://QQQ:pass"},
	"s3-url":             {"QQQ", "s3://QQQ"},
	"kv-url":             {"QQQ", "http://QQQ", "redis://:QQQ@host"},
	"s3-domain":          {"http://QQQ", "QQQ:80", "10.0.0.1", "-QQQ", "QQQ..com", ".QQQ"},
	"blob-url":           {"QQQ", "s3://QQQ", "s3://u:QQQ@b?endpoint=http://h", "s3://QQQ?endpoint=ftp://h", "s3://QQQ?endpoint=http://h&x=y"},
	"backup-to":          {"  ", "s3://QQQ", "s3://u:QQQ@b?endpoint=http://h", "https://QQQ"},
	"backup-schedule":    {"", "QQQ", "59s", "-24h", "24:00", "3am", "03:00 CET"},
	"backup-keep":        {"", "QQQ", "0", "366", "1.5"},
	"backup-recipients":  {"QQQ", " ", "age1QQQ", recipientA + ",,", "AGE-SECRET-KEY-1QQQ", "ssh-ed25519 QQQ"},
	"presign-expiry":     {"", "QQQ", "0s", "500ms", "8d"},
	"storage-prices":     {"QQQ", "STANDARD", "STANDARD=QQQ", "STANDARD=-1", "STANDARD=NaN", "QQQ=1"},
	"blob-access-key":    {"QQQ QQQ"},
	"blob-secret-key":    {"QQQ QQQ"},
	"database-url":       {"QQQ", "mysql://u:QQQ@h/d", "postgres:QQQ", "postgres://u:QQQ@h:x/d", "host=QQQ"},
	"database-pooler":    {"QQQ", "statement", "Transaction"},
	"log-format":         {"", "QQQ", "JSON"},
	"log-level":          {"", "QQQ", "warning"},
	"rate-limit":         {"", "QQQ", "-1", "NaN", "Inf", "1e999"},
	"otlp-endpoint":      {"QQQ:4318", "grpc://QQQ:4317", "http://u:QQQ@a", "http://a/QQQ", "http://a?x=QQQ"},
	"trace-ratio":        {"", "QQQ", "-0.1", "1.1", "NaN"},
	"disk-reserve":       {"", "QQQ", "-1", "1.5", "1MiB"},
	"kv-memory":          {"", "QQQ", "-1", "1.5", "1MiB", "1"},
	"kv-store-memory":    {"", "QQQ", "-1", "1.5", "1MiB", "0"},
	"ingest-limit":       {"", "QQQ", "0", "-1", "1.5", "1MiB", "536870913"},
	"webhook-retention":  {"", "QQQ", "30", "0d", "0s", "-1h", "-1d", "d", "1.5d", "99999d", "65535d2000000h", "1d-25h", "1h1d"},
	"thread-retention":   {"", "QQQ"},
	"drain-delay":        {"", "QQQ", "3", "-1s", "1d", "6m"},
	"audit-retention":    {"", "QQQ", "0d"},
	"session-idle":       {"", "QQQ", "0d", "4m59s"},
	"session-max":        {"", "QQQ", "0d"},
	"egress-allow":       {"QQQ", "10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8,", "10.0.0.0/8;11.0.0.0/8", "::ffff:10.0.0.0/104"},
	"trusted-proxies":    {"QQQ", "10.0.0.1", "10.0.0.1/8"},
	"upstream-domains":   {"QQQ", "org_QQQ=a.example", "a.example,a.example", "A.example", "=a.example", "a.example,"},
	"require-pkce":       {"", "QQQ", "yes", "2"},
	"registration":       {"", "QQQ", "Token", "true"},
	"dpop-nonce":         {"", "QQQ", "yes", "2"},
	"mail-from":          {"QQQ", "QQQ@", "QQQ <a@b", "a@example.com\r\nBcc: QQQ@example.com"},
	"smtp-url":           {"", "QQQ", "http://QQQ", "smtp://u:QQQ@", "smtp://u:QQQ@h?starttls=off", "smtp://u:QQQ@h:0", "smtp://u:QQQ%0d%0a@h"},
	"root-key":           {"", "QQQ", "QQQ456789012345678", "QQQ with spaces in between", "QQQ\twith-a-tab-in-between"},
	"master-key":         {"", "QQQ", strings.Repeat("QQQx", 8), strings.Repeat("0", 62), base64.StdEncoding.EncodeToString(make([]byte, 31))},
	"master-key-command": {" ", "QQQ\x00"},
	"old-master-keys":    {"", "QQQ", strings.Repeat("0", 64) + ",", strings.Repeat("0", 64) + ",QQQ"},
	"admin-email":        {"", "QQQ", "QQQ <a@b.c>", "a@b@QQQ", "QQQ@"},
	"admin-password":     {"", "QQQ456789"},

	"open-organizations": {"", "QQQ", "yes", "2"},
	"internal-advertise": {"QQQ", "QQQ:0", ":1", "0.0.0.0:1", "[::]:1", "QQQ:65536"},
}

func TestInvalidValuesAreRefused(t *testing.T) {
	for _, s := range settings(&Config{}) {
		if len(invalid[s.name]) == 0 {
			t.Errorf("%s has no invalid values: add some to this test", s.name)
		}
		for _, value := range invalid[s.name] {
			t.Run(fmt.Sprintf("%s=%q", s.name, value), func(t *testing.T) { checkRefused(t, s, value) })
		}
	}
}

// checkRefused gives an invalid value wherever the setting can be given.
func checkRefused(t *testing.T, s setting, value string) {
	others := []string{}
	if s.name == "admin-password" {
		others = append(others, "STEWARD_ADMIN_EMAIL=owner@example.com")
	}
	for name, value := range required[s.name] {
		others = append(others, setting{name: name}.env()+"="+value)
	}
	check := func(source string, faults []errs.Fault) {
		t.Helper()
		if len(faults) != 1 || faults[0].Location != source || !strings.HasPrefix(faults[0].Message, "must be ") {
			t.Errorf("faults are %+v, want one of %s", faults, source)
		}
		if strings.Contains(fmt.Sprint(faults), "QQQ") {
			t.Errorf("%+v shows the value", faults)
		}
	}
	check(s.env(), faultsOf(t, nil, append(others, s.env()+"="+value)...))
	if s.kind != secret {
		check("--"+s.name, faultsOf(t, map[string]string{s.name: value}, others...))
	}
	if key := s.fileKey(); key != "" {
		if s.kind == secret {
			check(s.env()+"_FILE", faultsOf(t, nil, append(others, s.env()+"_FILE="+writeFile(t, "secret", value))...))
			value = writeFile(t, "secret", value)
		}
		config := "STEWARD_CONFIG=" + writeFile(t, "x.yaml", "\n"+key+": "+strconv.Quote(value))
		check(key+" (x.yaml, line 2)", faultsOf(t, nil, append(others, config)...))
	}
}

func TestConfigurationFaults(t *testing.T) {
	const key = "QQQ-a-good-root-key-but-misplaced"
	for name, test := range map[string]struct {
		flags   map[string]string
		environ []string
		file    string
		want    []string // location and message of each fault
	}{
		"unknown variable":        {environ: []string{"STEWARD_S3LISTEN=QQQ"}, want: []string{"STEWARD_S3LISTEN is not a setting; did you mean STEWARD_S3_LISTEN?"}},
		"unknown secret":          {environ: []string{"STEWARD_ROOTKEY=" + key}, want: []string{"STEWARD_ROOTKEY is not a setting; did you mean STEWARD_ROOT_KEY?"}},
		"nothing similar":         {environ: []string{"STEWARD_FOO=QQQ"}, want: []string{"STEWARD_FOO is not a setting; see `steward serve --help`"}},
		"port without URL":        {environ: []string{"STEWARD_PORT=80"}, want: []string{"STEWARD_PORT is not a setting; see `steward serve --help`"}},
		"unknown key":             {file: "lsten: QQQ", want: []string{"lsten (x.yaml, line 1) is not a setting; did you mean listen?"}},
		"key like a flag":         {file: "base-url: QQQ", want: []string{"base-url (x.yaml, line 1) is not a setting; did you mean base_url?"}},
		"file names a file":       {file: "config: QQQ", want: []string{"config (x.yaml, line 1) is not a setting; see `steward serve --help`"}},
		"similar to regions":      {file: "region: []", want: []string{"region (x.yaml, line 1) is not a setting; did you mean regions?"}},
		"secret in the file":      {file: "root_key: " + key, want: []string{"root_key (x.yaml, line 1) must not be in this file: set root_key_file to the path of a file with the value, or set STEWARD_ROOT_KEY"}},
		"secret for its path":     {environ: []string{"STEWARD_ROOT_KEY_FILE=" + key}, want: []string{"STEWARD_ROOT_KEY_FILE must be the path of a readable file: no such file or directory"}},
		"secret twice":            {environ: []string{"STEWARD_ROOT_KEY=" + key, "STEWARD_ROOT_KEY_FILE=/dev/null"}, want: []string{"STEWARD_ROOT_KEY_FILE must not be set together with STEWARD_ROOT_KEY"}},
		"password without user":   {environ: []string{"STEWARD_ADMIN_PASSWORD=QQQ-password"}, want: []string{"STEWARD_ADMIN_PASSWORD requires STEWARD_ADMIN_EMAIL"}},
		"listens everywhere":      {flags: map[string]string{"internal-listen": ":7000"}, want: []string{"--internal-listen requires --internal-advertise, since it listens on all interfaces"}},
		"mail without sender":     {environ: []string{"STEWARD_SMTP_URL=smtp://QQQ"}, want: []string{"STEWARD_SMTP_URL requires --mail-from"}},
		"certificate without key": {flags: map[string]string{"tls-cert": "QQQ"}, want: []string{"--tls-cert requires --tls-key"}},
		"certificates of two sources": {
			flags: map[string]string{"tls-cert": "QQQ", "tls-key": "QQQ", "acme": "a.example"},
			want:  []string{"--acme must not be set together with --tls-cert"},
		},
		"schedule without target": {
			flags: map[string]string{"backup-schedule": "03:00", "backup-keep": "3", "backup-recipients": recipientA},
			want:  []string{"--backup-schedule requires --backup-to", "--backup-keep requires --backup-to", "--backup-recipients requires --backup-to"},
		},
		"address without listener": {
			flags: map[string]string{"internal-advertise": "10.0.0.7:7000"},
			want:  []string{"--internal-advertise requires --internal-listen"},
		},
		"ACME server without domains": {
			flags: map[string]string{"acme-ca": "https://ca.example", "acme-email": "a@b.example"},
			want:  []string{"--acme-ca requires --acme", "--acme-email requires --acme"},
		},
		"pooler without PostgreSQL": {
			flags: map[string]string{"database-pooler": "transaction"},
			want:  []string{"--database-pooler requires --database-url"},
		},
		"half a credential": {
			environ: []string{"STEWARD_BLOB_ACCESS_KEY=QQQ"},
			want:    []string{"STEWARD_BLOB_ACCESS_KEY requires STEWARD_BLOB_SECRET_KEY"},
		},
		"faulty target of a schedule": {
			flags: map[string]string{"backup-schedule": "03:00", "backup-to": "s3://"},
			want:  []string{"--backup-to must be a directory, or a URL such as s3://bucket/prefix?endpoint=https://host"},
		},
		"master key twice": {
			flags:   map[string]string{"master-key-command": "QQQ"},
			environ: []string{"STEWARD_MASTER_KEY=" + strings.Repeat("07", 32)},
			want:    []string{"--master-key-command must not be set together with STEWARD_MASTER_KEY"},
		},
		"client CA without TLS": {flags: map[string]string{"client-ca": "QQQ"}, want: []string{"--client-ca requires --tls-cert or --acme"}},
		"plain URL with TLS": {
			flags: map[string]string{"acme": "a.example", "base-url": "http://a.example"},
			want:  []string{"--base-url must begin with https:// with --tls-cert or --acme"},
		},
		"key given twice":  {file: "data: a\ndata: b", want: []string{"data (x.yaml, line 2) must not be given twice"}},
		"list for a value": {file: "data: [QQQ]", want: []string{"data (x.yaml, line 1) must be a single value"}},
		"list in a list":   {file: "egress_allow: [[QQQ]]", want: []string{"egress_allow (x.yaml, line 1) must be a single value"}},
		"list for a file":  {file: "- QQQ", want: []string{"the file (x.yaml, line 1) must have the form `key: value`"}},
		"broken file":      {file: "data: [", want: []string{"x.yaml must be YAML: line 1: did not find expected node content"}},
		"two documents":    {file: "data: a\n---\ndata: b", want: []string{"x.yaml must be a single YAML document"}},
		"regions no list":  {file: "regions: QQQ", want: []string{"regions (x.yaml, line 1) must be a list of `{region: …, description: …}`"}},
		"regions of bad form": {
			file: "regions:\n- {region: EU}\n- {}\n- {region: a}\n- {region: a}\n- QQQ\n- {region: b, descripton: QQQ}\n- {region: [QQQ]}",
			want: []string{
				"regions[0].region (x.yaml, line 2) must be 1 to 32 characters of a-z, 0-9 and -",
				"regions[1].region (x.yaml, line 3) must be 1 to 32 characters of a-z, 0-9 and -",
				"regions[3].region (x.yaml, line 5) must not be given twice",
				"regions[4] (x.yaml, line 6) must have the form `key: value`",
				"regions[4].region (x.yaml, line 6) must be 1 to 32 characters of a-z, 0-9 and -",
				"regions[5].descripton (x.yaml, line 7) is not a setting; did you mean description?",
				"regions[6].region (x.yaml, line 8) must be a single value",
			},
		},
		"engines": {
			file: "regions:\n- {region: a, db: mysql://QQQ}\n- {region: b, db: redis://QQQ}\n- {region: c, kv: postgres://QQQ}\n- {region: d, s3: postgres://QQQ}\n" +
				"- {region: e, kv: 'redis://u:QQQ@h:x'}\n- {region: f, db: ''}\n- {region: g, db: embedded, db_file: QQQ}\n- {region: h, kv_file: QQQ}\n- {region: i, s3_file: QQQ}\n- {region: j, kv_file: /dev/null}",
			want: []string{
				"regions[0].db (x.yaml, line 2) must be embedded, none or postgres://user:password@host:port/database",
				"regions[1].db (x.yaml, line 3) must be embedded, none or postgres://user:password@host:port/database",
				"regions[2].kv (x.yaml, line 4) must be embedded, none or redis://user:password@host:port/0",
				"regions[3].s3 (x.yaml, line 5) must be embedded or none",
				"regions[4].kv (x.yaml, line 6) must be embedded, none or redis://user:password@host:port/0",
				"regions[5].db (x.yaml, line 7) must be embedded, none or postgres://user:password@host:port/database",
				"regions[6].db_file (x.yaml, line 8) must not be given together with db",
				"regions[7].kv_file (x.yaml, line 9) must be the path of a readable file: no such file or directory",
				"regions[8].s3_file (x.yaml, line 10) is not a setting; did you mean db_file?",
				"regions[9].kv_file (x.yaml, line 11) must be embedded, none or redis://user:password@host:port/0",
			},
		},
		"all at once": {
			flags: map[string]string{"listen": "QQQ"}, environ: []string{"STEWARD_LOG_LEVEL=QQQ", "STEWARD_NONSENSE="}, file: "rate_limit: QQQ\nnonsense: 1",
			want: []string{
				"STEWARD_NONSENSE is not a setting; see `steward serve --help`",
				"nonsense (x.yaml, line 2) is not a setting; see `steward serve --help`",
				"--listen must be host:port, such as 127.0.0.1:8080 or [::1]:8080; port 0 picks a free port",
				"STEWARD_LOG_LEVEL must be debug, info, warn or error", "rate_limit (x.yaml, line 1) must be a number, 0 or more",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			environ := test.environ
			if test.file != "" {
				environ = append(environ, "STEWARD_CONFIG="+writeFile(t, "x.yaml", test.file))
			}
			var got []string
			for _, f := range faultsOf(t, test.flags, environ...) {
				got = append(got, f.Location+" "+f.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
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
