package resource

import (
	"context"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/idempotency"
)

// S3Address is where clients reach the buckets of all regions.
type S3Address struct {
	// SigningRegion is the region that clients must sign requests with.
	SigningRegion string
	// Origin is the S3 listener's URL.
	Origin string
	// Domain is the parent domain for virtual-hosted buckets, or "".
	Domain string
}

// Handler serves the routes of this package.
type Handler struct {
	Manager  *Manager
	Accounts *account.Store
}

// Regions serves GET /cli/region.
func (h *Handler) Regions(context.Context, *struct{}) ([]Region, error) {
	return h.Manager.Regions, nil
}

// regionInput names an organization's region.
type regionInput struct {
	OrgID  string `path:"orgId" doc:"Id of the organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	Region string `path:"region" doc:"Region, as GET /cli/region lists it" example:"local"`
}

// region returns the requested region, or NotFound if it does not exist or the organization is not the
// caller's.
func (h *Handler) region(caller *auth.Caller, in regionInput) (*Region, error) {
	if in.OrgID != caller.OrgID {
		return nil, errs.Missing("organization", in.OrgID)
	}
	r := find(h.Manager.Regions, in.Region)
	if r == nil {
		return nil, errs.Missing("region", in.Region)
	}
	return r, nil
}

// List serves GET /resource/{orgId}/{region}.
func (h *Handler) List(ctx context.Context, in *regionInput) (List, error) {
	caller := auth.From(ctx)
	if _, err := h.region(caller, *in); err != nil {
		return List{}, err
	}
	buckets, err := h.Manager.Buckets.List(ctx, caller.OrgID, in.Region)
	if err != nil {
		return List{}, err
	}
	others, err := h.Manager.Store.List(ctx, caller.OrgID, in.Region)
	if err != nil {
		return List{}, err
	}
	list := List{S3: []S3Entry{}, DB: []DBEntry{}, KV: []KVEntry{}}
	for _, b := range buckets {
		list.S3 = append(list.S3, h.s3Entry(caller, b))
	}
	for _, p := range others {
		list.add(p.Type, h.dbEntry(caller, p))
	}
	return list, nil
}

func (l *List) add(t Type, e DBEntry) {
	if t == DB {
		l.DB = append(l.DB, e)
		return
	}
	l.KV = append(l.KV, KVEntry(e))
	if l.Redis == nil && e.URL != nil {
		l.Redis = &Redis{URL: *e.URL}
	}
}

// CreateInput is the request for POST /resource/{orgId}/{region}.
type CreateInput struct {
	regionInput
	Body NewResources
}

// CheckCreate adds a fault for each resource whose type has no engine in the region.
func (h *Handler) CheckCreate(ctx context.Context, in *CreateInput, faults *errs.Faults) {
	if region, err := h.region(auth.From(ctx), in.regionInput); err == nil {
		in.Body.checkEngines(region, faults)
	}
}

// Create serves POST /resource/{orgId}/{region}.
func (h *Handler) Create(ctx context.Context, in *CreateInput) (Created, error) {
	caller := auth.From(ctx)
	region, err := h.region(caller, in.regionInput)
	if err != nil {
		return Created{}, err
	}
	if err := in.Body.checkIn(region); err != nil {
		return Created{}, err
	}
	if err := idempotency.Claim(ctx); err != nil {
		return Created{}, err
	}
	response := Created{}
	_, err = h.Manager.Create(ctx, caller, region, in.Body.Resources, func(tx *db.Tx, created []Resource) error {
		response.Created = make([]Entry, len(created))
		for i, r := range created {
			response.Created[i] = h.entry(caller, r)
		}
		return idempotency.Keep(tx, response)
	})
	return response, err
}

// Gone is the result of a deletion. The response is empty, but in an envelope it names the deleted resources.
type Gone struct{ resources []Named }

type goneResource struct {
	Type    Type     `json:"type"`
	Name    string   `json:"name"`
	EnvKeys []string `json:"env_keys"`
}

// SDK returns the value's form in an envelope.
func (g Gone) SDK() any {
	deleted := make([]goneResource, len(g.resources))
	for i, r := range g.resources {
		deleted[i] = goneResource{Type: r.Type, Name: r.Name, EnvKeys: []string{}}
	}
	return struct {
		Deleted []goneResource `json:"deleted"`
	}{deleted}
}

// Delete serves DELETE /resource/{orgId}/{region}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	regionInput
	Body Deletion
},
) (Gone, error) {
	caller := auth.From(ctx)
	region, err := h.region(caller, in.regionInput)
	if err != nil {
		return Gone{}, err
	}
	if err := in.Body.check(); err != nil {
		return Gone{}, err
	}
	return Gone{in.Body.Resources}, h.Manager.Delete(ctx, caller, region, in.Body.Resources)
}
