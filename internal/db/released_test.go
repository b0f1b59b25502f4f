package db_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// released has the releases, with the name of the last migration of each and the checksum of all up to it.
// A release adds a line; no line is ever changed.
var released = []struct{ version, last, sum string }{
	{"0.1.0", "0041_identity_groups.sql", "42cf49c167494a9a81f78b12c94e7e37146398b5ece697a110df735ca23f1359"},
}

// TestReleasedMigrationsStayAsTheyAre fails if a migration of a release was changed or removed, or if one was
// added before its last.
func TestReleasedMigrationsStayAsTheyAre(t *testing.T) {
	files, err := filepath.Glob("migrations/*.sql") // in the order of their names
	must(t, err)
	for _, r := range released {
		sum := sha256.New()
		for _, file := range files {
			if filepath.Base(file) > r.last {
				break
			}
			text, err := os.ReadFile(file)
			must(t, err)
			_, err = fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(file), len(text), text)
			must(t, err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != r.sum {
			t.Errorf("the migrations of %s have the checksum %s, want %s: add a new file instead of changing these", r.version, got, r.sum)
		}
	}
}
