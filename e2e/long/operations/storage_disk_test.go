package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/e2e/process"
)

// TestFullDiskRefusesObjectsAndLosesNone fills the file system of the objects' bytes. What is
// acknowledged is there with its bytes, everything else gets SlowDown and leaves nothing, and writes
// succeed when there is space again.
func TestFullDiskRefusesObjectsAndLosesNone(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			s := installation.Prepare(t, database, "--disk-reserve", "0")
			blobs := filepath.Join(s.Dir, "blobs")
			s.Must(os.MkdirAll(blobs, 0o700))
			mountSmall(t, blobs, 24<<20, os.Getuid(), os.Getgid())
			space := ballast(s, blobs, 8<<20)
			s.Start()
			b := s.NewBucket("full")
			content := strings.Repeat("x", 1<<20)
			var acknowledged []string
			for i := range 40 {
				key := fmt.Sprintf("%02d", i)
				err := b.TryPut(key, content, minio.PutObjectOptions{})
				if err == nil {
					acknowledged = append(acknowledged, key)
					continue
				}
				b.WantCode("a write to a full disk", err, "SlowDown")
			}
			if n := len(acknowledged); n < 8 || n > 16 {
				t.Errorf("%d writes of 1 MiB were acknowledged", n)
			}
			if keys := b.Keys(""); !slices.Equal(keys, acknowledged) {
				t.Errorf("listed are %v, acknowledged %v", keys, acknowledged)
			}
			s.Must(os.Remove(space))
			b.Put("later", content)
			for _, key := range append(acknowledged, "later") {
				if b.Get(key) != content {
					t.Errorf("%s has other bytes", key)
				}
			}
		})
	}
}
