package redis

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// scanned are the kinds of scans: how an element is added and removed, and a scan.
var scanned = []struct {
	name              string
	add, remove, scan []string
}{
	{"SCAN", []string{"SET", "", "v"}, []string{"DEL", ""}, []string{"SCAN"}},
	{"HSCAN", []string{"HSET", " k", "", "v"}, []string{"HDEL", " k", ""}, []string{"HSCAN", " k"}},
	{"SSCAN", []string{"SADD", " k", ""}, []string{"SREM", " k", ""}, []string{"SSCAN", " k"}},
	{"ZSCAN", []string{"ZADD", " k", "1", ""}, []string{"ZREM", " k", ""}, []string{"ZSCAN", " k"}},
}

// namedRequest returns a command with a name in place of "".
func namedRequest(command []string, name string) []string {
	var args []string
	for _, arg := range command {
		if arg == "" {
			arg = name
		}
		args = append(args, arg)
	}
	return args
}

// TestScansReturnWhatStays scans while other elements come and go, which also makes a small value large. What is there
// from the beginning to the end is returned, and no cursor is one that JavaScript and PHP cannot read as a number.
func TestScansReturnWhatStays(t *testing.T) {
	for _, kind := range scanned {
		t.Run(kind.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := open(t, Dir(t.TempDir()), Options{})
				w := dial(t, serve(t, s))
				stay := rapid.IntRange(1, 600).Draw(rt, "stay")
				salt := rapid.Uint64().Draw(rt, "salt")
				var requests [][]string
				for i := range stay {
					requests = append(requests, namedRequest(kind.add, fmt.Sprint("stays ", salt, i)))
				}
				w.pipeline(t, requests)
				random := rand.New(rand.NewPCG(salt, 0))
				seen := map[string]bool{}
				for cursor := "0"; ; {
					count := rapid.IntRange(1, 300).Draw(rt, "count")
					scan := append(append([]string{}, kind.scan...), cursor, "COUNT", strconv.Itoa(count))
					requests := [][]string{scan}
					for range 20 {
						command := kind.add
						if random.IntN(2) == 0 {
							command = kind.remove
						}
						requests = append(requests, namedRequest(command, fmt.Sprint("goes ", random.IntN(500))))
					}
					reply := w.pipeline(t, requests)[0].([]any)
					for _, name := range reply[1].([]any) {
						seen[name.(string)] = true
					}
					cursor = reply[0].(string)
					if n, err := strconv.ParseUint(cursor, 10, 64); err != nil || n >= 1<<53 {
						rt.Fatalf("the cursor is %s", cursor)
					}
					if cursor == "0" {
						break
					}
				}
				for i := range stay {
					if name := fmt.Sprint("stays ", salt, i); !seen[name] {
						rt.Fatalf("%q was not returned", name)
					}
				}
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}
