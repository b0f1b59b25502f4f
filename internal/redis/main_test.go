package redis

import (
	"flag"
	"os"
	"testing"
)

// TestMain has the tests draw the same sequences each time, unless a seed or a number of checks is given:
// go test ./internal/redis -rapid.checks=10000 draws others.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.seed" || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
