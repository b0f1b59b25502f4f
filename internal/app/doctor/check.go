package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"

	"steward/internal/app/datadir"
	"steward/internal/app/masterkey"
	"steward/internal/cli/output"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
)

func (d *doctor) version(context.Context) Finding {
	detail := fmt.Sprintf("steward %s, %s, %s/%s", d.program, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	switch {
	case d.running == nil:
		return fine("%s; no server is running on %s", detail, d.cfg.Data)
	case d.running.Version != d.program:
		return warn("restart it to run this version", "%s; the running server (process %d) is %s", detail, d.running.PID, d.running.Version)
	}
	return fine("%s; the server runs as process %d", detail, d.running.PID)
}

func (d *doctor) directory(context.Context) Finding {
	info, err := os.Stat(d.cfg.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return warn("steward serve creates it; check --data if there should be one", "%s does not exist yet", d.cfg.Data)
	case err != nil:
		return fail("make it readable for the user of the server", "%v", err)
	case !info.IsDir():
		return fail("name a directory with --data", "%s is not a directory", d.cfg.Data)
	case info.Mode().Perm()&0o077 != 0:
		return warn("run chmod 700 "+d.cfg.Data, "other users of the machine can read %s (mode %o)", d.cfg.Data, info.Mode().Perm())
	}
	return fine("%s", d.cfg.Data)
}

// place returns the data directory, or the nearest directory above it that exists.
func (d *doctor) place() string {
	dir, err := filepath.Abs(d.cfg.Data)
	if err != nil {
		return "."
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return dir
		}
		dir = parent
	}
}

const (
	lowBytes = 2 << 30
	// memoryFS is tmpfs's type on Linux.
	memoryFS = 0x01021994
)

func (d *doctor) disk(context.Context) Finding {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(d.place(), &stat); err != nil {
		return fail("check the disk", "read the free space of %s: %v", d.place(), err)
	}
	free := stat.Bavail * uint64(stat.Bsize)
	detail := fmt.Sprintf("%s free of %s", output.ByteSize(int64(free)), output.ByteSize(int64(stat.Blocks*uint64(stat.Bsize))))
	switch {
	case free < uint64(d.cfg.DiskReserve):
		return fail("free some space, or move the data directory", "%s, less than --disk-reserve: nothing can be added", detail)
	case runtime.GOOS == "linux" && int64(stat.Type) == memoryFS:
		return warn("name a directory on a disk with --data", "%s in memory (tmpfs), which is lost when the machine stops", detail)
	case free < lowBytes:
		return warn("free some space", "%s", detail)
	}
	return fine("%s", detail)
}

// slowSync is the longest fsync that does not make every API write noticeably slow.
const slowSync = 50 * time.Millisecond

