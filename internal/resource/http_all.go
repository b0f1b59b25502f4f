package resource

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"steward/internal/auth"
	"steward/internal/page"
	"steward/internal/stamp"
)

// AllInput selects resources in all regions.
type AllInput struct {
	Type      string        `query:"type" enum:"all,s3,db,kv" default:"all" doc:"Type of the resources"`
	Name      string        `query:"name" doc:"Name of the resources, in any case"`
	Limit     page.Opt[int] `query:"limit" nullable:"false" minimum:"0" maximum:"1000" doc:"Maximum number of items to return (default: all)"`
	Offset    int           `query:"offset" default:"0" minimum:"0" doc:"Number of items to skip"`
	Sort      string        `query:"sort" enum:"name,created,region" default:"name" doc:"Order of the resources"`
	Direction string        `query:"direction" enum:"asc,desc" default:"asc" doc:"Direction of the order"`
}

// All serves GET /resource. It sorts and cuts all types as one list, and then divides them.
func (h *Handler) All(ctx context.Context, in *AllInput) (Placed, error) {
	caller := auth.From(ctx)
	orgName, err := h.Accounts.OrgName(ctx, caller.OrgID)
	if err != nil {
		return Placed{}, err
	}
	all, err := h.matching(ctx, caller.OrgID, in)
	if err != nil {
		return Placed{}, err
	}
	sortResources(all, in.Sort, in.Direction)
	all = all[min(in.Offset, len(all)):]
	placed := Placed{S3: []PlacedS3{}, DB: []PlacedDB{}, KV: []PlacedKV{}}
	if in.Limit.Sent { // platform CLIs send none and look for a resource in the list, so the list must be complete
		all = all[:min(in.Limit.Value, len(all))]
	}
	for _, r := range all {
		at := Place{CloudRegion: r.region(), OrgID: caller.OrgID, OrgName: orgName}
		switch r.kind() {
		case S3:
			b := r.Bucket
			placed.S3 = append(placed.S3, PlacedS3{
				S3Entry: h.s3Entry(caller, b), Place: at,
				ObjectCount: r.held.Objects, TotalSize: r.held.Bytes, LastEventAt: r.held.LastEventAt,
			})
		case DB:
			placed.DB = append(placed.DB, PlacedDB{DBEntry: h.dbEntry(caller, r.Provisioned), Place: at})
		case KV:
			placed.KV = append(placed.KV, PlacedKV{KVEntry: KVEntry(h.dbEntry(caller, r.Provisioned)), Place: at})
		}
	}
	return placed, nil
}

// matching returns the organization's resources that have the requested type and name.
func (h *Handler) matching(ctx context.Context, orgID string, in *AllInput) ([]Resource, error) {
	all, err := h.ofOrg(ctx, orgID, in.Type)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r Resource) bool {
		return in.Type != "all" && in.Type != string(r.kind()) || in.Name != "" && !strings.EqualFold(in.Name, r.name())
	}), nil
}

// ofOrg returns an organization's resources. It may include types other than kind.
func (h *Handler) ofOrg(ctx context.Context, orgID, kind string) (all []Resource, err error) {
	if kind == "all" || kind == string(S3) {
		buckets, err := h.Manager.Buckets.List(ctx, orgID, "")
		if err != nil {
			return nil, err
		}
		usage, err := h.Manager.Totals.ByBucket(ctx, orgID)
		if err != nil {
			return nil, err
		}
		for _, b := range buckets {
			all = append(all, Resource{Bucket: b, held: usage[b.ID]})
		}
	}
	if kind != string(S3) {
		others, err := h.Manager.Store.List(ctx, orgID, "")
		if err != nil {
			return nil, err
		}
		for _, p := range others {
			all = append(all, Resource{Provisioned: p})
		}
	}
	return all, nil
}

func (r Resource) kind() Type {
	if r.Bucket != nil {
		return S3
	}
	return r.Provisioned.Type
}

func (r Resource) name() string {
	if r.Bucket != nil {
		return r.Bucket.Name
	}
	return r.Provisioned.Name
}

func (r Resource) region() string {
	if r.Bucket != nil {
		return r.Bucket.Region
	}
	return r.Provisioned.Region
}

func (r Resource) createdAt() stamp.Time {
	if r.Bucket != nil {
		return r.Bucket.CreatedAt
	}
	return r.Provisioned.CreatedAt
}

// sortResources sorts by the requested property, then by name, region and type.
func sortResources(all []Resource, by, direction string) {
	slices.SortFunc(all, func(a, b Resource) int {
		order := 0
		switch by {
		case "created":
			order = cmp.Compare(a.createdAt(), b.createdAt())
		case "region":
			order = cmp.Compare(a.region(), b.region())
		}
		order = cmp.Or(order, cmp.Compare(a.name(), b.name()), cmp.Compare(a.region(), b.region()), cmp.Compare(a.kind(), b.kind()))
		if direction == "desc" {
			return -order
		}
		return order
	})
}
