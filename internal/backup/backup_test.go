package backup_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"steward/internal/backup"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type part struct{ Name, Text string }

func parts() []part {
	return []part{
		{backup.KeyName, "secret"},
		{backup.RowsName("orgs", 0), "[]"},
		{backup.RowsName("audit", 0), strings.Repeat("row\n", 1000)},
		{backup.RowsName("audit", 1), ""},
		{backup.DatabaseName("db_1"), "SQLite"},
		{backup.StoreName("kv_1"), "log"},
		{backup.BlobName("a"), "bytes"},
		{backup.BlobName("b"), strings.Repeat("bytes", 100_000)},
	}
}

func write(t *testing.T, all []part) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, backup.Header{Steward: "dev", Schema: 7, CreatedAt: time.Unix(1e9, 0).UTC()})
	must(t, err)
	for _, p := range all {
		must(t, w.Add(p.Name, int64(len(p.Text)), strings.NewReader(p.Text)))
	}
	must(t, w.Close(backup.Summary{Rows: map[string]int64{"orgs": 1}}))
	return out.Bytes()
}

func read(r io.Reader) (all []part, err error) {
	b, err := backup.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for {
		p, err := b.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		all = append(all, part{p.Name, string(text)})
	}
}

func TestPartsAreReadAsWritten(t *testing.T) {
	got, err := read(bytes.NewReader(write(t, parts())))
	must(t, err)
	if diff := cmp.Diff(parts(), got); diff != "" {
		t.Error(diff)
	}
}

func TestManyPartsHaveSeveralIndexes(t *testing.T) {
	var many []part
	for i := range 10_000 {
		many = append(many, part{backup.BlobName(fmt.Sprintf("%06d", i)), fmt.Sprint(i)})
	}
	got, err := read(bytes.NewReader(write(t, many)))
	must(t, err)
	if diff := cmp.Diff(many, got); diff != "" {
		t.Error(diff)
	}
}

