package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Reader reads and checks a backup. Only one goroutine may use it.
type Reader struct {
	// External is called for each part whose bytes are kept outside the stream. If it is nil, we refuse such
	// parts.
	External func(Info) error
	// Listed is called for each part after its index, in the order of the names. It may be nil.
	Listed func(Info) error

	header     Header
	source     *source
	compressed *zstd.Decoder
	tar        *tar.Reader
	order      order
	manifest   manifest
	first      Info // the header
	indexes    []Info
	parts      []Info // not yet in an index
	count      int64
	bytes      int64
	current    *entry
}

// entry is the tar entry that we are reading.
type entry struct {
	info Info
	n    int64
	sum  hash.Hash
}

// Part is a part of a backup. Read it before the next call to Next.
type Part struct {
	Name string
	Size int64
	// Section and ID come from Parse.
	Section Section
	ID      string
	io.Reader
}

// NewReader reads a backup's header. You must call Close at the end.
func NewReader(r io.Reader) (*Reader, error) {
	from := &source{Reader: r}
	compressed, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(4*window),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	b := &Reader{source: from, compressed: compressed, tar: tar.NewReader(compressed)}
	if err := b.readHeader(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close releases the reader's memory.
func (b *Reader) Close() { b.compressed.Close() }

// Header returns the header.
func (b *Reader) Header() Header { return b.header }

// Summary returns the manifest's summary. Call it after Next has returned io.EOF.
func (b *Reader) Summary() Summary { return b.manifest.Summary }

func (b *Reader) readHeader() error {
	h, err := b.nextEntry()
	if err != nil {
		return err
	}
	if h.Name != headerName {
		return damaged("it does not begin with a header")
	}
	if b.first, err = b.readJSON(h, &b.header); err != nil {
		return err
	}
	if b.header.Format != format {
		return errors.New("this is not a backup of Steward")
	}
	if b.header.Version < 1 || b.header.Version > Version {
		return fmt.Errorf("the backup has version %d of the format, and this program reads versions up to %d: use a newer one",
			b.header.Version, Version)
	}
	return nil
}

// Next returns the next part. After the last one, it returns io.EOF if the whole backup is as it was
// written.
func (b *Reader) Next() (*Part, error) {
	for {
		if err := b.finish(); err != nil {
			return nil, err
		}
		h, err := b.nextEntry()
		if err != nil {
			return nil, err
		}
		switch {
		case h.Name == manifestName:
			return nil, b.end(h)
		case strings.HasPrefix(h.Name, "index/"):
			if err := b.readIndex(h); err != nil {
				return nil, err
			}
		default:
			section, id, ok := Parse(h.Name)
			if !ok {
				return nil, damaged("%q is no name of a part", h.Name)
			}
			b.current = &entry{info: Info{Name: h.Name, Size: h.Size}, sum: sha256.New()}
			return &Part{Name: h.Name, Size: h.Size, Section: section, ID: id, Reader: partReader{b, b.current}}, nil
		}
	}
}

// nextEntry returns the next entry, which must be a regular file.
func (b *Reader) nextEntry() (*tar.Header, error) {
	h, err := b.tar.Next()
	if errors.Is(err, io.EOF) {
		return nil, errNoManifest
	}
	if err != nil {
		return nil, b.explain(err)
	}
	regular := h.Typeflag == tar.TypeReg && h.Linkname == ""
	for name := range h.PAXRecords {
		// A large file has its size there. Other records may describe a sparse file, where a few bytes
		// expand to any number of zeros.
		regular = regular && name == "size"
	}
	if !regular {
		return nil, damaged("%q is not a regular file", h.Name)
	}
	return h, nil
}

// errNoManifest means that the backup was cut, or that a changed length hides the rest.
var errNoManifest = fmt.Errorf("%w or damaged: it ends before its manifest", ErrIncomplete)

// explain turns the libraries' errors into this package's errors. It passes on errors from the reader that
// the backup comes from.
func (b *Reader) explain(err error) error {
	switch {
	case b.source.err != nil:
		return fmt.Errorf("read the backup: %w", b.source.err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errNoManifest
	}
	return damaged("%v", err)
}

// source remembers a reader's error.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(to []byte) (int, error) {
	n, err := s.Reader.Read(to)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = err
	}
	return n, err
}

// partReader reads a part and hashes it.
type partReader struct {
	b *Reader
	e *entry
}

func (p partReader) Read(to []byte) (int, error) {
	if p.b.current != p.e {
		return 0, errors.New("backup: the part was read after the next one")
	}
	n, err := p.b.tar.Read(to)
	p.e.sum.Write(to[:n])
	p.e.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = p.b.explain(err)
	}
	return n, err
}

