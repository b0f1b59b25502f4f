package redis

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
)

// A store has its log, and while that is rewritten, the new one.
const (
	logName = "store.log"
	newName = "store.log.new"
)

// magic starts a log.
const magic = "SKVLOG1\n"

// frameHeader is the size of a frame's header: the length and the checksum of its effects.
const frameHeader = 8

// log is a store's log: frames of effects. A frame holds everything that one request changed. Only the
// store's goroutine calls its methods.
type log struct {
	fs   FS
	file File
	// frame has the current request's effects, after room for the header.
	frame []byte
	// buf has frames to write.
	buf []byte
	// size counts the bytes on disk. base and live date from the last rewrite: base is the log's size
	// then, live the bytes that keys and values took.
	size, base, live int64
	// rewrite is the rewrite in progress, or nil.
	rewrite *rewrite
	// keyOf returns an effect's key, and whether it has one.
	keyOf func(args []string) (string, bool)
	// large reports whether a frame was too large and has been dropped.
	large bool
	// off drops effects, as during replay.
	off bool
}

// openLog opens a store's log, or creates one.
func openLog(dir FS) (*log, error) {
	if err := dir.Remove(newName); err != nil {
		return nil, err
	}
	l := &log{fs: dir}
	f, err := dir.Open(logName)
	if errors.Is(err, fs.ErrNotExist) {
		return l, l.create()
	}
	l.file = f
	return l, err
}

// create creates an empty log.
func (l *log) create() error {
	f, err := l.fs.Create(newName)
	if err != nil {
		return err
	}
	if err := l.begin(f); err != nil {
		return errors.Join(err, f.Close())
	}
	l.file = f
	return nil
}

// begin writes the magic and renames the file only once that is durable, so that every log has it.
func (l *log) begin(f File) error {
	if _, err := f.WriteAt([]byte(magic), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return l.fs.Rename(newName, logName)
}

// effect adds an effect to the current frame.
func (l *log) effect(args ...string) {
	if l.off {
		return
	}
	if len(l.frame)+sizeOf(args) > maxFrame {
		l.large = true
		return
	}
	l.frame = appendEffect(l.frame, args)
	if r := l.rewrite; r != nil && r.covers(l.keyOf(args)) {
		r.frame = appendEffect(r.frame, args)
	}
}

func appendEffect(frame []byte, args []string) []byte {
	frame = appendUint(appendHeader(frame), uint64(len(args)))
	for _, arg := range args {
		frame = appendString(frame, arg)
	}
	return frame
}

// appendHeader makes room for the header in an empty frame.
func appendHeader(frame []byte) []byte {
	if len(frame) > 0 {
		return frame
	}
	return append(frame, make([]byte, frameHeader)...)
}

// endFrame ends the current frame. sync writes it.
func (l *log) endFrame() {
	l.buf = appendFrame(l.buf, l.frame)
	l.frame = l.frame[:0]
	if r := l.rewrite; r != nil {
		r.buf = appendFrame(r.buf, r.frame)
		r.frame = r.frame[:0]
	}
}

// appendFrame appends a frame with its header, unless it is empty.
func appendFrame(buf, frame []byte) []byte {
	if len(frame) == 0 {
		return buf
	}
	body := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, uint32(len(body)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(body, castagnoli))
	return append(buf, frame...)
}

// maxKept is the largest buffer that we keep for reuse. A turn ends when its frames are larger.
const maxKept = 1 << 20

// maxFrame is the largest frame, in bytes. Once a frame has more than longFrame, a script or
// transaction must not write any more: its effects stay in memory until it ends.
const (
	maxFrame  = 1 << 31
	longFrame = 32 << 20
)

// buffered returns the size of the log's buffers, and of its rewrite's.
func (l *log) buffered() int64 {
	n := cap(l.frame) + cap(l.buf)
	if r := l.rewrite; r != nil {
		n += cap(r.frame) + cap(r.buf)
	}
	return int64(n)
}

// full reports whether so much waits to be written that the turn should end.
func (l *log) full() bool { return len(l.buf) > maxKept }

// sync writes all frames and makes them durable.
func (l *log) sync() error {
	if l.large {
		return errors.New("one request changes too much")
	}
	if len(l.buf) == 0 {
		return nil
	}
	if _, err := l.file.WriteAt(l.buf, l.size); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", err)
	}
	l.size += int64(len(l.buf))
	l.buf = emptied(l.buf)
	if len(l.frame) == 0 { // no script is running
		l.frame = emptied(l.frame)
	}
	return nil
}

// emptied returns an empty buffer. It reuses the memory unless that is large.
func emptied(b []byte) []byte {
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}

// settle makes the replayed frames and the file's name durable. It cuts off everything after them,
// because a process that was killed may have written that without a sync.
func (l *log) settle(torn int64) error {
	if torn > 0 {
		if err := l.file.Truncate(l.size); err != nil {
			return fmt.Errorf("truncate log: %w", err)
		}
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", err)
	}
	if err := l.fs.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// discard cuts off whatever is not durable, after an error, and closes the log.
func (l *log) discard() error {
	if err := l.file.Truncate(l.size); err != nil {
		return errors.Join(fmt.Errorf("truncate log: %w", err), l.close())
	}
	return l.close()
}

// replay calls apply with each effect in order, and sets size to the end of the last whole frame. It
// returns the number of bytes after that.
func (l *log) replay(apply func(args []string) error) (int64, error) {
	total, err := l.file.Size()
	if err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, total), int(min(total, 1<<20)))
	if first := make([]byte, len(magic)); readFull(in, first) != nil || string(first) != magic {
		return 0, errors.New("the file is no log of a key-value store")
	}
	l.size = int64(len(magic))
	for {
		l.frame, err = readFrame(in, l.frame, total-l.size)
		if err != nil {
			return 0, err
		}
		n := int64(len(l.frame))
		if n == 0 {
			return total - l.size, nil
		}
		if err := applyFrame(string(l.frame), apply); err != nil {
			return 0, err
		}
		l.size += frameHeader + n
		l.frame = emptied(l.frame)
	}
}

// readFrame returns the next frame's effects, or none if no whole frame is left. It reuses buf if that
// is large enough.
func readFrame(in *bufio.Reader, buf []byte, left int64) ([]byte, error) {
	if left < frameHeader {
		return nil, nil
	}
	header, err := in.Peek(frameHeader)
	if err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(header))
	sum := binary.LittleEndian.Uint32(header[4:])
	if n > left-frameHeader || n == 0 {
		return nil, nil
	}
	if _, err := in.Discard(frameHeader); err != nil {
		return nil, err
	}
	body := slices.Grow(buf[:0], int(n))[:n]
	if err := readFull(in, body); err != nil {
		return nil, err
	}
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, nil
	}
	return body, nil
}

func readFull(in io.Reader, b []byte) error {
	_, err := io.ReadFull(in, b)
	return err
}

// applyFrame calls apply with each effect in a frame.
func applyFrame(body string, apply func(args []string) error) error {
	var args []string
	for body != "" {
		r := loader{text: body}
		args = args[:0]
		for range r.count() {
			n := r.count()
			args = append(args, r.text[:n])
			r.text = r.text[n:]
		}
		if r.bad || len(args) == 0 {
			return errors.New("the log of a key-value store has a frame that cannot be read")
		}
		if err := apply(args); err != nil {
			return fmt.Errorf("replay %s: %w", args[0], err)
		}
		body = r.text
	}
	return nil
}

// close closes the file.
func (l *log) close() error {
	l.stopRewrite()
	return l.file.Close()
}
