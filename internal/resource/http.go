package resource

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// Bucket is a bucket as its engine knows it.
type Bucket struct {
	Name        string
	OrgID       string
	Region      string
	Description *string
	Internal    bool
	AccessKey   string
	SecretKey   string
	CreatedAt   stamp.Time
	Objects     int64
	Bytes       int64
	LastEventAt *stamp.Time
}

// Buckets is the engine of buckets.
type Buckets struct {
	// Create creates a bucket of the caller in a region. It returns Conflict if the name is taken; ""
	// has the engine choose one.
	Create func(tx *db.Tx, caller *auth.Caller, region, name string, description *string) (Bucket, error)
	// Delete deletes a bucket with all that it holds. It returns NotFound if the organization has no
	// such bucket in the region, and Conflict if ifEmpty is true and it has objects.
	Delete func(tx *db.Tx, orgID, region, name string, ifEmpty bool) error
	// List returns the buckets of an organization in a region, or in all of them, by name.
	List func(ctx context.Context, orgID, region string) ([]Bucket, error)
	// ValidName reports whether a bucket can have a name; ExpectedName says what it accepts.
	ValidName    func(name string) bool
	ExpectedName string
	// SigningRegion is the region with which clients sign requests.
	SigningRegion string
	// Origin is the URL of the S3 listener.
	Origin string
	// Domain is the domain of virtual-hosted buckets, or "".
	Domain string
}

// Handler serves the routes of this package.
type Handler struct {
	DB         *db.DB
	Configured []Region
	Buckets    Buckets
	// OrgName returns the name of an organization.
	OrgName func(ctx context.Context, orgID string) (string, error)
}

// Regions serves GET /cli/region.
func (h *Handler) Regions(context.Context, *struct{}) ([]Region, error) { return h.Configured, nil }

// RegionInput names a region of an organization. It is exported because huma ignores embedded structs
// that are not.
type RegionInput struct {
	OrgID  string `path:"orgId" doc:"Id of the organization"`
	Region string `path:"region" doc:"Region, as GET /cli/region lists it" example:"local"`
}

// check returns NotFound if the organization is not the caller's, or the region does not exist.
func (h *Handler) check(caller *auth.Caller, in RegionInput) error {
	if in.OrgID != caller.OrgID {
		return errs.Missing("organization", in.OrgID)
	}
	if !slices.ContainsFunc(h.Configured, func(r Region) bool { return r.Region == in.Region }) {
		return errs.Missing("region", in.Region)
	}
	return nil
}

// List serves GET /resource/{orgId}/{region}.
func (h *Handler) List(ctx context.Context, in *RegionInput) (List, error) {
	caller := auth.From(ctx)
	if err := h.check(caller, *in); err != nil {
		return List{}, err
	}
	buckets, err := h.Buckets.List(ctx, caller.OrgID, in.Region)
	if err != nil {
		return List{}, err
	}
	list := List{S3: []S3Entry{}, DB: []DBEntry{}, KV: []KVEntry{}}
	for _, b := range buckets {
		list.S3 = append(list.S3, h.s3Entry(caller, b))
	}
	return list, nil
}

// s3Entry returns a bucket as a caller may see it.
func (h *Handler) s3Entry(caller *auth.Caller, b Bucket) S3Entry {
	e := S3Entry{
		BucketName: b.Name, Region: h.Buckets.SigningRegion, Endpoint: h.Buckets.Origin + "/" + b.Name,
		Description: b.Description, BucketType: "user", Internal: b.Internal, Env: map[string]string{},
	}
	if h.Buckets.Domain != "" && !strings.Contains(b.Name, ".") { // a name with dots needs a certificate of its own
		e.CNAME = new(b.Name + "." + h.Buckets.Domain)
	}
	if caller.Role == auth.Viewer {
		return e
	}
	e.AccessKey = &b.AccessKey
	e.SecretKey = &b.SecretKey
	e.Env = map[string]string{
		"S3_ENDPOINT":          h.Buckets.Origin,
		"S3_BUCKET":            b.Name,
		"S3_ACCESS_KEY_ID":     b.AccessKey,
		"S3_SECRET_ACCESS_KEY": b.SecretKey,
		"S3_REGION":            h.Buckets.SigningRegion,
	}
	return e
}