// TestChangedBackupsAreRefused changes a byte, or cuts the end.
func TestChangedBackupsAreRefused(t *testing.T) {
	whole := write(t, parts())
	rapid.Check(t, func(t *rapid.T) {
		changed := bytes.Clone(whole)
		i := rapid.IntRange(0, len(changed)-1).Draw(t, "byte")
		changed[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if all, err := read(bytes.NewReader(changed)); err == nil && !cmp.Equal(parts(), all) {
			t.Fatalf("byte %d: a changed backup was read", i)
		}
		cut := rapid.IntRange(0, len(whole)-1).Draw(t, "cut")
		_, err := read(bytes.NewReader(whole[:cut]))
		if !errors.Is(err, backup.ErrIncomplete) && !errors.Is(err, backup.ErrDamaged) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	})
}

func TestTrailingDataIsRefused(t *testing.T) {
	whole := write(t, parts())
	for _, rest := range [][]byte{{0}, []byte("x"), whole} {
		if _, err := read(bytes.NewReader(append(bytes.Clone(whole), rest...))); err == nil {
			t.Errorf("%.5q follows, and is accepted", rest)
		}
	}
}

// TestForeignEntriesAreRefused inserts an entry into the tar of a backup.
func TestForeignEntriesAreRefused(t *testing.T) {
	whole := write(t, parts()[3:3])
	for name, h := range map[string]tar.Header{
		"parent":        {Typeflag: tar.TypeReg, Name: "blobs/../../x"},
		"absolute":      {Typeflag: tar.TypeReg, Name: "/etc/passwd"},
		"symlink":       {Typeflag: tar.TypeSymlink, Name: "blobs/a", Linkname: "/etc"},
		"hard link":     {Typeflag: tar.TypeLink, Name: "blobs/a", Linkname: "header.json"},
		"directory":     {Typeflag: tar.TypeDir, Name: "blobs/"},
		"not in index":  {Typeflag: tar.TypeReg, Name: "blobs/a"},
		"second header": {Typeflag: tar.TypeReg, Name: "header.json"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(insertBefore(t, whole, "manifest.json", &h)); !errors.Is(err, backup.ErrDamaged) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// insertBefore returns a backup with one more entry.
func insertBefore(t *testing.T, whole []byte, before string, h *tar.Header) io.Reader {
	t.Helper()
	decoder, err := zstd.NewReader(bytes.NewReader(whole))
	must(t, err)
	defer decoder.Close()
	var out bytes.Buffer
	encoder, err := zstd.NewWriter(&out)
	must(t, err)
	to := tar.NewWriter(encoder)
	for from := tar.NewReader(decoder); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if header.Name == before {
			must(t, to.WriteHeader(h))
		}
		must(t, to.WriteHeader(header))
		_, err = io.Copy(to, from)
		must(t, err)
	}
	must(t, to.Close())
	must(t, encoder.Close())
	return &out
}

func TestPartsMustBeInOrder(t *testing.T) {
	for name, names := range map[string][]string{
		"twice":          {"blobs/a", "blobs/a"},
		"descending":     {"blobs/b", "blobs/a"},
		"sections":       {"blobs/a", "db/a/data.db"},
		"gap":            {"rows/audit/00000001"},
		"table twice":    {"rows/audit/00000000", "rows/orgs/00000000", "rows/audit/00000001"},
		"rows too late":  {"db/a/data.db", "rows/audit/00000000"},
		"name of a path": {"kv/a/../store.log"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := backup.NewWriter(io.Discard, backup.Header{})
			must(t, err)
			defer w.Abort()
			for _, n := range names {
				err = w.Add(n, 0, strings.NewReader(""))
			}
			if err == nil {
				t.Error("the last part was accepted")
			}
		})
	}
}

func TestExternalPartsAreReported(t *testing.T) {
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, backup.Header{})
	must(t, err)
	must(t, w.Add("blobs/a", 1, strings.NewReader("a")))
	must(t, w.Refer(backup.Info{Name: "blobs/b", Size: 2, SHA256: "x"}))
	must(t, w.Add("blobs/c", 1, strings.NewReader("c")))
	must(t, w.Close(backup.Summary{}))
	if _, err := read(bytes.NewReader(out.Bytes())); !errors.Is(err, backup.ErrIncomplete) {
		t.Errorf("without the parts beside it: %v", err)
	}
	b, err := backup.NewReader(&out)
	must(t, err)
	defer b.Close()
	var external []string
	b.External = func(i backup.Info) error {
		external = append(external, i.Name)
		return nil
	}
	for err == nil {
		_, err = b.Next()
	}
	if !errors.Is(err, io.EOF) || !cmp.Equal(external, []string{"blobs/b"}) {
		t.Errorf("%v, %v", external, err)
	}
}

func TestEncryption(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	must(t, err)
	secret := func(text string) func() (string, error) { return func() (string, error) { return text, nil } }
	for name, test := range map[string]struct {
		encryption   backup.Encryption
		right, wrong backup.Decryption
	}{
		"recipient": {
			backup.Encryption{Recipients: identity.Recipient().String()},
			backup.Decryption{Identities: identity.String()},
			backup.Decryption{},
		},
		"passphrase": {
			backup.Encryption{Passphrase: "correct horse", WorkFactor: cheap},
			backup.Decryption{Passphrase: secret("correct horse")},
			backup.Decryption{Passphrase: secret("battery staple")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := test.encryption.Encrypt(&out)
			must(t, err)
			_, err = w.Write(write(t, parts()))
			must(t, err)
			must(t, w.Close())
			plain, err := test.right.Decrypt(bytes.NewReader(out.Bytes()))
			must(t, err)
			got, err := read(plain)
			must(t, err)
			if diff := cmp.Diff(parts(), got); diff != "" {
				t.Error(diff)
			}
			if _, err := test.wrong.Decrypt(bytes.NewReader(out.Bytes())); err == nil {
				t.Error("opened without the secret")
			}
			plain, err = test.right.Decrypt(bytes.NewReader(out.Bytes()[:out.Len()-1]))
			if err == nil {
				_, err = read(plain)
			}
			if err == nil {
				t.Error("a cut backup was read")
			}
		})
	}
}
