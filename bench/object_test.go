//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/db"
)

// objectClients is the number of clients of small objects, and of writers that they are compared with.
const objectClients = 16

const (
	smallObject = 4 << 10
	largeObject = 16_000_000
	hugeObject  = 1_000_000_000
)

// TestObjectPut compares durable PUTs of 4 KiB with writers that create, sync and rename files.
func TestObjectPut(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		b := in.bucket()
		body := bytes.Repeat([]byte("x"), smallObject)
		hash := hashOf(body)
		ratio, ref, got := compare(5,
			func() result { return rawWrites(t, in.rawDir(), objectClients, span, body) },
			func() result { return b.puts(objectClients, span, hash, body) })
		report(in.engine()+": PUT of 4 KiB, 16 clients, to create+fsync+rename", ratio, atLeast(0.4),
			"%.0f/s of %.0f/s; p50 %s, p99 %s, CPU %.3f ms", got.rate, ref.rate, ms(got.quantile(0.5)), ms(got.quantile(0.99)), got.cpu)
	})
}

// rawDir returns a new directory on the file system of the blobs. It stays until the test has ended:
// where files were removed a moment ago, ext4 needs several times as long to create others.
func (in *installation) rawDir() string {
	in.t.Helper()
	dir, err := os.MkdirTemp(in.Dir, "raw-")
	in.Must(err)
	return dir
}

// rawWrites measures writers that create a file, sync it and rename it, each in a directory of its own.
func rawWrites(t *testing.T, dir string, writers int, duration time.Duration, body []byte) result {
	t.Helper()
	return measure(t, server{pid: os.Getpid()}, writers, func(c int, start time.Time) (times []time.Duration, err error) {
		own := filepath.Join(dir, fmt.Sprint(c))
		if err := os.MkdirAll(own, 0o700); err != nil {
			return nil, err
		}
		for i := 0; time.Since(start) < duration; i++ {
			began := time.Now()
			name := filepath.Join(own, fmt.Sprint(i))
			if err := writeFile(name, bytes.NewReader(body)); err != nil {
				return nil, err
			}
			times = append(times, time.Since(began))
		}
		return times, nil
	})
}

// writeFile creates a file under a temporary name, syncs and renames it.
func writeFile(name string, from io.Reader) error {
	f, err := os.Create(name + "~")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(name+"~", name)
}

// TestObjectGet compares GETs of 4 KiB and 16 MB with net/http serving the files of the same objects.
func TestObjectGet(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		t.Run("small", func(t *testing.T) {
			compareGets(t, database, "4 KiB, 16 clients", smallObject, 1000, objectClients, atLeast(0.3))
		})
		t.Run("large", func(t *testing.T) { compareGets(t, database, "16 MB, 2 clients", largeObject, 10, 2, goal{}) })
	})
}

func compareGets(t *testing.T, database, what string, size, objects, clients int, g goal) {
	t.Helper()
	in := install(t, database)
	b := in.bucket()
	body := bytes.Repeat([]byte("x"), size)
	hash := hashOf(body)
	keys := make([]string, objects)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		b.do(b.sign("PUT", keys[i], hash, int64(size), bytes.NewReader(body)))
	}
	dir, files := in.blobFiles()
	if len(files) != objects {
		t.Fatalf("%d files of %d objects", len(files), objects)
	}
	static := startRole(t, "files", "BENCH_DIR="+dir)
	requests := make([][]byte, objects)
	for i, file := range files {
		requests[i] = request("GET", "/"+file, "", nil)
	}
	ratio, ref, got := compare(5,
		func() result {
			return load(t, static, clients, span, func(conn, i int) []byte { return requests[(conn+clients*i)%objects] })
		},
		func() result { return b.gets(clients, span, keys) })
	report(fmt.Sprintf("%s: GET of %s, to net/http with files", in.engine(), what), ratio, g,
		"%.0f/s of %.0f/s; p50 %s, p99 %s, CPU %.3f (%.3f) ms",
		got.rate, ref.rate, ms(got.quantile(0.5)), ms(got.quantile(0.99)), got.cpu, ref.cpu)
}

// TestObjectLarge compares PUTs of 16 MB with a copy of a file that is synced.
func TestObjectLarge(t *testing.T) {
	const clients = 2
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		b := in.bucket()
		body := bytes.Repeat([]byte("x"), largeObject)
		file := filepath.Join(in.Dir, "file")
		in.Must(os.WriteFile(file, body, 0o600))
		for _, hash := range []string{unsigned, hashOf(body)} {
			what, g := "signed with their hash", goal{}
			if hash == unsigned {
				what, g = "not hashed by the client", atLeast(0.6)
			}
			ratio, ref, got := compare(5,
				func() result { return fileCopies(t, file, in.rawDir(), clients, span) },
				func() result { return b.puts(clients, span, hash, body) })
			report(fmt.Sprintf("%s: PUT of 16 MB, %s, to a copy with fsync", in.engine(), what), ratio, g,
				"%.0f MB/s of %.0f MB/s; CPU %.1f ms", 16*got.rate, 16*ref.rate, got.cpu)
		}
	})
}

// fileCopies measures copies of a file into a directory by some writers at the same time.
func fileCopies(t *testing.T, from, dir string, writers int, duration time.Duration) result {
	t.Helper()
	return measure(t, server{pid: os.Getpid()}, writers, func(c int, start time.Time) (times []time.Duration, err error) {
		for i := 0; time.Since(start) < duration; i++ {
			began := time.Now()
			if err := copyFile(from, filepath.Join(dir, fmt.Sprintf("%d-%d", c, i))); err != nil {
				return nil, err
			}
			times = append(times, time.Since(began))
		}
		return times, nil
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return writeFile(to, in)
}

// TestObjectMemory measures the memory while an object of 1 GB is uploaded and downloaded.
func TestObjectMemory(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		b := in.bucket()
		idle := in.RSS()
		b.do(b.sign("PUT", "huge", unsigned, hugeObject, io.LimitReader(zeros{}, hugeObject)))
		afterPut := in.PeakRSS() - idle
		b.do(b.sign("GET", "huge", hashOf(nil), 0, nil))
		report(in.engine()+": memory while 1 GB is streamed, MB over idle", float64(in.PeakRSS()-idle)/1e6, atMost(100),
			"idle %.0f MB, after the upload %.0f MB over it", float64(idle)/1e6, float64(afterPut)/1e6)
	})
}

// zeros is an endless source.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
