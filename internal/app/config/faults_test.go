package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/errs"
)

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

// invalid are values that must be refused wherever the setting can be given. Settings that are not
// here must refuse commonInvalid.
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
	"drain-delay":        {"", "QQQ", "3", "-1s", "1d", "6m"},
	"session-idle":       {"", "QQQ", "0d", "4m59s"},
	"egress-allow":       {"QQQ", "10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8,", "10.0.0.0/8;11.0.0.0/8", "::ffff:10.0.0.0/104"},
	"trusted-proxies":    {"QQQ", "10.0.0.1", "10.0.0.1/8"},
	"upstream-domains":   {"QQQ", "org_QQQ=a.example", "a.example,a.example", "A.example", "=a.example", "a.example,"},
	"registration":       {"", "QQQ", "Token", "true"},
	"mail-from":          {"QQQ", "QQQ@", "QQQ <a@b", "a@example.com\r\nBcc: QQQ@example.com"},
	"smtp-url":           {"", "QQQ", "http://QQQ", "smtp://u:QQQ@", "smtp://u:QQQ@h?starttls=off", "smtp://u:QQQ@h:0", "smtp://u:QQQ%0d%0a@h"},
	"root-key":           {"", "QQQ", "QQQ456789012345678", "QQQ with spaces in between", "QQQ\twith-a-tab-in-between"},
	"master-key":         {"", "QQQ", strings.Repeat("QQQx", 8), strings.Repeat("0", 62), base64.StdEncoding.EncodeToString(make([]byte, 31))},
	"master-key-command": {" ", "QQQ\x00"},
	"old-master-keys":    {"", "QQQ", strings.Repeat("0", 64) + ",", strings.Repeat("0", 64) + ",QQQ"},
	"admin-email":        {"", "QQQ", "QQQ <a@b.c>", "a@b@QQQ", "QQQ@"},
	"admin-password":     {"", "QQQ456789"},

	"internal-advertise": {"QQQ", "QQQ:0", ":1", "0.0.0.0:1", "[::]:1", "QQQ:65536"},
}

var commonInvalid = []string{"", "QQQ", "0x", "1,5"}

func TestInvalidValuesAreRefused(t *testing.T) {
	for _, s := range settings(&Config{}) {
		values := invalid[s.name]
		if values == nil {
			values = commonInvalid
		}
		for _, value := range values {
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
