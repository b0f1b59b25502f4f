package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"steward/internal/errs"
)

const (
	// checkEvery is how long we use a check's result.
	checkEvery = 10 * time.Second
	// checkTimeout is how long an engine may take to respond.
	checkTimeout = time.Second
)

// Engine is a region's engine.
type Engine struct {
	Region string
	// Type is the resource it provides: s3, db or kv.
	Type string
	Name string
	// Check returns an error if the engine cannot be used.
	Check func(ctx context.Context) error
}

// Engines checks the engines in all regions. All callers share one result.
type Engines struct {
	All []Engine
	Log *slog.Logger

	mu      sync.Mutex // held while we check the engines
	checked time.Time
	states  []EngineState
}

// States returns the engines' states, in the order of All.
func (e *Engines) States() []EngineState {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.states == nil || time.Since(e.checked) > checkEvery {
		e.states = e.check()
		e.checked = time.Now()
	}
	return e.states
}

// check checks all engines at the same time. It is not bound to a request, because others share the
// result even if this client goes away.
func (e *Engines) check() []EngineState {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	states := make([]EngineState, len(e.All))
	var checks sync.WaitGroup
	for i, engine := range e.All {
		checks.Go(func() { states[i] = e.stateOf(ctx, engine) })
	}
	checks.Wait()
	return states
}

// stateOf checks an engine. Clients see only an *errs.Error's message. Other errors, and causes, may
// reveal where the engine is and how we use it, so we log them.
func (e *Engines) stateOf(ctx context.Context, engine Engine) EngineState {
	err := engine.Check(ctx)
	if err == nil {
		return EngineState{Engine: engine.Name, OK: true}
	}
	e.Log.Warn("an engine cannot be used", "region", engine.Region, "type", engine.Type, "error", err)
	state := EngineState{Engine: engine.Name, Error: "the engine cannot be used; the log of the server says why"}
	var known *errs.Error
	switch {
	case ctx.Err() != nil:
		state.Error = "the engine did not respond within " + checkTimeout.String()
	case errors.As(err, &known):
		state.Error = known.Message
	}
	return state
}

// Regions returns the regions with their engines' states.
func (e *Engines) Regions() []Region {
	regions := []Region{}
	for i, state := range e.States() {
		engine := e.All[i]
		if len(regions) == 0 || regions[len(regions)-1].Region != engine.Region {
			regions = append(regions, Region{Region: engine.Region})
		}
		regions[len(regions)-1].Engines.set(engine.Type, state)
	}
	return regions
}

func (r *RegionEngines) set(kind string, state EngineState) {
	switch kind {
	case "s3":
		r.S3 = &state
	case "db":
		r.DB = &state
	case "kv":
		r.KV = &state
	}
}
