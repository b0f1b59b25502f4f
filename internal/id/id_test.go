package id_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/id"
)

func TestIdentifiersSortByCreation(t *testing.T) {
	var made []string
	for range 1000 {
		made = append(made, id.New(id.Webhook))
	}
	if !slices.IsSorted(made) || len(slices.Compact(slices.Clone(made))) != len(made) {
		t.Fatal("identifiers are not sorted, or not unique")
	}
	if !id.Is(id.Webhook, made[0]) || id.Is(id.Key, made[0]) {
		t.Fatalf("Is does not recognize the prefix of %s", made[0])
	}
	later := id.At(id.Webhook, time.Now().Add(time.Hour))
	if later <= made[999] {
		t.Fatal("a later identifier does not sort later")
	}
}

func TestIdentifiersOfTheSameMillisecondSortByCreation(t *testing.T) {
	at := time.Now()
	var made []string
	for i := range 1000 {
		made = append(made, id.At(id.Receipt, at))
		id.At(id.Request, at.Add(time.Duration(i%3)*time.Millisecond))
		id.At(id.Receipt, at.Add(time.Millisecond))
	}
	if !slices.IsSorted(made) {
		t.Fatal("identifiers of the same millisecond are not sorted")
	}
}

func TestIsRefuses(t *testing.T) {
	for _, s := range []string{
		"", "wh_", "wh_01", "wh_01ARZ3NDEKTSV4RRFFQ69G5FAV", "wh_01arz3ndektsv4rrffq69g5fav0",
		"wh_01arz3ndektsv4rrffq69g5fa!", "wh-01arz3ndektsv4rrffq69g5fav",
	} {
		if id.Is(id.Webhook, s) {
			t.Errorf("Is(%q) is true", s)
		}
	}
}

func TestForeign(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "thrd_x.y:z-1": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false,
		".": false, "..": false, ".a": true, "a b": false, "a/b": false, "ä": false, "a\x00": false,
	} {
		if id.Foreign(s) != want {
			t.Errorf("Foreign(%q) = %v, want %v", s, !want, want)
		}
	}
}

func TestSecretIsUniform(t *testing.T) {
	s := id.Secret(62_000)
	if len(s) != 62_000 || strings.Trim(s, id.Base62) != "" {
		t.Fatalf("%d characters, some of them not base62", len(s))
	}
	for _, c := range id.Base62 {
		if n := strings.Count(s, string(c)); n < 800 || n > 1200 { // 1000 expected, standard deviation 31
			t.Errorf("%q occurs %d times in 62,000", c, n)
		}
	}
}

func TestBlobTime(t *testing.T) {
	at := time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)
	s := id.Blob(at)
	if got, ok := id.BlobTime(s); !ok || !got.Equal(at) || len(s) != 26 {
		t.Errorf("%s has the time %s, %v", s, got, ok)
	}
	for _, s := range []string{"", "x", strings.ToUpper(id.Blob(at)), id.New(id.Key), "../../../../../../etc/hosts"} {
		if _, ok := id.BlobTime(s); ok {
			t.Errorf("%q is taken for an identifier", s)
		}
	}
}
