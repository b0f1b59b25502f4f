package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// The simulation makes random changes, interrupts some of them between any two steps as a crash
// would, goes on as a new process on the same database and directory, and compares everything with a
// model: maps of what the buckets must hold.

// crash is where a process ends.
type crash string

const (
	noCrash      crash = "none"
	beforeBytes  crash = "before the bytes"
	halfBytes    crash = "with half of the bytes"
	afterBytes   crash = "after the bytes"
	beforeCommit crash = "before the commit"
	afterCommit  crash = "after the commit"
	beforeDelete crash = "before bytes are deleted"
	afterDelete  crash = "after bytes are deleted"
)

var (
	crashes   = []crash{noCrash, noCrash, noCrash, noCrash, beforeBytes, halfBytes, afterBytes, beforeCommit, afterCommit}
	workCrash = []crash{noCrash, noCrash, beforeCommit, afterCommit, beforeDelete, afterDelete}

	errCrash = errors.New("crash")
)

// fault ends the process at a point, the nth time that it is reached.
type fault struct {
	mu  sync.Mutex
	at  crash
	nth int
}

func (f *fault) reached(at crash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at != at {
		return false
	}
	f.nth--
	return f.nth == 0
}

// crashingBlobs is a store on disk whose process may end.
type crashingBlobs struct {
	*blob.Disk
	dir   string
	fault *fault
}

func (s crashingBlobs) Put(ctx context.Context, id string, r io.Reader, size int64) error {
	if s.fault.reached(beforeBytes) {
		return errCrash
	}
	if s.fault.reached(halfBytes) {
		dir := filepath.Join(s.dir, "blobs", id[24:])
		return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, id+"~"), []byte("x"), 0o600), errCrash)
	}
	if err := s.Disk.Put(ctx, id, r, size); err != nil {
		return err
	}
	if s.fault.reached(afterBytes) {
		return errCrash
	}
	return nil
}

func (s crashingBlobs) Delete(ctx context.Context, id string) error {
	if s.fault.reached(beforeDelete) {
		return errCrash
	}
	if err := s.Disk.Delete(ctx, id); err != nil {
		return err
	}
	if s.fault.reached(afterDelete) {
		return errCrash
	}
	return nil
}

// simulation is the state of a run.
type simulation struct {
	*fixture
	t     *rapid.T
	fault *fault
	model map[string]*modelBucket // by name
	// changes are those of an organization by day.
	changes map[string]map[int64]holding
}

type modelBucket struct {
	*Bucket
	owner   *auth.Caller
	objects map[string]modelObject
}

type modelObject struct {
	content string
	tier    Tier
	at      time.Time
}

var owners = map[string]*auth.Caller{"bucket-one": alice, "bucket-two": alice, "bucket-three": bob}

// simulatedKeys are few enough to meet, and enough for several blocks.
func simulatedKeys() (keys []string) {
	for _, folder := range []string{"", "a/", "a/b/", "ä//"} {
		for i := range 12 {
			keys = append(keys, fmt.Sprintf("%s%02d", folder, i))
		}
	}
	return keys
}

func TestIndexEqualsTruth(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		dir := f.dir
		runs := 0
		dbtest.Check(t, d.Dialect(), func(t *rapid.T) {
			runs++
			s := &simulation{
				fixture: f, t: t, fault: &fault{}, model: map[string]*modelBucket{}, changes: map[string]map[int64]holding{},
			}
			f.t = t
			f.dir = filepath.Join(dir, fmt.Sprint(runs))
			s.begin()
			for range rapid.IntRange(1, 30).Draw(t, "steps") {
				s.step()
				s.compare()
			}
			s.cleanUp()
		})
	})
}

