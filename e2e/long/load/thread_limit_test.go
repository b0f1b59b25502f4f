package load

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// maxThreads is the most threads that the process may have in TestUploadsTakeBoundedThreads. Go ends a process that needs
// more than 10,000.
const maxThreads = 1500

// TestUploadsTakeBoundedThreads has 1,500 clients of an organization store objects at once. Each occupies a thread of the
// process while its file is written. What is too much is refused with SlowDown, and another organization stores objects.
func TestUploadsTakeBoundedThreads(t *testing.T) {
	s := installation.Start(t, "sqlite")
	victim := s.SecondOrganization().NewBucket("victim")
	greedy := s.NewBucket("greedy")
	core := greedy.Core()
	var stored, slowed atomic.Int64
	var uploads sync.WaitGroup
	body := strings.Repeat("x", 64<<10)
	for i := range 1500 {
		uploads.Go(func() {
			for n := range 4 {
				_, err := core.Client.PutObject(t.Context(), greedy.Name, fmt.Sprint(i, "-", n), strings.NewReader(body), int64(len(body)),
					minio.PutObjectOptions{DisableContentSha256: true})
				switch {
				case err == nil:
					stored.Add(1)
				case minio.ToErrorResponse(err).Code == "SlowDown" && minio.ToErrorResponse(err).StatusCode == http.StatusServiceUnavailable,
					errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET): // it was refused before it had sent its body
					slowed.Add(1)
				default:
					t.Errorf("upload: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		uploads.Wait()
		close(done)
	}()
	most := 0
	waittest.True(t, "the uploads to end", func() bool {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Cmd.Process.Pid))
		s.Must(err)
		most = max(most, len(threads))
		victim.Put("a", "x")
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	t.Logf("at most %d threads, %d objects stored, %d refused", most, stored.Load(), slowed.Load())
	if most > maxThreads || stored.Load() == 0 {
		t.Errorf("%d threads, %d objects stored", most, stored.Load())
	}
}
