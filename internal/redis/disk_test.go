package redis

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"sync"
)

// errStopped is what all operations of a disk return after its machine has stopped.
var errStopped = errors.New("the machine has stopped")

// disk is an FS in memory that stops, or fails, at a chosen operation, and then shows what a real disk
// may show.
type disk struct {
	mu     sync.Mutex
	random *rand.Rand
	// names are those that processes see, durable those after the last directory sync, and pending what has
	// been done since.
	names, durable map[string]*diskFile
	pending        []nameChange
	// operations counts what can fail. The machine stops at operation stopAt; failing operations follow
	// failAt. They do not happen if zero.
	operations, stopAt, failAt, failing int
	stopped                             bool
	fault                               error
}

// nameChange gives a name to a file, or takes it away if file is nil.
type nameChange struct {
	name string
	file *diskFile
	// from is the name that the file had before.
	from string
}

func newDisk(random *rand.Rand) *disk {
	return &disk{random: random, names: map[string]*diskFile{}, durable: map[string]*diskFile{}}
}

// operate counts an operation and returns an error if it fails.
func (d *disk) operate() error {
	d.operations++
	if d.stopped || d.operations == d.stopAt {
		d.stopped = true
		return errStopped
	}
	if d.failAt != 0 && d.operations >= d.failAt && d.operations < d.failAt+d.failing {
		return d.fault
	}
	return nil
}

// heal has no operation fail from now on.
func (d *disk) heal() {
	d.stopAt = 0
	d.failAt = 0
}

func (d *disk) change(c nameChange) {
	d.pending = append(d.pending, c)
	c.apply(d.names)
}

func (c nameChange) apply(names map[string]*diskFile) {
	if c.file == nil {
		delete(names, c.name)
		return
	}
	names[c.name] = c.file
	if c.from != "" && names[c.from] == c.file {
		delete(names, c.from)
	}
}

// Open implements FS.
func (d *disk) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil, errStopped
	}
	f := d.names[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// Create implements FS.
func (d *disk) Create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.operate()
	if err != nil && !d.stopped {
		return nil, err
	}
	f := &diskFile{disk: d}
	d.change(nameChange{name: name, file: f})
	return f, err
}

// Rename implements FS. One that fails may have happened.
func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.operate()
	if f := d.names[from]; f != nil && (err == nil || d.random.IntN(2) == 0) {
		d.change(nameChange{name: to, file: f, from: from})
	}
	return err
}

// Remove implements FS.
func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.operate()
	if err == nil || d.stopped {
		d.change(nameChange{name: name})
	}
	return err
}

// Sync implements FS.
func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.operate(); err != nil {
		return err
	}
	d.durable = maps.Clone(d.names)
	d.pending = nil
	return nil
}

// killed has the disk go on after all processes were killed: nothing that they wrote is lost. That includes
// what a sync has failed for, since nothing tells the next process of that.
func (d *disk) killed() {
	d.heal()
	d.stopped = false
	for _, f := range d.names {
		clear(f.lost)
		f.remember()
	}
}

// powerFailed has the disk go on after a power failure: of what was not synced some is there.
func (d *disk) powerFailed() {
	d.heal()
	d.stopped = false
	names := maps.Clone(d.durable)
	for _, c := range d.pending {
		if d.random.IntN(2) == 0 {
			c.apply(names)
		}
	}
	d.names = names
	d.durable = maps.Clone(names)
	d.pending = nil
	for _, f := range names {
		f.powerFailed()
	}
}

// diskFile is a file of a disk.
type diskFile struct {
	disk *disk
	// data is what processes see. versions are what it was since the last sync, the first of which is durable.
	data     []byte
	versions [][]byte
	// lost are the bytes that are not on the disk although they were synced, because a sync has failed.
	lost []bool
}

// durable returns what is on the disk at least.
func (f *diskFile) durable() []byte {
	if len(f.versions) == 0 {
		return nil
	}
	return f.versions[0]
}

// remember adds what the file is to its versions.
func (f *diskFile) remember() {
	if len(f.versions) == 0 {
		f.versions = [][]byte{nil}
	}
	f.versions = append(f.versions, append([]byte(nil), f.data...))
}

// ReadAt implements File.
func (f *diskFile) ReadAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File. If it fails it has written some.
func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.operate()
	if err != nil && !f.disk.stopped {
		b = b[:f.disk.random.IntN(len(b)+1)]
	}
	f.resize(max(int(at)+len(b), len(f.data)))
	copy(f.data[at:], b)
	clear(f.lost[at:][:len(b)])
	f.remember()
	return len(b), err
}

func (f *diskFile) resize(n int) {
	f.data = append(f.data, make([]byte, max(n-len(f.data), 0))...)[:n]
	f.lost = append(f.lost, make([]bool, max(n-len(f.lost), 0))...)[:n]
}

// Truncate implements File.
func (f *diskFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.operate(); err != nil {
		return err
	}
	f.resize(int(size))
	f.remember()
	return nil
}

// Sync implements File. If it fails, what was written may be lost even if another sync does not.
func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.operate(); err != nil {
		f.loseChanged()
		return err
	}
	synced := f.mix(func(i int) []byte {
		if f.lost[i] {
			return f.durable()
		}
		return f.data
	}, len(f.data))
	f.versions = [][]byte{synced}
	return nil
}

// loseChanged marks what was appended since the last sync as lost.
func (f *diskFile) loseChanged() {
	for i := len(f.durable()); i < len(f.data); i++ {
		f.lost[i] = true
	}
}

// mix returns data whose bytes come from what from returns, or are zero.
func (*diskFile) mix(from func(i int) []byte, size int) []byte {
	data := make([]byte, size)
	for i := range data {
		if version := from(i); i < len(version) {
			data[i] = version[i]
		}
	}
	return data
}

// powerFailed makes the file one that a disk may show: each block is of any version, or garbage if it was
// never synced, and so is the size.
func (f *diskFile) powerFailed() {
	if len(f.versions) == 0 {
		f.versions = [][]byte{nil}
	}
	random := f.disk.random
	block := []int{1, 5, 64, 512}[random.IntN(4)]
	any := func() []byte { return f.versions[random.IntN(len(f.versions))] }
	var version []byte
	data := f.mix(func(i int) []byte {
		if i%block == 0 || version == nil {
			version = any()
		}
		return version
	}, f.anySize(len(any())))
	if random.IntN(4) == 0 {
		for i := len(f.durable()); i < len(data); i++ {
			data[i] = byte(random.Uint32())
		}
	}
	f.data = data
	f.versions = [][]byte{data}
	f.lost = make([]bool, len(data))
}

// anySize returns a size, or any between it and the durable one.
func (f *diskFile) anySize(size int) int {
	n := len(f.durable())
	if size <= n || f.disk.random.IntN(2) == 0 {
		return size
	}
	return n + f.disk.random.IntN(size-n+1)
}

// Size implements File.
func (f *diskFile) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.data)), nil
}

// Close implements File.
func (*diskFile) Close() error { return nil }