// begin empties the database and creates the buckets.
func (s *simulation) begin() {
	for _, table := range []string{
		"buckets", "bucket_states", "bucket_totals", "object_usage", "objects", "object_blocks", "blobs", "object_uploads",
		"object_parts", "object_completions", "bucket_purges",
	} {
		must(s.t, s.db.Write(context.Background(), func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM ` + table)
			return err
		}))
	}
	must(s.t, os.MkdirAll(s.dir, 0o700))
	s.restart()
	for name, owner := range owners {
		s.create(name, owner)
	}
}

// restart begins a new process.
func (s *simulation) restart() {
	s.fault.at = noCrash
	s.parts = s.newParts(crashingBlobs{s.disk(), s.dir, s.fault}, small)
	crashing := hooks{
		event:  func(tx *db.Tx, _ [][]byte) error { return s.commits(tx) },
		remove: func(tx *db.Tx, _, _ string) error { return s.commits(tx) },
	}
	s.index.Webhooks = crashing
	s.buckets.Webhooks = crashing
}

// commits is called in every transaction that changes objects or buckets.
func (s *simulation) commits(tx *db.Tx) error {
	if s.fault.reached(beforeCommit) {
		return errCrash
	}
	if s.fault.reached(afterCommit) {
		tx.OnCommit(func() { panic(errCrash) })
	}
	return nil
}

// try runs a change of one transaction that may crash, and reports whether it was committed.
func (s *simulation) try(kinds []crash, do func() error) (committed bool) {
	committed, _ = s.interrupt(kinds, do)
	return committed
}

// interrupt runs work that may crash, and then begins a new process. It reports whether the last
// transaction was committed.
func (s *simulation) interrupt(kinds []crash, do func() error) (committed, crashed bool) {
	s.fault.at = rapid.SampledFrom(kinds).Draw(s.t, "crash")
	s.fault.nth = rapid.IntRange(1, 2).Draw(s.t, "time")
	committed, crashed = s.run(do)
	s.fault.at = noCrash
	if crashed {
		s.restart()
	}
	return committed, crashed
}

func (s *simulation) run(do func() error) (committed, crashed bool) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case errCrash:
			committed = true
			crashed = true
		default:
			panic(cause)
		}
	}()
	err := do()
	if err != nil && !errors.Is(err, errCrash) {
		s.t.Fatalf("unexpected: %v", err)
	}
	return err == nil, err != nil
}

// until runs work in several steps; after a crash it is done again, to its end.
func (s *simulation) until(kinds []crash, do func() error) {
	if _, crashed := s.interrupt(kinds, do); !crashed {
		return
	}
	s.check()
	must(s.t, do())
}

func (s *simulation) step() {
	s.clock.advance(time.Duration(rapid.SampledFrom([]int{0, 1, 60, 3600, 20 * 3600}).Draw(s.t, "seconds")) * time.Second)
	before := s.held()
	defer func() { s.book(before) }()
	switch rapid.IntRange(0, 21).Draw(s.t, "action") {
	default:
		s.put()
	case 0, 1:
		s.remove()
	case 2:
		s.removePrefix()
	case 3:
		s.copy()
	case 4, 5:
		s.multipart()
	case 6:
		s.expire()
	case 7:
		s.replaceBucket()
	case 8:
		s.concurrently()
	case 9:
		s.tag()
	case 10:
		s.work()
	}
}

func (s *simulation) drawBucket() *modelBucket {
	return s.model[rapid.SampledFrom(slices.Sorted(maps.Keys(s.model))).Draw(s.t, "bucket")]
}

func (s *simulation) drawKey() string { return rapid.SampledFrom(simulatedKeys()).Draw(s.t, "key") }

func (s *simulation) drawObject(content string) modelObject {
	return modelObject{content, rapid.SampledFrom(tiers).Draw(s.t, "tier"), s.clock.now()}
}

func (s *simulation) drawContent() string {
	return rapid.StringN(0, 5, 20).Draw(s.t, "content")
}

func (s *simulation) put() {
	b := s.drawBucket()
	for range rapid.IntRange(1, 6).Draw(s.t, "puts") {
		key := s.drawKey()
		o := s.drawObject(s.drawContent())
		if s.try(crashes, func() error {
			_, err := s.index.Put(s.context(), b.Bucket, PutRequest{Key: key, Tier: o.tier}, strings.NewReader(o.content), -1)
			return err
		}) {
			b.objects[key] = o
		}
	}
}

func (s *simulation) remove() {
	b := s.drawBucket()
	keys := rapid.SliceOfN(rapid.SampledFrom(simulatedKeys()), 1, 12).Draw(s.t, "keys")
	if s.try(crashes, func() error {
		_, err := s.index.Delete(s.context(), b.Bucket, DeleteRequest{Keys: keys})
		return err
	}) {
		for _, key := range keys {
			delete(b.objects, key)
		}
	}
}

func (s *simulation) removePrefix() {
	b := s.drawBucket()
	prefix := rapid.SampledFrom([]string{"", "a/", "a/b/", "0", "1", "ä/", "ä//0", "none"}).Draw(s.t, "prefix")
	s.until(crashes, func() error {
		_, err := s.index.DeletePrefix(s.context(), b.Bucket, prefix, Origin{}, nothing)
		return err
	})
	maps.DeleteFunc(b.objects, func(key string, _ modelObject) bool { return strings.HasPrefix(key, prefix) })
}

// copy copies an object, at times onto itself.
func (s *simulation) copy() {
	from, to := s.drawBucket(), s.drawBucket()
	if len(from.objects) == 0 {
		return
	}
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(from.objects))).Draw(s.t, "source")
	target := rapid.SampledFrom([]string{key, s.drawKey()}).Draw(s.t, "target")
	o := s.drawObject(from.objects[key].content)
	if s.try(crashes, func() error {
		src, err := s.index.Get(s.context(), from.Bucket, key)
		must(s.t, err)
		_, err = s.index.Copy(s.context(), src, to.Bucket, PutRequest{Key: target, Tier: o.tier})
		return err
	}) {
		to.objects[target] = o
	}
}

func (s *simulation) tag() {
	b := s.drawBucket()
	if len(b.objects) == 0 {
		return
	}
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(b.objects))).Draw(s.t, "tagged")
	s.try(crashes, func() error {
		_, err := s.index.SetTags(s.context(), b.Bucket, key, Tags{{"a", "b"}}, Origin{})
		return err
	})
}

// multipart uploads some parts, one of them twice, and then completes or aborts the upload, or
// leaves it.
func (s *simulation) multipart() {
	b := s.drawBucket()
	o := s.drawObject("")
	key := s.drawKey()
	u, err := s.uploads.Create(s.context(), b.Bucket, PutRequest{Key: key, Tier: o.tier})
	must(s.t, err)
	complete := CompleteRequest{Key: key, UploadID: u.ID, Size: -1}
	for number := 1; number <= rapid.IntRange(1, 4).Draw(s.t, "parts"); number++ {
		content := rapid.StringN(3, 6, -1).Draw(s.t, "part")
		for range rapid.IntRange(1, 2).Draw(s.t, "uploads") {
			var p Part
			if !s.try(crashes, func() (err error) {
				p, err = s.uploads.PutPart(s.context(), b.Bucket, PartRequest{Key: key, UploadID: u.ID, Number: number},
					strings.NewReader(content), -1)
				return err
			}) {
				return
			}
			if n := len(complete.Parts); n > 0 && complete.Parts[n-1].Number == number {
				continue
			}
			if rapid.Bool().Draw(s.t, "used") || number == 1 {
				o.content += content
				complete.Parts = append(complete.Parts, CompletedPart{Number: number, ETag: p.ETag})
			}
		}
	}
	switch rapid.SampledFrom([]string{"complete", "complete", "abort", "leave"}).Draw(s.t, "end") {
	case "complete":
		if s.try(crashes, func() error {
			_, err := s.uploads.Complete(s.context(), b.Bucket, complete)
			return err
		}) {
			b.objects[key] = o
		}
	case "abort":
		must(s.t, s.uploads.Abort(s.context(), b.Bucket, key, u.ID))
	}
}

func (s *simulation) expire() {
	b := s.drawBucket()
	ttl := rapid.SampledFrom([]int64{1, 3600, 86400}).Draw(s.t, "ttl")
	s.configure(b, ttl)
	s.until(crashes, func() error { return s.cleaner.Expire(s.context()) })
	maps.DeleteFunc(b.objects, func(_ string, o modelObject) bool {
		return s.clock.now().Sub(o.at) >= time.Duration(ttl)*time.Second
	})
	s.configure(b, 0)
}

func (s *simulation) configure(b *modelBucket, ttl int64) {
	var p Patch
	p.TTL.Sent = true
	p.TTL.Value = ttl
	must(s.t, s.db.Write(as(b.owner), func(tx *db.Tx) error {
		_, err := s.buckets.UpdateConfig(tx.Context(), b.Bucket, p, noMatch)
		return err
	}))
}

// replaceBucket deletes a bucket and creates one of the same name.
func (s *simulation) replaceBucket() {
	b := s.drawBucket()
	if s.try(crashes, func() error { return s.deleteBucket(b.owner, b.Name, false) }) {
		s.create(b.Name, b.owner)
	}
}

func (s *simulation) create(name string, owner *auth.Caller) {
	s.model[name] = &modelBucket{Bucket: s.bucket(owner, name), owner: owner, objects: map[string]modelObject{}}
}

// concurrently has several writers change the same objects, and at times somebody delete their
// bucket. The model takes what is there afterwards, which must be what one of them wrote.
func (s *simulation) concurrently() {
	b := s.drawBucket()
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(simulatedKeys()), 3, 3, rapid.ID[string]).Draw(s.t, "keys")
	deletes := rapid.IntRange(0, 3).Draw(s.t, "delete the bucket") == 0
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i, key := range keys {
				_, err := s.index.Put(s.context(), b.Bucket, PutRequest{Key: key, Tier: Standard}, strings.NewReader(fmt.Sprint(w)), -1)
				if err == nil && (i+w)%4 == 0 {
					_, err = s.index.Delete(s.context(), b.Bucket, DeleteRequest{Keys: keys[i : i+1]})
				}
				if err != nil && !(deletes && errs.KindOf(err) == errs.NotFound) {
					s.t.Errorf("writer: %v", err)
				}
			}
		})
	}
	if deletes {
		all.Go(func() {
			if err := s.deleteBucket(b.owner, b.Name, false); err != nil {
				s.t.Errorf("delete bucket: %v", err)
			}
		})
	}
	all.Wait()
	if deletes {
		s.create(b.Name, b.owner)
		return
	}
	for _, key := range keys {
		delete(b.objects, key)
		if _, err := s.index.Get(s.context(), b.Bucket, key); errs.KindOf(err) == errs.NotFound {
			continue
		}
		content := s.read(b.Bucket, key)
		if !strings.Contains("0123", content) || len(content) != 1 {
			s.t.Fatalf("%s has %q", key, content)
		}
		b.objects[key] = modelObject{content, Standard, s.clock.now()}
	}
}

// work runs the workers.
func (s *simulation) work() {
	for _, do := range []func(*Cleaner, context.Context) error{
		(*Cleaner).Purge, (*Cleaner).AbortStaleUploads, (*Cleaner).DeleteCompletions, (*Cleaner).CollectGarbage, (*Cleaner).Sweep,
	} {
		s.until(workCrash, func() error { return do(s.cleaner, s.context()) })
	}
}
