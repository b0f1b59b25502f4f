//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// TestObjectGateway compares the CPU time of S3 requests with versitygw's on files (its posix backend), which never
// syncs what it writes.
func TestObjectGateway(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		both := []*bucket{in.gateway(), in.bucket()}
		contents := map[string]int{"1m": 1 << 20, "64m": 64 << 20}
		for i := range 1000 {
			contents[fmt.Sprintf("folders/%03d/%d", i/10, i%10)] = 100
		}
		for _, b := range both {
			for key, size := range contents {
				body := bytes.Repeat([]byte("x"), size)
				b.do(b.sign("PUT", key, hashOf(body), int64(size), bytes.NewReader(body)))
			}
		}
		small := bytes.Repeat([]byte("x"), smallObject)
		for _, m := range []struct {
			what string
			load func(b *bucket) result
			most float64
		}{
			{"GET of 1 MiB, 4 clients", func(b *bucket) result { return b.gets(4, span, []string{"1m"}) }, 1.1},
			{"GET of 64 MiB, 2 clients", func(b *bucket) result { return b.gets(2, span, []string{"64m"}) }, 1.1},
			{"list of 100 folders", func(b *bucket) result { return b.gets(4, span, []string{"?list-type=2&prefix=folders/&delimiter=/"}) }, 2},
			{"list of 1,000 objects", func(b *bucket) result { return b.gets(4, span, []string{"?list-type=2&prefix=folders/"}) }, 0.3},
			{"PUT of 4 KiB, 16 clients", func(b *bucket) result { return b.puts(objectClients, span, hashOf(small), small) }, 1.2},
		} {
			t.Run(m.what, func(t *testing.T) {
				var ratios []float64
				var ref, got result
				for range 5 {
					ref = m.load(both[0])
					got = m.load(both[1])
					ratios = append(ratios, got.cpu/ref.cpu)
				}
				report(fmt.Sprintf("%s: CPU of %s, to versitygw", in.engine(), m.what), median(ratios), atMost(m.most),
					"%.3f ms of %.3f ms; %.0f/s of %.0f/s", got.cpu, ref.cpu, got.rate, ref.rate)
			})
		}
	})
}

// gateway starts versitygw on the installation's file system, and returns a bucket there.
func (in *installation) gateway() *bucket {
	in.t.Helper()
	out, err := exec.Command("../tools/versitygw").Output()
	in.Must(err)
	b := &bucket{in: in, Name: "bench", Access: "bench", Secret: "bench-secret", Region: "us-east-1"}
	b.address = porttest.Address(porttest.Free(in.t))
	cmd := exec.Command(strings.TrimSpace(string(out)), "--access", b.Access, "--secret", b.Secret, "--port", b.address, "--quiet", "--keep-alive",
		"--health", "/healthz", "posix", in.rawDir())
	cmd.Stderr = os.Stderr
	in.Must(cmd.Start())
	b.pid = cmd.Process.Pid
	in.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waittest.True(in.t, "versitygw", func() bool {
		r, err := http.Get("http://" + b.address + "/healthz")
		return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	b.do(b.sign("PUT", "", hashOf(nil), 0, nil))
	return b
}
