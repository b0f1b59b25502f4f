package enginetest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync"

	"steward/internal/errs"
	"steward/internal/resource"
)

// Rows holds the rows of a test's resources. Engines that look up resources themselves find them here.
type Rows struct {
	mu   sync.Mutex
	byID map[string]*resource.Provisioned
	// Changed, if not nil, is called after each change, to notify the engine.
	Changed func()
}

// NewRows returns the rows of resources.
func NewRows(of ...*resource.Provisioned) *Rows {
	r := &Rows{byID: map[string]*resource.Provisioned{}}
	for _, p := range of {
		r.byID[p.ID] = p
	}
	return r
}

// ByID returns a resource that clients may use.
func (r *Rows) ByID(_ context.Context, id string) (*resource.Provisioned, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.byID[id]
	if !usable(p) {
		return nil, errs.Missing("resource", id)
	}
	return p, nil
}

// ByPassword returns the resource with a password, given the password's SHA-256.
func (r *Rows) ByPassword(_ context.Context, hash []byte) (*resource.Provisioned, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.byID {
		own := sha256.Sum256([]byte(p.Password))
		if usable(p) && subtle.ConstantTimeCompare(own[:], hash) == 1 {
			return p, nil
		}
	}
	return nil, errs.New(errs.NotFound, "resource not found")
}

func usable(p *resource.Provisioned) bool {
	return p != nil && (p.State == resource.Active || p.State == resource.Rotating)
}

func (r *Rows) put(p *resource.Provisioned) {
	r.change(func() { r.byID[p.ID] = p })
}

func (r *Rows) remove(id string) {
	r.change(func() { delete(r.byID, id) })
}

func (r *Rows) change(do func()) {
	r.mu.Lock()
	do()
	changed := r.Changed
	r.mu.Unlock()
	if changed != nil {
		changed()
	}
}
