package sigv4

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"
	"strings"
)

// Bounds for aws-chunked bodies.
const (
	// maxChunkHeader caps the line before a chunk, in bytes: 16 digits and a signature.
	maxChunkHeader = 128
	// maxTrailer caps the trailer, in bytes.
	maxTrailer = 2 << 10
)

// Body reads a request's body and verifies it. Read returns an *Error instead of io.EOF unless this is the
// body that was signed. After an error, discard the bytes that you read before.
type Body struct {
	io.Reader

	chunks *chunkReader
}

// Body returns a reader for a verified request's body. For a chunked body, size is the decoded size. The
// trailer may have only one field, whose name you pass in lower case, or "" for none.
func (s *Signature) Body(r io.Reader, size int64, trailer string) *Body {
	switch s.Payload {
	case Unsigned:
		return &Body{Reader: r}
	case SignedChunks, SignedChunksTrailer, UnsignedChunksTrailer:
		c := &chunkReader{r: bufio.NewReaderSize(r, 32<<10), size: size, hasTrailer: s.Payload != SignedChunks, name: trailer}
		if s.Payload != UnsignedChunksTrailer {
			c.signature = s
			c.previous = s.sent
			c.hash = sha256.New()
		}
		return &Body{Reader: c, chunks: c}
	}
	return &Body{Reader: &hashedReader{r: r, hash: sha256.New(), want: s.Payload}}
}

// Trailer returns the value of the trailer's field. Call it after reading the whole body.
func (b *Body) Trailer() string {
	if b.chunks == nil {
		return ""
	}
	return b.chunks.value
}

// InChunks reports whether the body comes in chunks, so that its decoded size differs from its length.
func (s *Signature) InChunks() bool { return strings.HasPrefix(s.Payload, "STREAMING-") }

// hashedReader checks a body's hash when the body ends.
type hashedReader struct {
	r    io.Reader
	hash hash.Hash
	want string
}

