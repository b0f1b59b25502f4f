package app

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers lists the packages below internal from the bottom to the top. A package imports only
// packages of lower layers; those of the lowest layer may import each other. A package whose name ends in
// test is imported by tests only, and may import others of its layer.
var layers = [][]string{
	{"budget", "disk", "durable", "errs", "id", "name", "stamp", "auth", "seal", "encode", "decode", "page", "period", "sqlite", "redis", "waittest", "porttest", "blob", "backup"},
	{"db", "web"},
	{"idempotency", "job", "list"},
	{"audit"},
	{"mail", "node"},
	{"account"},
	{"apikey"},
	{"webhook"},
	{"oidc"},
	{"object"},
	{"eval"},
	{"thread"},
	{"resource"},
	{"rotation", "certificate", "status", "search"},
	{"alert"},
	{"sdk", "console"},
	{"server"},
	{"cli"},
	{"app"},
}

// folders lists the packages of folders that have several, from the bottom to the top, in the same way:
// some are parts that the package of the folder is made of, and some are built upon it.
var folders = [][]string{
	{"account"},
	{"account/organization"},

	{"webhook/send", "webhook/stats", "webhook/eventlog", "webhook/queue", "webhook/verify", "webhook/filter"},
	{"webhook"},
	{"webhook/replay", "webhook/tail"},

	{"oidc/provider/oauth"},
	{"oidc/keys", "oidc/registration", "oidc/upstream"},
	{"oidc"},
	{"oidc/provider/clientauth", "oidc/provider/flow", "oidc/provider/jwt", "oidc/provider/pages"},
	{"oidc/provider/session", "oidc/provider/metadata", "oidc/provider/passkey"},
	{"oidc/provider/grant"},
	{"oidc/provider/signin"},
	{
		"oidc/provider/authorize", "oidc/provider/device", "oidc/provider/logout", "oidc/provider/token",
		"oidc/provider/register",
	},
	{"oidc/provider/federation", "oidc/provider/links"},
	{"oidc/provider/selfservice"},
	{"oidc/provider"},

	{"object"},
	{"object/s3/sigv4"},
	{"object/s3"},

	{"redis/lua"},
	{"redis"},

	{"db"},
	{"db/tablecopy"},
	{"db/move"},

	{"resource"},
	{"resource/embedkv", "resource/kvcopy", "resource/libsql", "resource/postgres", "resource/rediskv"},

	{"thread/state", "thread/term"},
	{"thread"},

	{"cli/contexts", "cli/exit", "cli/output"},
	{"cli/session"},
	{"cli/noun"},
	{"cli/shell"},
	{"cli/account", "cli/storage", "cli/webhooks"},
	{"cli"},

	{"app/datadir", "app/tracing"},
	{"app/config", "app/metrics"},
	{"app/listeners", "app/masterkey"},
	{"app/inventory", "app/operator"},
	{"app/blobs", "app/docs", "app/doctor", "app/top"},
	{"app/backups", "app/migrate"},
	{"app"},
}

// restricted maps third-party modules to the only packages that may import them.
var restricted = map[string][]string{
	"code.dny.dev/ssrf":                   {"webhook"},
	"github.com/caddyserver/certmagic":    {"certificate"},
	"github.com/coder/websocket":          {"thread"},
	"github.com/coreos/go-oidc":           {"oidc"},
	"github.com/go-jose/go-jose":          {"oidc"},
	"github.com/go-webauthn/webauthn":     {"oidc"},
	"github.com/jackc/pgx":                {"cli", "db", "resource"},
	"github.com/pquerna/otp":              {"oidc"},
	"github.com/minio/minio-go":           {"blob", "cli", "object"},
	"github.com/prometheus/client_golang": {"app"},
	"github.com/schollz/progressbar":      {"app", "cli"},
	"github.com/spf13/cobra":              {"app", "cli"},
	"modernc.org/libc":                    {"sqlite"},
	"modernc.org/sqlite":                  {"db", "resource", "sqlite"},
	"zombiezen.com/go/sqlite":             {"db", "resource", "sqlite"},
	"github.com/tidwall/btree":            {"redis"},
	"github.com/yuin/gopher-lua":          {"redis"},
	"github.com/redis/go-redis":           {"cli", "resource"},
	"github.com/wneessen/go-mail":         {"mail"},
	"github.com/emersion/go-smtp":         {"mail"},
	"go.opentelemetry.io/otel":            {"app"},
}

func TestImportsGoDown(t *testing.T) {
	layer, within := numbered(layers), numbered(folders)
	for _, p := range packages(t, internal+"...") {
		if _, known := layer[topLevel(p.ImportPath)]; !known {
			t.Errorf("%s is missing in layers", p.ImportPath)
		}
		for _, to := range p.Imports {
			checkRestricted(t, p.ImportPath, to)
			checkLayer(t, layer, p.ImportPath, to)
			checkFolder(t, within, p.ImportPath, to)
		}
	}
}

// goPackage is a package as `go list` describes it.
type goPackage struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
}

// packages returns the packages that match the patterns.
func packages(t *testing.T, patterns ...string) []goPackage {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports"}, patterns...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for list := json.NewDecoder(bytes.NewReader(out)); list.More(); {
		var p goPackage
		if err := list.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// numbered returns the number of the layer of each package.
func numbered(layers [][]string) map[string]int {
	numbers := map[string]int{}
	for i, packages := range layers {
		for _, name := range packages {
			numbers[name] = i
		}
	}
	return numbers
}

// checkFolder checks an import of a package in the same folder.
func checkFolder(t *testing.T, within map[string]int, from, to string) {
	if !strings.HasPrefix(to, internal) || topLevel(from) != topLevel(to) || isForTests(from) {
		return
	}
	upper, known := within[strings.TrimPrefix(from, internal)]
	lower, also := within[strings.TrimPrefix(to, internal)]
	if !known || !also {
		t.Errorf("%s or %s is missing in folders", from, to)
	}
	if lower >= upper {
		t.Errorf("%s imports %s: imports go down only", from, to)
	}
}

func checkRestricted(t *testing.T, from, to string) {
	for module, only := range restricted {
		if strings.HasPrefix(to, module) && !slices.Contains(only, topLevel(from)) {
			t.Errorf("%s imports %s, which only %s may import", from, to, strings.Join(only, " and "))
		}
	}
}

func checkLayer(t *testing.T, layer map[string]int, from, to string) {
	if topLevel(from) == "cli" && strings.HasPrefix(to, internal) && topLevel(to) != "cli" {
		t.Errorf("%s imports %s: the command line uses servers over package client only", from, to)
	}
	upper, lower := topLevel(from), topLevel(to)
	if !strings.HasPrefix(to, internal) {
		return
	}
	if isForTests(to) && !isForTests(from) {
		t.Errorf("%s imports %s, which is for tests", from, to)
	}
	if upper == lower {
		return
	}
	if layer[lower] > layer[upper] || layer[lower] == layer[upper] && layer[upper] > 0 && !isForTests(from) {
		t.Errorf("%s imports %s: imports go down only", from, to)
	}
}

// isForTests reports whether a package is a fixture or a helper of tests.
func isForTests(path string) bool { return strings.HasSuffix(path, "test") }

const (
	steward  = "steward/"
	internal = steward + "internal/"
)

// topLevel returns the directory below internal that a package is in.
func topLevel(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, internal), "/")
	return name
}