// Create serves POST /resource/{orgId}/{region}.
func (h *Handler) Create(ctx context.Context, in *struct {
	RegionInput
	Body NewResources
},
) (Created, error) {
	caller := auth.From(ctx)
	if err := h.check(caller, in.RegionInput); err != nil {
		return Created{}, err
	}
	if err := h.checkNew(in.Region, in.Body); err != nil {
		return Created{}, err
	}
	var created []CreatedResource
	err := h.DB.Write(ctx, func(tx *db.Tx) error {
		created = nil
		for _, r := range in.Body.Resources {
			name := ""
			if r.Name != nil {
				name = *r.Name
			}
			b, err := h.Buckets.Create(tx, caller, in.Region, name, r.Description)
			if err != nil {
				return err
			}
			created = append(created, CreatedResource{Type: S3, Name: b.Name, S3Entry: h.s3Entry(caller, b)})
		}
		return nil
	})
	return Created{Created: created}, err
}

// Gone is the result of a deletion. Its response is empty, but in an envelope it names what was
// deleted.
type Gone struct{ resources []Named }

type goneResource struct {
	Type    Type     `json:"type"`
	Name    string   `json:"name"`
	EnvKeys []string `json:"env_keys"`
}

// SDK returns the form of the value in an envelope.
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
	RegionInput
	Body Deletion
},
) (Gone, error) {
	caller := auth.From(ctx)
	if err := h.check(caller, in.RegionInput); err != nil {
		return Gone{}, err
	}
	if err := in.Body.check(in.Region); err != nil {
		return Gone{}, err
	}
	err := h.DB.Write(ctx, func(tx *db.Tx) error {
		for _, r := range in.Body.Resources {
			if err := h.Buckets.Delete(tx, caller.OrgID, in.Region, r.Name, r.IfEmpty); err != nil {
				return err
			}
		}
		return nil
	})
	return Gone{in.Body.Resources}, err
}

// AllInput selects resources of all regions. It is exported because huma calls Resolve.
type AllInput struct {
	Type      string `query:"type" enum:"all,s3,db,kv" default:"all" doc:"Type of the resources"`
	Name      string `query:"name" doc:"Name of the resources, in any case"`
	Limit     int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number of items to return (default: all)"`
	Offset    int    `query:"offset" default:"0" minimum:"0" doc:"Number of items to skip"`
	Sort      string `query:"sort" enum:"name,created,region" default:"name" doc:"Order of the resources"`
	Direction string `query:"direction" enum:"asc,desc" default:"asc" doc:"Direction of the order"`
}

// Resolve sets Limit if the query has none. Platform CLIs look for a resource in the list without a
// limit, so that the list has to have all of them.
func (in *AllInput) Resolve(ctx huma.Context) []error {
	if ctx.Query("limit") == "" {
		in.Limit = math.MaxInt
	}
	return nil
}

// All serves GET /resource.
func (h *Handler) All(ctx context.Context, in *AllInput) (Placed, error) {
	caller := auth.From(ctx)
	placed := Placed{S3: []PlacedS3{}, DB: []PlacedDB{}, KV: []PlacedKV{}}
	if in.Type != "all" && in.Type != string(S3) {
		return placed, nil
	}
	orgName, err := h.OrgName(ctx, caller.OrgID)
	if err != nil {
		return Placed{}, err
	}
	buckets, err := h.Buckets.List(ctx, caller.OrgID, "")
	if err != nil {
		return Placed{}, err
	}
	if in.Name != "" {
		buckets = slices.DeleteFunc(buckets, func(b Bucket) bool { return !strings.EqualFold(b.Name, in.Name) })
	}
	sortBuckets(buckets, in.Sort, in.Direction)
	buckets = buckets[min(in.Offset, len(buckets)):]
	for _, b := range buckets[:min(in.Limit, len(buckets))] {
		placed.S3 = append(placed.S3, PlacedS3{
			S3Entry:     h.s3Entry(caller, b),
			Place:       Place{CloudRegion: b.Region, OrgID: caller.OrgID, OrgName: orgName},
			ObjectCount: b.Objects, TotalSize: b.Bytes, LastEventAt: b.LastEventAt,
		})
	}
	return placed, nil
}

// sortBuckets sorts by name, time of creation or region, and then by name.
func sortBuckets(buckets []Bucket, by, direction string) {
	slices.SortFunc(buckets, func(a, b Bucket) int {
		order := 0
		switch by {
		case "created":
			order = cmp.Compare(a.CreatedAt, b.CreatedAt)
		case "region":
			order = cmp.Compare(a.Region, b.Region)
		}
		order = cmp.Or(order, cmp.Compare(a.Name, b.Name))
		if direction == "desc" {
			return -order
		}
		return order
	})
}
