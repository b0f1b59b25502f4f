package backups

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"steward/internal/app/config"
	"steward/internal/backup"
	"steward/internal/db"
)

// forged returns a backup with a header and parts of somebody who knows the format.
func forged(t *testing.T, h backup.Header, parts ...[2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, h)
	must(t, err)
	for _, p := range parts {
		must(t, w.Add(p[0], int64(len(p[1])), strings.NewReader(p[1])))
	}
	must(t, w.Close(backup.Summary{}))
	return out.Bytes()
}

// TestForgedBackupsAreRefused has backups whose manifests agree with what they have, and which lie otherwise.
func TestForgedBackupsAreRefused(t *testing.T) {
	f := newFixture(t, db.SQLite)
	r, err := backup.NewReader(bytes.NewReader(f.backup(t, Request{})))
	must(t, err)
	h := r.Header()
	r.Close()
	with := func(change func(*backup.Header)) backup.Header {
		other := h
		change(&other)
		return other
	}
	blobID := "01" + strings.Repeat("a", 24)
	for name, content := range map[string][]byte{
		"no schema":         forged(t, with(func(h *backup.Header) { h.Schema = 0 })),
		"negative schema":   forged(t, with(func(h *backup.Header) { h.Schema = -1 })),
		"schema of later":   forged(t, with(func(h *backup.Header) { h.Schema = math.MaxInt64 })),
		"last number":       forged(t, with(func(h *backup.Header) { h.NextNumber = math.MaxInt64 })),
		"negative number":   forged(t, with(func(h *backup.Header) { h.NextNumber = -1 })),
		"unknown table":     forged(t, h, [2]string{"rows/sqlite_master/00000000", "[]\n"}),
		"unknown column":    forged(t, h, [2]string{"rows/orgs/00000000", `["id) VALUES (1); --"]` + "\n"}),
		"column twice":      forged(t, h, [2]string{"rows/blobs/00000000", `["id","id"]` + "\n" + `["` + blobID + `","x"]` + "\n"}),
		"too few values":    forged(t, h, [2]string{"rows/blobs/00000000", `["id","garbage_at"]` + "\n" + `["x"]` + "\n"}),
		"another type":      forged(t, h, [2]string{"rows/blobs/00000000", `["id"]` + "\n" + `[{"a":1}]` + "\n"}),
		"database of none":  forged(t, h, [2]string{backup.DatabaseName(f.dbID), ""}),
		"database of no id": forged(t, h, [2]string{backup.DatabaseName("x"), ""}),
		"blob of none":      forged(t, h, [2]string{backup.BlobName(blobID), "x"}),
		"blob of no id":     forged(t, h, [2]string{backup.BlobName("x"), "x"}),
		"blob without":      forged(t, h, [2]string{"rows/blobs/00000000", `["id"]` + "\n" + `["` + blobID + `"]` + "\n"}),
		"wrong key":         forged(t, h, [2]string{backup.KeyName, strings.Repeat("k", 32)}),
		"endless key":       forged(t, h, [2]string{backup.KeyName, strings.Repeat("k", 1<<20)}),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := target(t, db.SQLite)
			if !strings.HasSuffix(name, " key") {
				cfg.MasterKey = config.Secret(f.key)
			}
			_, err := restoreBytes(t.Context(), cfg, content)
			if err == nil {
				t.Fatal("it was restored")
			}
			if entries, err := os.ReadDir(cfg.Data); err == nil && len(entries) > 1 {
				t.Errorf("%d files are left", len(entries))
			}
		})
	}
}