func (h *hashedReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.hash.Write(p[:n])
	if err == io.EOF && !equal(h.hash.Sum(nil), h.want) {
		return n, refuse("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
	}
	return n, err
}

// check compares the signature that came with a chunk or a trailer. hashes are the hashes that it signs. Each
// signature covers the one before it.
func (c *chunkReader) check(kind, hashes, sent string) error {
	s := c.signature
	want := sign(s.key, strings.Join([]string{kind, s.time.Format(timeFormat), s.scope.String(), c.previous, hashes}, "\n"))
	if !equal(want, sent) {
		return refuse("SignatureDoesNotMatch", "The signature of a chunk does not match.")
	}
	c.previous = sent
	return nil
}

const (
	chunkKind   = "AWS4-HMAC-SHA256-PAYLOAD"
	trailerKind = "AWS4-HMAC-SHA256-TRAILER"
	emptyHash   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// chunkReader decodes a chunked body: each chunk is HEX-SIZE[;chunk-signature=…] CRLF BYTES CRLF. The last
// one has size 0, and a trailer follows it.
type chunkReader struct {
	r          *bufio.Reader
	size       int64 // bytes still to come
	hasTrailer bool
	name       string
	signature  *Signature // nil if chunks are not signed
	previous   string
	hash       hash.Hash // the current chunk's hash

	left  int64  // bytes still to come in this chunk
	begun bool   // reports whether we are inside a chunk, before its end
	sent  string // this chunk's signature
	value string // the trailer's value
	err   error  // sticky
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for c.err == nil && c.left == 0 {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.size -= int64(n)
	if c.hash != nil {
		c.hash.Write(p[:n])
	}
	if err != nil {
		c.err = truncated(err)
	}
	return n, c.err
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse("IncompleteBody", "The request body terminated unexpectedly.")
	}
	return err
}

// next finishes a chunk and reads the next one's header. It returns io.EOF after the last chunk.
func (c *chunkReader) next() error {
	if c.begun {
		if err := c.end(); err != nil {
			return err
		}
	}
	line, err := c.line(maxChunkHeader)
	if err != nil {
		return truncated(err)
	}
	digits, extension, _ := strings.Cut(line, ";")
	size, err := strconv.ParseUint(digits, 16, 63)
	if err != nil || len(digits) > 16 {
		return refuse("InvalidRequest", "The size of a chunk is not a hexadecimal number.")
	}
	if int64(size) > c.size {
		return refuse("IncompleteBody", "The body is longer than the x-amz-decoded-content-length header says.")
	}
	c.left = int64(size)
	c.begun = true
	if c.signature != nil {
		signature, ok := strings.CutPrefix(extension, "chunk-signature=")
		if !ok {
			return refuse("SignatureDoesNotMatch", "A chunk has no signature.")
		}
		c.sent = signature
		c.hash.Reset()
	} else if extension != "" {
		return refuse("InvalidRequest", "A chunk of an unsigned body has an extension.")
	}
	if size > 0 {
		return nil
	}
	return c.last()
}

// end reads the line break after a chunk's bytes and verifies the chunk's signature.
func (c *chunkReader) end() error {
	c.begun = false
	var newline [2]byte
	if _, err := io.ReadFull(c.r, newline[:]); err != nil {
		return truncated(err)
	}
	if newline != [2]byte{'\r', '\n'} {
		return refuse("InvalidRequest", "A chunk is longer than its size says.")
	}
	return c.verifyChunk()
}

func (c *chunkReader) verifyChunk() error {
	if c.signature == nil {
		return nil
	}
	return c.check(chunkKind, emptyHash+"\n"+hex.EncodeToString(c.hash.Sum(nil)), c.sent)
}

// last reads everything after the last chunk, up to the end of the body.
func (c *chunkReader) last() error {
	if err := c.verifyChunk(); err != nil {
		return err
	}
	if c.size > 0 {
		return refuse("IncompleteBody", "The body is shorter than the x-amz-decoded-content-length header says.")
	}
	signed, err := c.trailer()
	if err != nil {
		return err
	}
	if c.signature != nil && c.hasTrailer {
		canonical := ""
		if c.name != "" {
			canonical = c.name + ":" + c.value + "\n"
		}
		if err := c.check(trailerKind, hexHash(canonical), signed); err != nil {
			return err
		}
	}
	if _, err := c.r.ReadByte(); err != io.EOF {
		if err != nil {
			return err
		}
		return refuse("IncompleteBody", "The body continues after its last chunk.")
	}
	return io.EOF
}

const trailerSignature = "x-amz-trailer-signature"

// trailer reads the trailer's fields, up to an empty line or the body's end, and returns their signature.
// Some clients put an empty line between the last field and the signature, as the AWS examples do.
func (c *chunkReader) trailer() (signed string, err error) {
	malformed := refuse("MalformedTrailerError", "The request contained trailing data that was not well-formed "+
		"or did not conform to our published schema.")
	for left := maxTrailer; ; {
		line, err := c.line(left)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if left -= len(line) + 2; left <= 0 {
			return "", malformed
		}
		if line == "" {
			if c.hasTrailer && c.signature != nil && signed == "" {
				if _, err := c.r.Peek(1); err == nil {
					continue
				}
			}
			break
		}
		name, value, ok := strings.Cut(line, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		value = strings.TrimSpace(value)
		switch {
		case !ok || !c.hasTrailer || value == "":
			return "", malformed
		case name == trailerSignature && c.signature != nil && signed == "":
			signed = value
		case name == c.name && name != "" && c.value == "" && signed == "":
			c.value = value
		default:
			return "", malformed
		}
	}
	if c.hasTrailer && c.name != "" && c.value == "" {
		return "", malformed
	}
	return signed, nil
}

// line reads a line without its line break. It returns io.EOF if there is none.
func (c *chunkReader) line(limit int) (string, error) {
	line, err := c.r.ReadSlice('\n')
	switch {
	case len(line) > limit+1:
		return "", refuse("InvalidRequest", "A line of the encoding aws-chunked is too long.")
	case err == io.EOF && len(line) > 0:
		return "", truncated(err)
	case err != nil:
		return "", err
	}
	return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
}
