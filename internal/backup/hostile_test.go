package backup_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"steward/internal/backup"
)

// replaceEntry returns a backup in which the entry of a name has other content.
func replaceEntry(t *testing.T, whole []byte, name string, content []byte) io.Reader {
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
		text, err := io.ReadAll(from)
		must(t, err)
		if header.Name == name {
			text = content
			header.Size = int64(len(text))
		}
		must(t, to.WriteHeader(header))
		_, err = to.Write(text)
		must(t, err)
	}
	must(t, to.Close())
	must(t, encoder.Close())
	return &out
}

// TestIndexesAreBounded has indexes and manifests that would take much memory.
func TestIndexesAreBounded(t *testing.T) {
	whole := write(t, parts())
	many := "[" + strings.Repeat("{},", 5000) + "{}]"
	for name, content := range map[string]string{
		"index/00000000.json": many,
		"header.json":         strings.Repeat(" ", 3<<20),
		"manifest.json":       strings.Repeat(" ", 17<<20),
	} {
		_, err := read(replaceEntry(t, whole, name, []byte(content)))
		if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "too") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOnlyBlobsAreKeptBeside has an index that says so of others, or of an impossible size.
func TestOnlyBlobsAreKeptBeside(t *testing.T) {
	whole := write(t, nil)
	for _, info := range []backup.Info{
		{Name: "key", External: true},
		{Name: "rows/orgs/00000000", External: true},
		{Name: "db/a/data.db", External: true},
		{Name: "kv/a/store.log", External: true},
		{Name: "blobs/a", Size: -1, External: true},
		{Name: "blobs/../a", External: true},
	} {
		index, err := json.Marshal([]backup.Info{info})
		must(t, err)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "index/00000000.json"}
		r, err := backup.NewReader(replaceEntry(t, mustRead(t, insertBefore(t, whole, "manifest.json", h)), h.Name, index))
		must(t, err)
		r.External = func(i backup.Info) error { return fmt.Errorf("%s was accepted", i.Name) }
		for err == nil {
			_, err = r.Next()
		}
		r.Close()
		if !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%v: %v", info, err)
		}
	}
}

func mustRead(t *testing.T, r io.Reader) []byte {
	t.Helper()
	content, err := io.ReadAll(r)
	must(t, err)
	return content
}

// TestSparseFilesAreRefused has an entry of a few bytes that is read as a petabyte of zeros.
func TestSparseFilesAreRefused(t *testing.T) {
	whole := write(t, parts()[:1])
	decoder, err := zstd.NewReader(bytes.NewReader(whole))
	must(t, err)
	defer decoder.Close()
	content := mustRead(t, decoder)
	var sparse bytes.Buffer
	sparse.Write(content[:1024]) // the header of the backup
	records := paxRecord("GNU.sparse.major", "1") + paxRecord("GNU.sparse.minor", "0") +
		paxRecord("GNU.sparse.name", "blobs/a") + paxRecord("GNU.sparse.realsize", fmt.Sprint(int64(1)<<50))
	sparse.Write(block(tar.TypeXHeader, "pax", records))
	sparse.Write(block(tar.TypeReg, "blobs/a", "1\n0\n0\n"+strings.Repeat("\x00", 506)))
	r := tar.NewReader(bytes.NewReader(sparse.Bytes()))
	for range 2 {
		h, err := r.Next()
		must(t, err)
		if h.Name == "blobs/a" && h.Size != 1<<50 {
			t.Fatalf("the entry is no sparse file: %+v", h)
		}
	}
	var out bytes.Buffer
	encoder, err := zstd.NewWriter(&out)
	must(t, err)
	_, err = encoder.Write(sparse.Bytes())
	must(t, err)
	must(t, encoder.Close())
	b, err := backup.NewReader(&out)
	must(t, err)
	defer b.Close()
	if _, err := b.Next(); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// paxRecord returns a record of an extended header, which begins with its own length.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	n := len(rest)
	for len(fmt.Sprint(n))+len(rest) != n {
		n = len(fmt.Sprint(n)) + len(rest)
	}
	return fmt.Sprint(n) + rest
}

// block returns an entry of a tar.
func block(typeflag byte, name, content string) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000600\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00", len(content), 0))
	copy(h[148:], "        ")
	h[156] = typeflag
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	padding := (512 - len(content)%512) % 512
	return append(append(h, content...), make([]byte, padding)...)
}

// TestTablesAreBounded has more tables than a schema.
func TestTablesAreBounded(t *testing.T) {
	w, err := backup.NewWriter(io.Discard, backup.Header{})
	must(t, err)
	defer w.Abort()
	for i := range 2000 {
		if err = w.Add(backup.RowsName(fmt.Sprintf("t%d", i), 0), 0, strings.NewReader("")); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("2000 tables were accepted")
	}
}
