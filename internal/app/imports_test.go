package app

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// level says how high a room stands. A package imports only what stands lower; those of one level do not know each other, except where
// together says so.
var level = map[string]int{
	"errs": 0, "id": 0, "stamp": 0, "auth": 0, "seal": 0, "encode": 0, "page": 0, "waittest": 0,
	"db": 1, "web": 1, "job": 1,
	"account": 2, "apikey": 2, "audit": 2, "oidc": 2, "object": 2, "resource": 2, "thread": 2, "eval": 2, "webhook": 2,
	"server": 3, "sdk": 3, "console": 3, "client": 3, "cli": 3,
	"app": 4,
}

// together lists the imports within a level: the base builds on db, and the server mounts the SDK face.
var together = []string{"web>db", "job>db", "job>web", "server>sdk"}

// thirdParty lists the packages that only one room may know.
var thirdParty = map[string]string{
	"github.com/go-jose/go-jose": "oidc", "github.com/jackc/pgx": "db", "modernc.org/sqlite": "db", "github.com/pressly/goose": "db",
	"github.com/spf13/cobra": "app", "github.com/prometheus/client_golang": "app", "github.com/coder/websocket": "thread",
	"code.dny.dev/ssrf": "webhook",
}

// TestImportsGoDown reads the imports of every package of the house.
func TestImportsGoDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "steward/internal/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		from, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		for to := range strings.FieldsSeq(imports) {
			checkImport(t, from, to)
		}
	}
}

func checkImport(t *testing.T, from, to string) {
	room, inside := roomOf(from), strings.HasPrefix(to, "steward/internal/")
	for prefix, only := range thirdParty {
		if strings.HasPrefix(to, prefix) && room != only {
			t.Errorf("%s imports %s, which only %s may know", from, to, only)
		}
	}
	if !inside || roomOf(to) == room {
		return
	}
	higher, known := level[room]
	lower, knownToo := level[roomOf(to)]
	if !known || !knownToo {
		t.Errorf("%s or %s is a room that the table of levels does not know", room, roomOf(to))
	}
	if lower > higher || lower == higher && higher > 0 && !slices.Contains(together, room+">"+roomOf(to)) {
		t.Errorf("%s imports %s: imports go down only", from, to)
	}
}

// roomOf gives the folder below internal that a package stands in.
func roomOf(path string) string {
	room, _, _ := strings.Cut(strings.TrimPrefix(path, "steward/internal/"), "/")
	return room
}
