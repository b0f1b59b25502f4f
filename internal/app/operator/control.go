package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// maxControlBody bounds a request to the control socket.
	maxControlBody = 64 << 10
	// controlTimeout bounds how long a command waits for the server.
	controlTimeout = time.Minute
	// stopTimeout bounds how long Serve's stop waits for operations.
	stopTimeout = 10 * time.Second
	// maxSocketPath is the longest path of a Unix socket.
	maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1
)

// socketPath returns the path of the control socket in a data directory.
func socketPath(dir string) string { return filepath.Join(dir, "steward.sock") }

// Serve serves the operations on the control socket until stop is called. The
// server runs without the socket as well, so an error is logged.
func (o *Operator) Serve(dir string, log *slog.Logger) (stop func()) {
	listener, err := listenControl(dir)
	if err != nil {
		log.Warn("steward root-key, reset-password, setup-link and organization will not work while this process runs", "error", err)
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+rootKeyOperation().path, rootKeyOperation().handler(o))
	mux.Handle("POST "+resetOperation().path, resetOperation().handler(o))
	mux.Handle("POST "+setupOperation().path, setupOperation().handler(o))
	mux.Handle("POST "+organizationOperation().path, organizationOperation().handler(o))
	srv := &http.Server{
		Handler: mux, ReadTimeout: controlTimeout, WriteTimeout: controlTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the control socket is not served any more", "error", err)
		}
	}()
	return func() {
		_ = os.Remove(socketPath(dir)) // the next start replaces it
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			_ = srv.Close()
		}
	}
}

// listenControl listens on the control socket, which only the user of this process can connect to.
// The socket gets its mode in a directory that is closed to others, and is moved from there. It
// replaces one that a killed process has left behind; the caller holds the lock of the directory.
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
	if err := moveSocket(fresh, path); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

func moveSocket(fresh, path string) error {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return fmt.Errorf("set the mode of the control socket: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("move the control socket: %w", err)
	}
	return nil
}

// controlFailure is the body of a response that is not 200.
type controlFailure struct {
	Error string `json:"error"`
}

// handler returns a handler that runs the operation and responds with its result or its error, which
// may be shown in full: only the operator can connect.
func (op operation[In, Out]) handler(o *Operator) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := op.serve(o, w, r)
		if err != nil {
			writeControl(w, http.StatusInternalServerError, controlFailure{err.Error()})
			return
		}
		writeControl(w, http.StatusOK, out)
	})
}

func (op operation[In, Out]) serve(o *Operator, w http.ResponseWriter, r *http.Request) (out Out, err error) {
	var in In
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody)).Decode(&in); err != nil {
		return out, fmt.Errorf("decode the request: %w", err)
	}
	return op.do(o, r.Context(), in)
}

func writeControl(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the command may be gone
}

// errNoServer reports that no server listens on the control socket.
var errNoServer = errors.New("no server is running")

// askServer runs an operation in the server that uses a data directory, and decodes its result into
// out. It returns errNoServer if there is none.
func askServer(ctx context.Context, dir, path string, in, out any) error {
	conn, err := dialControl(ctx, dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://steward"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	client := &http.Client{Timeout: controlTimeout, Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer res.Body.Close()
	return decodeControl(res, out)
}

func decodeControl(res *http.Response, out any) error {
	if res.StatusCode == http.StatusOK {
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			return fmt.Errorf("decode the server's response: %w", err)
		}
		return nil
	}
	var failure controlFailure
	if err := json.NewDecoder(res.Body).Decode(&failure); err != nil || failure.Error == "" {
		return fmt.Errorf("the server responds with %s; is it of another version?", res.Status)
	}
	return errors.New(failure.Error)
}

// dialControl connects to the control socket. A socket that nobody listens on was left behind by a
// process that was killed, and one with too long a path was never created.
func dialControl(ctx context.Context, dir string) (net.Conn, error) {
	path := socketPath(dir)
	if len(path) > maxSocketPath {
		return nil, errNoServer
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errNoServer
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return conn, nil
}
