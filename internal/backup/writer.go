package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// window bounds how far back zstd looks, and so the memory that both sides need.
const window = 2 << 20

// Writer writes a backup. Only one goroutine may use it.
type Writer struct {
	compressed *zstd.Encoder
	tar        *tar.Writer
	order      order
	manifest   manifest
	index      []Info
	created    time.Time
	sum        hash.Hash
	buf        []byte
}

// NewWriter begins a backup. It sets the header's format and version.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
		zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return nil, fmt.Errorf("begin the backup: %w", err)
	}
	h.Format = format
	h.Version = Version
	b := &Writer{
		compressed: compressed, tar: tar.NewWriter(compressed), created: h.CreatedAt, sum: sha256.New(), buf: make([]byte, 256<<10),
	}
	b.manifest.Header, err = b.addJSON(headerName, h)
	return b, err
}

// Add writes a part with exactly size bytes.
func (b *Writer) Add(name string, size int64, r io.Reader) error {
	if err := b.order.follows(name); err != nil {
		return err
	}
	info, err := b.add(name, size, r)
	if err != nil {
		return err
	}
	return b.list(info)
}

// Refer lists a part whose bytes are kept outside this stream.
func (b *Writer) Refer(info Info) error {
	if err := b.order.follows(info.Name); err != nil {
		return err
	}
	info.External = true
	return b.list(info)
}

// Close writes the manifest. Without it, the backup is incomplete.
func (b *Writer) Close(s Summary) error {
	if err := b.flush(); err != nil {
		return err
	}
	b.manifest.Summary = s
	if _, err := b.addJSON(manifestName, b.manifest); err != nil {
		return err
	}
	if err := b.tar.Close(); err != nil {
		return fmt.Errorf("end the backup: %w", err)
	}
	if err := b.compressed.Close(); err != nil {
		return fmt.Errorf("end the backup: %w", err)
	}
	return nil
}

// Abort releases the memory of an unfinished backup. You may call it after Close.
func (b *Writer) Abort() {
	b.compressed.Reset(io.Discard)
	_ = b.compressed.Close() // writes nothing
}

// add writes an entry and returns its hash.
func (b *Writer) add(name string, size int64, r io.Reader) (Info, error) {
	err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: b.created})
	if err != nil {
		return Info{}, fmt.Errorf("write %s: %w", name, err)
	}
	b.sum.Reset()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(b.tar, b.sum)}, struct{ io.Reader }{io.LimitReader(r, size)}, b.buf)
	if err != nil {
		return Info{}, fmt.Errorf("write %s: %w", name, err)
	}
	if n != size {
		return Info{}, fmt.Errorf("write %s: it has %d bytes instead of %d", name, n, size)
	}
	return Info{Name: name, Size: size, SHA256: hex.EncodeToString(b.sum.Sum(nil))}, nil
}

func (b *Writer) addJSON(name string, value any) (Info, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return Info{}, fmt.Errorf("encode %s: %w", name, err)
	}
	return b.add(name, int64(len(text)), bytes.NewReader(text))
}

// list adds a part to the index.
func (b *Writer) list(info Info) error {
	b.index = append(b.index, info)
	b.manifest.Parts++
	b.manifest.Bytes += info.Size
	if len(b.index) < indexed {
		return nil
	}
	return b.flush()
}

// flush writes an index for the parts since the last one.
func (b *Writer) flush() error {
	if len(b.index) == 0 {
		return nil
	}
	info, err := b.addJSON(indexName(len(b.manifest.Indexes)), b.index)
	if err != nil {
		return err
	}
	b.manifest.Indexes = append(b.manifest.Indexes, info)
	b.index = b.index[:0]
	return nil
}

func indexName(n int) string { return fmt.Sprintf("index/%08d.json", n) }
