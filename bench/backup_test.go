//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
)

const (
	backupObjects  = 600
	backupReceipts = 100_000
)

// archiveScript compresses the data directory, and a dump of the database if that is on a server.
const archiveScript = `{ [ -z "$2" ] || "$(ls /usr/lib/postgresql/*/bin/pg_dump | tail -1)" "$2"; tar -c -C "$0" .; } | zstd -q -f -o "$1"`

// TestBackup compares the time of a backup with that of tar and zstd over the data directory, and of
// pg_dump, and reports the memory that it takes.
func TestBackup(t *testing.T) {
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			in := install(t, database)
			b := in.bucket()
			body := backupText(0, 512<<10)
			for i := range backupObjects {
				body := backupText(uint64(i), 512<<10)
				b.do(b.sign("PUT", fmt.Sprint(i), hashOf(body), int64(len(body)), bytes.NewReader(body)))
			}
			in.fill(backupReceipts, func(tx *db.Tx, from, to int) error { return insertReceipts(tx, body, from, to) })
			idle := in.PeakRSS()
			dir := t.TempDir()
			archive := func() result {
				began := time.Now()
				in.Must(exec.Command("bash", "-e", "-o", "pipefail", "-c", archiveScript, in.Dir, filepath.Join(dir, "tar"), in.Database).Run())
				return result{rate: 1 / time.Since(began).Seconds()}
			}
			n := 0
			create := func() result {
				n++
				file := filepath.Join(dir, fmt.Sprint(n))
				began := time.Now()
				if out, err := in.Command("backup", file).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return result{rate: 1 / time.Since(began).Seconds()}
			}
			ratio, ref, got := compare(3, archive, create)
			report("backup of "+database+", rate beside tar and zstd", ratio, atLeast(0.5), "%.1f s of %.1f s", 1/got.rate, 1/ref.rate)
			report("backup of "+database+", memory over idle", float64(in.PeakRSS()-idle)/(1<<20), atMost(100), "MiB")
			info, err := os.Stat(filepath.Join(dir, "1"))
			in.Must(err)
			report("backup of "+database+", size", float64(info.Size())/(1<<20), goal{}, "MiB")
		})
	}
}

// backupText returns text that can be compressed by about a half.
func backupText(seed uint64, size int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, size)
	for i := range text {
		text[i] = "0123456789abcdef"[random.IntN(16)]
	}
	return text
}

// insertReceipts inserts receipts of a kilobyte.
func insertReceipts(tx *db.Tx, body []byte, from, to int) error {
	type receipt struct {
		Key  string
		Body []byte
	}
	var all db.Bulk[receipt]
	for i := from; i < to; i++ {
		at := i * 7 % (len(body) - 1024)
		all = append(all, receipt{fmt.Sprintf("01jbackup%043d", i), body[at : at+1024]})
	}
	return all.Send(tx, `INSERT INTO webhook_receipts (key, date, method, query, remote_addr, content_type, size, headers, body)
		SELECT v.key, 1, 'POST', '', '127.0.0.1', 'text/plain', 1024, '', v.body FROM {v}`)
}
