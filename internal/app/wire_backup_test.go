package app

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app/metrics"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestScheduledBackupsAreToldInStatusAndMetrics has a target that cannot be used, and then one that can.
func TestScheduledBackupsAreToldInStatusAndMetrics(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		b := f.parts.base
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.cfg.BackupTo = filepath.Join(file, "backups")
		backups := b.wireBackups()
		f.server.Status.Backup = backups.status
		m := metrics.New("test")
		backups.measure(m)
		server, err := m.Serve("127.0.0.1:0", b.log)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		attempt := func() {
			t.Helper()
			if err := backups.Job("rep_1").Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(status, line string) {
			t.Helper()
			if got := f.send("owner", "GET", "/status", ""); got.Code != 200 || !strings.Contains(got.Body.String(), status) {
				t.Errorf("got %d %s, want %s", got.Code, got.Body, status)
			}
			if got := scrape(t, server.Address); !strings.Contains(got, line) {
				t.Errorf("the metrics have no %s", line)
			}
		}
		expect(`"backup":{"next_at":"`, "steward_backup_failures_total 0")
		attempt()
		expect(`"last_error":"the backup failed: not a directory"`, "steward_backup_failures_total 1")
		if got := f.send("member", "GET", "/status", ""); strings.Contains(got.Body.String(), "backup") {
			t.Errorf("a member sees %s", got.Body)
		}
		backups.Target = t.TempDir()
		attempt()
		expect(`"backup":{"last_success_at":"`, "steward_backup_last_success_timestamp_seconds 1.")
	})
}

// scrape returns the metrics at an address.
func scrape(t *testing.T, address string) string {
	t.Helper()
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
