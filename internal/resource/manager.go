package resource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/object"
)

const (
	// callTimeout bounds one call to an engine. requestTimeout bounds all of a request's calls; undoing
	// them may take as long again.
	callTimeout    = 30 * time.Second
	requestTimeout = 2 * time.Minute
	// claimTime is how long a claim on a resource lasts. It is longer than a request and its undo can take.
	claimTime = 6 * time.Minute
	// maxSettle caps the attempts in settle.
	maxSettle = 10
)

// Nodes reaches other nodes. It is a node.Client.
type Nodes interface {
	// Call sends a request to a node, where Remote serves it. Values travel as JSON. It returns
	// Unavailable, or NotFound if nobody has served that node for long.
	Call(ctx context.Context, node, path string, in, out any) error
	// Others lists the other known nodes.
	Others(ctx context.Context) ([]string, error)
}

// Manager creates, deletes and rotates resources. Rows and engines agree again after a crash at any point.
type Manager struct {
	Store   *Store
	Regions []Region
	// Embedded has this process's own engines. They keep serving their resources when a region gets
	// another engine.
	Embedded Region
	Buckets  *object.Buckets
	Totals   *object.Totals
	S3       S3Address
	// Node identifies this process's data directory, and with it the changes that we have claimed and the
	// files of our local engines.
	Node string
	// Nodes reaches the nodes that have other resources' files. It is nil if there are no other nodes.
	Nodes Nodes
	Log   *slog.Logger
	// Step, if not nil, is called before each step of a change. Tests kill the process there.
	Step func(step string)

	ensured atomic.Int64 // when ensure last ran, a stamp.Time
}

// Resource is either a bucket, or a database or key-value store.
type Resource struct {
	Bucket      *object.Bucket
	Provisioned *Provisioned

	held object.Usage // by the bucket, in the list of all resources
}

func (m *Manager) step(format string, args ...any) {
	if m.Step != nil {
		m.Step(fmt.Sprintf(format, args...))
	}
}

func (m *Manager) claim() claim {
	return claim{worker: m.Node, until: m.Store.now().Add(claimTime)}
}

// engineOf returns a resource's engine: its region's, or the embedded one that created it. It returns
// Unavailable if the region now has another engine.
func (m *Manager) engineOf(p *Provisioned) (Engine, error) {
	if r := find(m.Regions, p.Region); r != nil {
		for _, e := range []Engine{r.engine(p.Type), m.Embedded.engine(p.Type)} {
			if e != nil && e.Name() == p.Engine {
				return e, nil
			}
		}
	}
	return nil, errs.Unavailablef(nil, "%s %s was created by the engine %s, which region %s does not have now",
		p.Type.noun(), p.Name, p.Engine, p.Region)
}

// WarnOfMissingEngines logs how many databases and key-value stores were created by engines that their
// regions no longer have. That happens, for example, if the server starts without its configuration file.
func (m *Manager) WarnOfMissingEngines(ctx context.Context) error {
	all, err := m.Store.origins(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if _, err := m.engineOf(&Provisioned{Type: o.Type, Region: o.Region, Engine: o.Engine}); err != nil {
			m.Log.Warn("resources cannot be used: their region no longer has the engine that created them",
				"region", o.Region, "type", o.Type, "engine", o.Engine, "count", o.Count)
		}
	}
	return nil
}

// call calls a method of p's engine, with a time limit.
func (m *Manager) call(ctx context.Context, p *Provisioned, verb string, do func(context.Context, *Provisioned) error) error {
	m.step("%s %s", verb, p.Name)
	_, err := within(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx, p) })
	if err != nil {
		return fmt.Errorf("%s %s %s: %w", verb, p.Type.noun(), p.Name, err)
	}
	return nil
}

// within calls an engine. It returns Unavailable if the engine does not respond within callTimeout.
func within[T any](ctx context.Context, p *Provisioned, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value, err := do(limited)
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) && errs.KindOf(err) == errs.Internal {
		err = errs.Unavailablef(err, "the engine %s did not respond in time", p.Engine)
	}
	return value, err
}

// check returns an error if any of the resources' engines cannot be used.
func (m *Manager) check(ctx context.Context, all []*Provisioned) error {
	var checked []Engine
	for _, p := range all {
		e, err := m.engineOf(p)
		if err != nil {
			return err
		}
		if slices.Contains(checked, e) {
			continue
		}
		checked = append(checked, e)
		err = m.call(ctx, p, "check engine of", func(ctx context.Context, _ *Provisioned) error { return e.Check(ctx) })
		if err != nil {
			return err
		}
	}
	return nil
}

// retry makes Recover try again soon after an engine has failed.
func (m *Manager) retry(ctx context.Context, p *Provisioned, cause error) {
	m.Log.Warn("a change of a resource is not complete yet", "resource", p.ID, "state", p.State, "error", cause)
	if err := m.Store.postpone(ctx, p, m.Store.now().Add(retryAfter)); err != nil && !errors.Is(err, errLost) {
		m.Log.Warn("cannot postpone the recovery of a resource", "resource", p.ID, "error", err)
	}
}

// settleAll makes engines agree with rows that have changed in the meantime. A late call may have created a
// deleted resource again or set an old password; settling deletes the resource or sets the current password.
func (m *Manager) settleAll(ctx context.Context, all []*Provisioned) {
	for _, p := range all {
		if err := m.settle(ctx, p); err != nil {
			m.Log.Warn("cannot reconcile a resource with its engine", "resource", p.ID, "error", err)
		}
	}
}

// settle repeats until the row stays the same, because its own call may be late too.
func (m *Manager) settle(ctx context.Context, p *Provisioned) error {
	for range maxSettle {
		current, err := m.Store.one(m.Store.DB.Read(ctx), `WHERE id = $1`, p.ID)
		gone := errors.Is(err, db.ErrNoRows)
		switch {
		case gone || err == nil && current.State == Deleting && current.version != p.version:
			return m.deleteOne(ctx, p)
		case err != nil:
			return err
		case current.version == p.version:
			return nil
		}
		e, err := m.engineOf(current)
		if err != nil {
			return err
		}
		if err := m.call(ctx, current, "rotate", e.Rotate); err != nil {
			return err
		}
		p = current
	}
	return errLost
}