// finish reads the rest of the current part.
func (b *Reader) finish() error {
	if b.current == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, partReader{b, b.current}); err != nil {
		return err
	}
	b.current.info.SHA256 = hex.EncodeToString(b.current.sum.Sum(nil))
	b.parts = append(b.parts, b.current.info)
	b.current = nil
	if len(b.parts) > indexed {
		return damaged("parts are in no index")
	}
	return nil
}

// readJSON decodes an entry that fits in memory.
func (b *Reader) readJSON(h *tar.Header, into any) (Info, error) {
	limit := int64(maxIndex)
	if h.Name == manifestName {
		limit = maxManifest
	}
	if h.Size > limit {
		return Info{}, damaged("%q is too large", h.Name)
	}
	text, err := io.ReadAll(b.tar)
	if err != nil {
		return Info{}, b.explain(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return Info{}, damaged("%q cannot be decoded", h.Name)
	}
	sum := sha256.Sum256(text)
	return Info{Name: h.Name, Size: h.Size, SHA256: hex.EncodeToString(sum[:])}, nil
}

// readIndex compares the next index with the parts since the last one.
func (b *Reader) readIndex(h *tar.Header) error {
	var listed []Info
	info, err := b.readJSON(h, &listed)
	if err != nil {
		return err
	}
	b.indexes = append(b.indexes, info)
	if len(listed) > indexed {
		return damaged("%q has too many parts", info.Name)
	}
	for _, l := range listed {
		if err := b.compare(l); err != nil {
			return err
		}
		if b.Listed != nil {
			if err := b.Listed(l); err != nil {
				return err
			}
		}
		b.count++
		b.bytes += l.Size
	}
	if len(b.parts) > 0 {
		return damaged("the part %s is not in its index", b.parts[0].Name)
	}
	return nil
}

// compare compares a part in an index with the next part that we read.
func (b *Reader) compare(listed Info) error {
	if err := b.order.follows(listed.Name); err != nil {
		return err
	}
	if listed.External {
		if section, _, _ := Parse(listed.Name); section != Blobs || listed.Size < 0 {
			return damaged("the part %s cannot be kept beside it", listed.Name)
		}
		if b.External == nil {
			return fmt.Errorf("%w: the part %s is kept beside it", ErrIncomplete, listed.Name)
		}
		return b.External(listed)
	}
	if len(b.parts) == 0 {
		return damaged("the part %s is missing", listed.Name)
	}
	if b.parts[0] != listed {
		return damaged("the part %s is not the one that was written", listed.Name)
	}
	b.parts = b.parts[1:]
	return nil
}

// end compares everything with the manifest. It returns io.EOF if all is well.
func (b *Reader) end(h *tar.Header) error {
	if _, err := b.readJSON(h, &b.manifest); err != nil {
		return err
	}
	if len(b.parts) > 0 {
		return damaged("the part %s is in no index", b.parts[0].Name)
	}
	if b.manifest.Header != b.first {
		return damaged("the header is not the one that was written")
	}
	if len(b.manifest.Indexes) != len(b.indexes) || b.manifest.Parts != b.count || b.manifest.Bytes != b.bytes {
		return damaged("it has %d parts in %d indexes, and the manifest says %d in %d",
			b.count, len(b.indexes), b.manifest.Parts, len(b.manifest.Indexes))
	}
	for i, info := range b.manifest.Indexes {
		if info != b.indexes[i] || info.Name != indexName(i) {
			return damaged("%q is not the one that was written", info.Name)
		}
	}
	_, err := b.tar.Next()
	if err == nil {
		return damaged("something follows the manifest")
	}
	if !errors.Is(err, io.EOF) {
		return b.explain(err)
	}
	n, err := io.Copy(io.Discard, b.compressed)
	if err != nil {
		return b.explain(err)
	}
	if n > 0 {
		return damaged("something follows the end")
	}
	return io.EOF
}
