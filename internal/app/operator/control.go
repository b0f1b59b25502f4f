package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"steward/internal/errs"
)

const (
	// maxControlBody bounds a request to the control socket.
	maxControlBody = 64 << 10
	// controlTimeout bounds how long a command waits for the server.
	controlTimeout = time.Minute
	// stopTimeout bounds how long Serve's stop waits for operations.
	stopTimeout = 10 * time.Second
	// maxSocketPath is the longest path for a Unix socket.
	maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1
)

// BackupPath and MigratePath are the control socket's paths for backups and moves.
const (
	BackupPath  = "/backup"
	MigratePath = "/migrate"
)

// ownListener accepts connections from this process's user, and from root.
type ownListener struct{ net.Listener }

// Accept implements net.Listener. The socket also has a mode, but Accept refuses those who can
// change it, or were passed the directory.
func (l ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		if err == nil && (uid == os.Getuid() || uid == 0) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// socketPath returns the path of a data directory's control socket.
func socketPath(dir string) string { return filepath.Join(dir, "steward.sock") }

// Serve serves the operations on the control socket until the Socket is stopped. The server runs
// without the socket as well, so Serve logs an error and returns nil.
func (o *Operator) Serve(dir string, log *slog.Logger) *Socket {
	listener, err := listenControl(dir)
	if err != nil {
		log.Warn("steward backup, migrate, root-key, reset-password, setup-link, organization and secrets will not work while this process runs",
			"error", err)
		return nil
	}
	mux := http.NewServeMux()
	rootKeyOperation().register(mux, o)
	resetOperation().register(mux, o)
	setupOperation().register(mux, o)
	organizationOperation().register(mux, o)
	rotateOperation().register(mux, o)
	secretsOperation().register(mux, o)
	if o.Backup != nil {
		mux.Handle("POST "+BackupPath, o.Backup)
	}
	if o.Migrate != nil {
		mux.Handle("POST "+MigratePath, o.Migrate)
	}
	srv := &http.Server{
		Handler: mux, ReadTimeout: controlTimeout, WriteTimeout: controlTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := srv.Serve(ownListener{listener}); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the control socket is not served any more", "error", err)
		}
	}()
	return &Socket{path: socketPath(dir), server: srv}
}

// Socket is a process's control socket.
type Socket struct {
	path   string
	server *http.Server
}

// Stop takes no more operations, and ends those that take too long.
func (s *Socket) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	s.Finish(ctx)
}

// Finish takes no more operations, and returns once the running ones have ended. If ctx ends first,
// it ends them.
func (s *Socket) Finish(ctx context.Context) {
	if s == nil {
		return // we could not serve it
	}
	_ = os.Remove(s.path) // the next start replaces it
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
}

// listenControl listens on the control socket, which only this process's user can connect to. The
// socket gets its mode in a directory that is closed to others, and then moves from there. It
// replaces one that a killed process has left behind; the caller holds the directory's lock.
func listenControl(dir string) (net.Listener, error) {
	path := socketPath(dir)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket %s is longer than %d bytes", path, maxSocketPath)
	}
	private := filepath.Join(dir, ".sock")
	if err := os.RemoveAll(private); err != nil {
		return nil, fmt.Errorf("remove an old control socket: %w", err)
	}
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, fmt.Errorf("create the control socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(private) }()
	fresh := filepath.Join(private, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("create the control socket: %w", err)
	}
	listener.SetUnlinkOnClose(false) // it knows the name before the move
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("move the control socket: %w", err)
	}
	return listener, nil
}

// Failure is an error that a command gets from the server. It is the body of any response that is
// not 200.
type Failure struct {
	Error string    `json:"error,omitempty"`
	Code  errs.Kind `json:"code,omitempty"`
}

// NewFailure returns an error as a command gets it.
func NewFailure(err error) Failure { return Failure{err.Error(), errs.KindOf(err)} }

// Err returns the error that the command would have got without a server, so that it has the same
// exit code. It returns nil if there was none.
func (f Failure) Err() error {
	if f.Error == "" {
		return nil
	}
	if f.Code == "" || f.Code == errs.Internal {
		return errors.New(f.Error)
	}
	return errs.New(f.Code, "%s", f.Error)
}

// register makes a mux run the operation and respond with its result or its error. We show the error
// in full, since only the operator can connect.
func (op operation[In, Out]) register(mux *http.ServeMux, o *Operator) {
	mux.HandleFunc("POST "+op.path, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody)).Decode(&in); err != nil {
			Refuse(w, fmt.Errorf("decode the request: %w", err))
			return
		}
		out, err := op.do(o, r.Context(), in)
		if err != nil {
			Refuse(w, err)
			return
		}
		writeControl(w, http.StatusOK, out)
	})
}

// Refuse responds with an error.
func Refuse(w http.ResponseWriter, err error) {
	writeControl(w, http.StatusInternalServerError, NewFailure(err))
}

func writeControl(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the command may be gone
}

// ErrNoServer is returned if no server listens on the control socket.
var ErrNoServer = errors.New("no server is running")

// ErrServerEnded is returned if the server has ended before it could respond.
var ErrServerEnded = errors.New("the server has ended meanwhile; run the command again, with the server or without it")

// askServer runs an operation in the server that uses a data directory, and decodes its result into
// out. It returns ErrNoServer if there is none.
func askServer(ctx context.Context, dir, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	res, err := Ask(ctx, dir, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("decode the server's response: %w", err)
	}
	return nil
}

// Ask sends a request to the server that uses a data directory, and returns its response, whose body
// the caller closes. It returns ErrNoServer if there is none, and the response's error if it is not
// 200.
func Ask(ctx context.Context, dir, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://steward"+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir) },
	}}
	res, err := client.Do(req)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil, ErrServerEnded
	}
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	var failure Failure
	if err := json.NewDecoder(io.LimitReader(res.Body, maxControlBody)).Decode(&failure); err != nil || failure.Error == "" {
		return nil, fmt.Errorf("the server responds with %s; is it of another version?", res.Status)
	}
	return nil, failure.Err()
}

// dial connects to a data directory's control socket. It returns ErrNoServer if nobody listens: a
// killed process may have left the socket behind, and one with too long a path was never created.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	path := socketPath(dir)
	if len(path) > maxSocketPath {
		return nil, ErrNoServer
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNoServer
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return conn, nil
}
