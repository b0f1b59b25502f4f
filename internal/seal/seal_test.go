package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/seal"
)

func ring(t testing.TB, keys ...byte) *seal.Ring {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, seal.KeySize))
	}
	r, err := seal.NewRing(all...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnlyUnmodifiedValuesOpen(t *testing.T) {
	r := ring(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed := r.Seal("a", plain)
		got, err := r.Open("a", sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("Open returns %q, %v; want %q", got, err, plain)
		}
		if _, err := r.Open("b", sealed); !errors.Is(err, seal.ErrKey) {
			t.Fatalf("opens for another purpose: %v", err)
		}
		i := rapid.IntRange(0, len(sealed)-1).Draw(t, "byte")
		sealed[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := r.Open("a", sealed); !errors.Is(err, seal.ErrKey) {
			t.Fatalf("opens with byte %d modified: %v", i, err)
		}
		cut := rapid.IntRange(0, len(sealed)-1).Draw(t, "cut")
		if _, err := r.Open("a", sealed[:cut]); !errors.Is(err, seal.ErrKey) {
			t.Fatalf("opens when truncated to %d bytes: %v", cut, err)
		}
	})
}

func TestOldKeyOpensOldValuesOnly(t *testing.T) {
	old := ring(t, 1).Seal("p", []byte("secret"))
	both := ring(t, 2, 1)
	if got, err := both.Open("p", old); err != nil || string(got) != "secret" {
		t.Fatalf("the old key does not open an old value: %v", err)
	}
	if _, err := ring(t, 1).Open("p", both.Seal("p", nil)); !errors.Is(err, seal.ErrKey) {
		t.Fatalf("the old key opens a new value: %v", err)
	}
}

// TestValuesOfVersionOneOpen has a value that an earlier version has sealed.
func TestValuesOfVersionOneOpen(t *testing.T) {
	old, err := hex.DecodeString("010a113a117902bc545fc8c7a061f309c56fc397268735d0e9e99b214b1689f2276915fa52e085")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ring(t, 1).Open("p", old); err != nil || string(got) != "secret" {
		t.Fatalf("Open returns %q, %v", got, err)
	}
	if _, err := ring(t, 1).Open("other", old); !errors.Is(err, seal.ErrKey) {
		t.Fatalf("opens for another purpose: %v", err)
	}
}

// BenchmarkSeal seals and opens what the headers of a request are usually like.
func BenchmarkSeal(b *testing.B) {
	r := ring(b, 1)
	plain := bytes.Repeat([]byte("x"), 700)
	sealed := r.Seal("p", plain)
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			r.Seal("p", plain)
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.Open("p", sealed); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestKeyFileIsReadAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := seal.KeyFile(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a file it returns %v", err)
	}
	key := seal.NewKey()
	if err := seal.WriteKeyFile(dir, key); err != nil {
		t.Fatal(err)
	}
	if read, err := seal.KeyFile(dir); err != nil || !bytes.Equal(key, read) || len(key) != seal.KeySize {
		t.Fatalf("another key is read: %v", err)
	}
	path := filepath.Join(dir, "master.key")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("others can read the file: %v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.KeyFile(dir); err == nil {
		t.Fatal("an invalid file is accepted")
	}
}

func TestMACDependsOnTheCurrentKeyPurposeAndText(t *testing.T) {
	mac := ring(t, 1).MAC("a", "text")
	if !bytes.Equal(mac, ring(t, 1, 2).MAC("a", "text")) {
		t.Error("a ring with the same current key makes another MAC")
	}
	for name, other := range map[string][]byte{
		"key": ring(t, 2, 1).MAC("a", "text"), "purpose": ring(t, 1).MAC("b", "text"), "text": ring(t, 1).MAC("a", "texts"),
	} {
		if bytes.Equal(mac, other) {
			t.Errorf("another %s makes the same MAC", name)
		}
	}
	for _, keys := range [][]byte{{1}, {1, 2}, {2, 1}} {
		if !ring(t, keys...).CheckMAC(mac, "a", "text") {
			t.Errorf("a ring of %v does not accept the MAC", keys)
		}
	}
	if ring(t, 2).CheckMAC(mac, "a", "text") || ring(t, 1).CheckMAC(mac, "b", "text") || ring(t, 1).CheckMAC(mac, "a", "texts") {
		t.Error("the MAC is accepted with another key, purpose or text")
	}
}

func TestKeyFileOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := seal.WriteKeyFile(dir, seal.NewKey()); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o644: false, 0o604: false, 0o602: false} {
		if err := os.Chmod(filepath.Join(dir, "master.key"), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.KeyFile(dir); (err == nil) != ok {
			t.Errorf("with mode %o it returns %v", mode, err)
		}
	}
}

func TestKeyIDsTellKeysApart(t *testing.T) {
	one, both := ring(t, 1), ring(t, 2, 1)
	sealed := one.Seal("p", []byte("secret"))
	if id, ok := seal.KeyOf(sealed); !ok || id != one.KeyID() || id == both.KeyID() {
		t.Errorf("the value has the key %s, %t", id, ok)
	}
	if !one.IsCurrent(sealed[:5]) || both.IsCurrent(sealed) || !both.HasKey(one.KeyID()) || one.HasKey(both.KeyID()) {
		t.Error("the keys of rings are wrong")
	}
	if _, ok := seal.KeyOf([]byte("plain text")); ok {
		t.Error("text is taken for a sealed value")
	}
}
