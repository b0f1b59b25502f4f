package migrate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/operator"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/status"
)

const maxRequest = 64 << 10

// maxEvent bounds an event, which may have the settings for all regions.
const maxEvent = 16 << 20

// Handler moves a running server's rows for the command. Do not change its exported fields after the
// first request.
type Handler struct {
	DB     *db.DB
	Ring   *seal.Ring
	Config config.Config
	Log    *slog.Logger
	// Processes are those that serve the database.
	Processes *status.Processes
	// Leave makes the server stop serving, and returns once it writes nothing any more.
	Leave func(context.Context) error
	// End is called after Leave and gets whether the rows were moved. Databases and stores may move
	// after that.
	End func(moved bool)
	// Stopping is closed when the server is about to stop.
	Stopping <-chan struct{}

	mu sync.Mutex
}

// ServeHTTP implements http.Handler. It responds with a line of JSON for each Event.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.mu.TryLock() {
		operator.Refuse(w, errs.New(errs.Conflict, "the rows are being moved already by another command; wait until it ends"))
		return
	}
	defer h.mu.Unlock()
	var request Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
		operator.Refuse(w, errors.New("the request cannot be decoded"))
		return
	}
	out := &reporter{control: http.NewResponseController(w), encoder: json.NewEncoder(w), timeout: reportTimeout}
	if err := out.control.SetReadDeadline(time.Time{}); err != nil {
		h.Log.Error("the command cannot be answered", "error", err)
		return
	}
	ended := false
	j := &job{
		source: h.DB, cfg: h.Config, log: h.Log, ring: h.Ring, report: out.report, leave: h.Leave, processes: h.Processes,
		moved: func() {
			ended = true
			h.End(true)
		},
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-h.Stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	done, left, err := j.runAlone(ctx, request)
	if errors.Is(context.Cause(ctx), errStopping) && !left {
		err = errStopping
	}
	if err != nil {
		h.Log.Error("the rows were not moved", "error", err)
		out.report(Event{Failure: operator.NewFailure(err)})
	} else {
		h.Log.Info("the rows were moved", "rows", done.Rows, "blobs", done.Blobs, "pause", done.Pause)
		out.report(Event{Done: &done})
	}
	if left && !ended {
		h.End(false)
	}
}

// reportTimeout bounds how long a command may take to receive an event. If it takes longer, it
// receives no more, so that a stopped command does not hold up the server.
const reportTimeout = 5 * time.Second

// reporter sends events to a command.
type reporter struct {
	control *http.ResponseController
	encoder *json.Encoder
	timeout time.Duration
}

// report sends an event. It ignores errors, since the command may be gone: until the server stops
// serving, that also ends the request's context.
func (r *reporter) report(e Event) {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.timeout))
	_ = r.encoder.Encode(e)
	_ = r.control.Flush()
}

// errStopping ends a move until the server has stopped serving for it.
var errStopping = errors.New("the server is stopping; run the same command again when it runs")

// ask asks a data directory's server to move its rows. It returns operator.ErrNoServer if none runs.
func ask(ctx context.Context, dir string, r Request, report func(Event)) (Done, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Done{}, err
	}
	res, err := operator.Ask(ctx, dir, operator.MigratePath, bytes.NewReader(body))
	if err != nil {
		return Done{}, err
	}
	defer func() { _ = res.Body.Close() }()
	return follow(res.Body, report)
}

// follow reads events until the last one.
func follow(body io.Reader, report func(Event)) (Done, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	unfinished := errors.New("the server has ended before the rows were moved; run the same command again to continue, with the server or without it")
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return Done{}, fmt.Errorf("decode the server's response: %w", err)
		}
		switch {
		case e.Error != "":
			return Done{}, e.Err()
		case e.Done != nil:
			return *e.Done, nil
		case e.Stage == stageResources:
			unfinished = errors.New("the rows were moved, but the server has ended before all databases and key-value stores were: the others stay embedded")
		}
		report(e)
	}
	return Done{}, errors.Join(unfinished, lines.Err())
}
