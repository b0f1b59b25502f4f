package budget_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/budget"
)

func TestReadAllReturnsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := bytes.Repeat([]byte("x"), rapid.IntRange(0, 70_000).Draw(t, "size"))
		announced := rapid.SampledFrom([]int64{-1, int64(len(want)), 10}).Draw(t, "announced")
		pool := budget.NewPool(1<<20, 128<<10)
		c := pool.Charge("org", "")
		got, err := budget.ReadAll(c, iotest.HalfReader(bytes.NewReader(want)), announced)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
		}
		if c.Used() < int64(cap(got)) {
			t.Fatalf("%d are charged for %d", c.Used(), cap(got))
		}
	})
}

// TestReadAllChargesWhatArrived: a client that announces a megabyte and sends one byte is charged for
// one small buffer.
func TestReadAllChargesWhatArrived(t *testing.T) {
	pool := budget.NewPool(8<<20, 1<<20)
	c := pool.Charge("org", "")
	in, out := net.Pipe()
	defer out.Close()
	go func() { _, _ = out.Write([]byte("x")) }()
	read := 0
	_, err := budget.ReadAll(c, readFunc(func(b []byte) (int, error) {
		if read > 0 {
			if c.Used() > 4<<10 {
				t.Errorf("%d are charged after one byte", c.Used())
			}
			return 0, io.ErrUnexpectedEOF
		}
		n, err := in.Read(b)
		read += n
		return n, err
	}), 1<<20)
	if !errors.Is(err, io.ErrUnexpectedEOF) || c.Used() != 0 {
		t.Errorf("%v, %d stay charged", err, c.Used())
	}
}

func TestReadAllStopsWhenThePoolIsFull(t *testing.T) {
	pool := budget.NewPool(800<<10, 100<<10)
	c := pool.Charge("org", "")
	_, err := budget.ReadAll(c, strings.NewReader(strings.Repeat("x", 700<<10)), -1)
	if !errors.Is(err, budget.ErrFull) || pool.Usage().Common != 0 {
		t.Errorf("%v, %+v", err, pool.Usage())
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// TestPace has clients that send at different speeds.
func TestPace(t *testing.T) {
	pace := budget.Pace{Grace: 10 * time.Second, Rate: 1000, Limit: time.Minute}
	for name, tt := range map[string]struct {
		size, times int
		pause       time.Duration
		want        error
	}{
		"steady":              {1000, 50, time.Second, nil},
		"nothing":             {0, 1, time.Hour, os.ErrDeadlineExceeded},
		"one byte at a time":  {1, 1000, time.Second, os.ErrDeadlineExceeded},
		"longer than allowed": {2000, 100, time.Second, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, out := net.Pipe() // its deadlines use the clock of the test
				var sender sync.WaitGroup
				defer sender.Wait()
				defer in.Close()
				sender.Go(func() {
					defer out.Close()
					for range tt.times {
						time.Sleep(tt.pause)
						if _, err := out.Write(make([]byte, tt.size)); err != nil {
							return
						}
					}
				})
				_, err := io.Copy(io.Discard, pace.Reader(in, in.SetReadDeadline))
				if !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			})
		})
	}
}
