package backups

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"steward/internal/app/operator"
	"steward/internal/errs"
	"steward/internal/id"
)

const (
	// errorTrailer is the trailer after an incomplete backup: an operator.Failure.
	errorTrailer = "Steward-Error"
	// stallTimeout bounds how long the command may stop reading. We hold the snapshot of the rows
	// meanwhile.
	stallTimeout = 2 * time.Minute
	// maxKnown is the largest list of known blobs, in bytes: about 60 million blobs.
	maxKnown = 8 << 30
)

// Handler streams backups over the control socket, one at a time.
type Handler struct {
	Source *Source
	Log    *slog.Logger
}

// ServeHTTP implements http.Handler. It reports an error after the first byte in a trailer; the
// backup sent so far is incomplete.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lease := h.Source.exclusive(id.New("bak"))
	held, err := lease.TryHold(r.Context(), func(ctx context.Context) error {
		h.serve(w, r.WithContext(ctx))
		return nil
	})
	if err != nil {
		h.Log.Error("the lease of the backup failed", "error", err)
		err = errors.New("the database cannot be used")
	} else {
		err = errs.New(errs.Conflict, "another backup is being made, or was until its process was killed; try again in a minute")
	}
	if !held {
		operator.Refuse(w, err)
	}
}

// serve receives a request and streams the backup.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	request, closeList, err := h.receive(w, r)
	if err != nil {
		operator.Refuse(w, errors.New("the request cannot be read"))
		return
	}
	defer closeList()
	out := &stream{to: w, control: http.NewResponseController(w)}
	// A read deadline would end the request's context, although we read nothing any more.
	if err := out.control.SetReadDeadline(time.Time{}); err != nil {
		operator.Refuse(w, errors.New("the connection cannot be used"))
		return
	}
	w.Header().Set("Trailer", errorTrailer)
	w.Header().Set("Content-Type", "application/zstd")
	err = h.Source.Write(r.Context(), out, request)
	switch {
	case err == nil:
		h.Log.Info("a backup was made", "bytes", out.n, "with_key", request.WithKey)
		return
	case r.Context().Err() != nil || errors.Is(err, syscall.EPIPE): // the context ends if the command does
		h.Log.Warn("the backup was interrupted")
	default:
		h.Log.Error("the backup failed", "error", err)
	}
	text, _ := json.Marshal(operator.NewFailure(err)) // two texts
	w.Header().Set(errorTrailer, string(text))
}

// receive reads a request, and spools the list of known blobs into a file.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request) (request Request, closeList func(), err error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		return request, nil, err
	}
	body := http.MaxBytesReader(w, r.Body, maxKnown)
	decoder := json.NewDecoder(body)
	if err := decoder.Decode(&request); err != nil || !request.Known {
		return request, func() {}, err
	}
	list, err := newSpool(h.Source.Config.Data)
	if err != nil {
		return request, nil, err
	}
	_, err = io.Copy(list.out, io.MultiReader(decoder.Buffered(), body))
	if err == nil {
		err = list.rewind()
	}
	if err != nil {
		list.close()
		return request, nil, err
	}
	request.known = list.file
	return request, list.close, nil
}

// stream writes to a client that must not stall.
type stream struct {
	to      io.Writer
	control *http.ResponseController
	n       int64
}

func (s *stream) Write(p []byte) (int, error) {
	if err := s.control.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	n, err := s.to.Write(p)
	s.n += int64(n)
	return n, err
}

// ask asks a data directory's server for a backup, and writes it to w. It returns
// operator.ErrNoServer if none runs.
func ask(ctx context.Context, dir string, w io.Writer, r Request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	res, err := operator.Ask(ctx, dir, operator.BackupPath, io.MultiReader(bytes.NewReader(body), r.list()))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(w, res.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return operator.ErrServerEnded
	}
	if err != nil {
		return fmt.Errorf("copy the backup: %w", err)
	}
	text := res.Trailer.Get(errorTrailer)
	if text == "" {
		return nil
	}
	var failure operator.Failure
	if err := json.Unmarshal([]byte(text), &failure); err != nil {
		return errors.New(text)
	}
	return failure.Err()
}
