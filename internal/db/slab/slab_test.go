package slab_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/db/slab"
)

// TestNothingIsOverwritten reads rows of random values into the same variables and holds every copy against what it was made of, after
// source, variables and copies have been written over.
func TestNothingIsOverwritten(t *testing.T) {
	value := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 40), rapid.SliceOfN(rapid.Byte(), 0, 20_000), rapid.Just([]byte("again")))
	rapid.Check(t, func(t *rapid.T) {
		var s slab.Slab
		var text string
		var optional *string
		var want, got [][]byte
		var texts []string
		var optionals []*string
		for _, v := range rapid.SliceOfN(value, 1, 200).Draw(t, "values") {
			source := bytes.Clone(v)
			s.Set(&text, source)
			s.SetOptional(&optional, source)
			kept := s.Bytes(source)
			if kept == nil || cap(kept) != len(kept) {
				t.Fatalf("%d bytes with room for %d", len(kept), cap(kept))
			}
			clear(source)
			want, got, texts, optionals = append(want, v), append(got, kept), append(texts, text), append(optionals, optional)
		}
		for i, v := range want {
			if !bytes.Equal(got[i], v) || texts[i] != string(v) || *optionals[i] != string(v) {
				t.Fatalf("value %d is not what it was", i)
			}
			clear(got[i]) // bytes are their owner's to change
		}
	})
}

func TestFewPieces(t *testing.T) {
	id := []byte("thrd_01JCXQ5V3N8Z4W0000000000")
	if n := testing.AllocsPerRun(10, func() {
		var s slab.Slab
		for i := range 1000 {
			id[len(id)-1] = byte(i)
			var text string
			s.Set(&text, id)
			s.Optional(id)
		}
	}); n > 40 {
		t.Errorf("2,000 texts took %.0f pieces of memory", n)
	}
	if n := testing.AllocsPerRun(10, func() {
		var s slab.Slab
		text, optional := "", new(string)
		for range 1000 {
			s.Set(&text, []byte("org_1"))
			s.SetOptional(&optional, []byte("org_1"))
		}
	}); n > 4 {
		t.Errorf("a text that stays the same took %.0f pieces of memory", n)
	}
}