// fsync writes and syncs a small file a few times, as each commit does.
func (d *doctor) fsync(ctx context.Context) Finding {
	file, err := os.CreateTemp(d.place(), ".steward-doctor-*")
	if err != nil {
		return fail("make the directory writable for the user of the server", "%v", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	var times []time.Duration
	for len(times) < 20 && ctx.Err() == nil {
		start := time.Now()
		if _, err := file.WriteAt(make([]byte, 4096), 0); err != nil {
			return fail("check the disk", "%v", err)
		}
		if err := file.Sync(); err != nil {
			return fail("check the disk and its file system", "%v", err)
		}
		times = append(times, time.Since(start))
	}
	if len(times) == 0 {
		return fail("check the disk", "no file could be written in time")
	}
	slices.Sort(times)
	median := times[len(times)/2].Round(10 * time.Microsecond)
	if median > slowSync {
		return warn("each write waits for it; use a faster disk, or PostgreSQL with --database-url", "an fsync takes %v", median)
	}
	return fine("an fsync takes %v", median)
}

// maxSkew is the largest difference between clocks that tokens and leases tolerate.
const maxSkew = 5 * time.Second

func (d *doctor) clock(ctx context.Context) Finding {
	now := time.Now()
	for _, name := range []string{"steward.db", "steward.db-wal", "steward.json"} {
		info, err := os.Stat(filepath.Join(d.cfg.Data, name))
		if err == nil && info.ModTime().Sub(now) > time.Minute {
			return fail("set the clock with NTP", "the clock is behind: %s was written at %s, and now it is %s",
				name, info.ModTime().UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	if d.cfg.DatabaseURL == "" {
		return fine("%s", now.UTC().Format(time.RFC3339))
	}
	state, err := d.inspect(ctx)
	if err != nil {
		return warn("see the check of the database", "%s, not compared with the database server", now.UTC().Format(time.RFC3339))
	}
	if state.Skew.Abs() > maxSkew {
		return fail("set both clocks with NTP", "the clock of the database server differs by %v", state.Skew.Round(time.Millisecond))
	}
	return fine("%s, within %v of the database server", now.UTC().Format(time.RFC3339), state.Skew.Abs().Round(time.Millisecond))
}

func (d *doctor) inspect(ctx context.Context) (db.State, error) {
	return db.Inspect(ctx, d.cfg.Database(), masterkey.Setting)
}

// noDatabase reports whether there is no SQLite file yet.
func (d *doctor) noDatabase() bool {
	_, err := os.Stat(datadir.DatabaseFile(d.cfg.Data))
	return d.cfg.DatabaseURL == "" && errors.Is(err, fs.ErrNotExist)
}

func (d *doctor) database(ctx context.Context) Finding {
	if d.noDatabase() {
		return fine("SQLite; the first start creates it")
	}
	state, err := d.inspect(ctx)
	if err != nil {
		advice := "restore a backup if the file is damaged"
		if d.cfg.DatabaseURL != "" {
			advice = "check --database-url, the server and its pg_hba.conf"
		}
		return fail(advice, "%v", err)
	}
	detail := fmt.Sprintf("%v %s, schema %d", state.Dialect, state.Version, state.Schema)
	switch {
	case state.Newest < state.Oldest:
		return fail("run the newer steward", "%s is newer than this binary, which knows %d", detail, state.Newest)
	case state.Schema > state.Newest:
		return fine("%s; it is newer than this binary, which knows %d, and supports it", detail, state.Newest)
	case state.Schema == 0:
		return fine("%s; the first start creates the tables", detail)
	case state.Schema < state.Newest:
		return fine("%s; the next start migrates to %d", detail, state.Newest)
	}
	return fine("%s", detail)
}

// settings checks the PostgreSQL server's settings.
func (d *doctor) settings(ctx context.Context) Finding {
	if d.cfg.DatabaseURL == "" {
		return fine("SQLite has none")
	}
	state, err := d.inspect(ctx)
	if err != nil {
		return warn("see the check of the database", "not read")
	}
	if len(state.Concerns) == 0 {
		return fine("nothing to change")
	}
	var problems, advice []string
	for _, c := range state.Concerns {
		problems = append(problems, c.Problem)
		advice = append(advice, c.Advice)
	}
	return warn(strings.Join(advice, "; "), "%s", strings.Join(problems, "; "))
}

const (
	// longWrite is the longest time for an open transaction before live tails noticeably lag.
	longWrite = 5 * time.Second
	// secondLook is the delay before we look again for a transaction, if our role may not see when
	// it began.
	secondLook = 2 * time.Second
)

// tails looks for a transaction that holds live tails back: they show only events that are older
// than every open transaction on the server.
func (d *doctor) tails(ctx context.Context) Finding {
	if d.cfg.DatabaseURL == "" {
		return fine("SQLite has one writer")
	}
	state, err := d.inspect(ctx)
	if err != nil {
		return warn("see the check of the database", "not checked")
	}
	first := state.Writer
	if first != nil && first.Since == nil {
		select {
		case <-time.After(secondLook):
		case <-ctx.Done():
		}
		if state, err = d.inspect(ctx); err != nil {
			return warn("see the check of the database", "not checked")
		}
	}
	const advice = "end it, with pg_terminate_backend or ROLLBACK PREPARED; ingest and deliveries do not wait for it"
	switch last := state.Writer; {
	case last == nil || last.ID != first.ID:
	case last.Since == nil:
		return warn(advice, "a transaction of %s stays open; live tails show nothing newer", last.Name)
	case time.Since(*last.Since) > longWrite:
		return warn(advice, "a transaction of %s has been open for %v; live tails show nothing newer", last.Name, time.Since(*last.Since).Round(time.Second))
	}
	return fine("no transaction holds them back")
}

func (d *doctor) masterKey(ctx context.Context) Finding {
	_, err := os.Stat(filepath.Join(d.cfg.Data, "master.key"))
	missing := !masterkey.Configured(d.cfg) && errors.Is(err, fs.ErrNotExist)
	state := db.State{}
	if !d.noDatabase() {
		if state, err = d.inspect(ctx); err != nil {
			return warn("see the check of the database", "not compared with the database")
		}
	}
	switch {
	case missing && state.Meta == "":
		return fine("the first start creates %s", filepath.Join(d.cfg.Data, "master.key"))
	case missing:
		return fail("set STEWARD_MASTER_KEY, or copy the right master.key into the data directory",
			"%s is missing, and the database was written with it", filepath.Join(d.cfg.Data, "master.key"))
	}
	ring, err := masterkey.Ring(ctx, d.cfg)
	if err != nil {
		return fail("set STEWARD_MASTER_KEY, or restore master.key from a backup", "%v", err)
	}
	if state.Meta == "" {
		return fine("%d bytes, not used yet", seal.KeySize)
	}
	if err := masterkey.Verify(ring, state.Meta); err != nil {
		return fail("without it, secrets in the database cannot be read", "%v", err)
	}
	if writtenWith := masterkey.WrittenWith(state.Meta); writtenWith != ring.KeyID() {
		return warn("run steward secrets rotate, or make the other one the master key again",
			"secrets are encrypted with the key %s, and the master key is %s", writtenWith, ring.KeyID())
	}
	return fine("it is the one that the database was written with")
}

// listener checks a listener: whether the running server accepts connections, or whether a server
// could listen.
func (d *doctor) listener(name, address, flag string) func(context.Context) Finding {
	return func(ctx context.Context) Finding {
		if address == "" {
			return fine("disabled")
		}
		if d.running != nil {
			return d.dial(ctx, name)
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return fail("stop the other program, or choose another address with "+flag, "%v", err)
		}
		_ = listener.Close()
		return fine("%s is free", address)
	}
}

func (d *doctor) dial(ctx context.Context, name string) Finding {
	address := d.listening(name)
	if address == "" {
		return fine("the running server does not listen there")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fail("see the log of the server", "process %d does not accept connections: %v", d.running.PID, err)
	}
	_ = conn.Close()
	return fine("process %d listens on %s", d.running.PID, address)
}

// listening returns where this machine can reach the running server's listener, or "".
func (d *doctor) listening(name string) string {
	address := d.running.Listen[name]
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// baseURL checks that the public URL leads to the running server.
func (d *doctor) baseURL(ctx context.Context) Finding {
	address := d.cfg.BaseURL
	if address == "" && d.running != nil {
		address = d.running.BaseURL
	}
	if address == "" {
		return fine("the server derives it when it starts")
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("correct --base-url", "%s is not a URL", address)
	}
	if _, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err != nil {
		return warn("create a DNS record, or correct --base-url", "%s has no address: %v", u.Hostname(), err)
	}
	if d.running == nil {
		return fine("%s", address)
	}
	return ready(ctx, address)
}

// ready asks a server whether it can serve requests.
func ready(ctx context.Context, address string) Finding {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return fail("correct --base-url", "%s is not a URL", address)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return warn("check the proxy in front of the server, or --base-url", "%s does not lead to the running server: %v", address, err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fail("see the log of the server", "%s/readyz responds with %s", address, res.Status)
	}
	return fine("%s is ready", address)
}

func (d *doctor) egress(context.Context) Finding {
	base := cmp.Or(d.cfg.BaseURL, "http://"+d.cfg.Listen)
	allowed := []string{"the internet"}
	for _, prefix := range d.cfg.EgressAllow {
		allowed = append(allowed, prefix.String())
		if prefix.Bits() == 0 {
			return warn("name the networks that webhooks need in --egress-allow",
				"webhooks may be sent to every private network (%s)", prefix)
		}
	}
	if d.cfg.OnlyLocal(base) {
		allowed = append(allowed, "this machine (because the API listens on loopback only)")
	}
	return fine("webhooks may be sent to %s", english.WordSeries(allowed, "and"))
}

// fewFiles is the limit on open files below which a server refuses load early.
const fewFiles = 4096

func (d *doctor) openFiles(context.Context) Finding {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return warn("check ulimit -n", "%v", errs.New(errs.Internal, "read the limit of open files: %v", err))
	}
	if limit.Max < fewFiles {
		return warn("raise it with ulimit -n, or LimitNOFILE of systemd", "a process may open %d files", limit.Max)
	}
	return fine("a process may open %d files", limit.Max)
}
