package resource

import (
	"fmt"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Type is the type of a resource.
type Type string

// The types.
const (
	S3 Type = "s3"
	DB Type = "db"
	KV Type = "kv"
)

// S3Entry is a bucket as a client needs it. The credentials are null for viewers.
type S3Entry struct {
	BucketName  string            `json:"bucket_name" example:"invoices"`
	AccessKey   *string           `json:"access_key"`
	SecretKey   *string           `json:"secret_key"`
	Region      string            `json:"region" doc:"Region to sign requests with" example:"us-east-1"`
	Endpoint    string            `json:"endpoint" doc:"URL of the bucket" example:"http://127.0.0.1:9000/invoices"`
	CNAME       *string           `json:"cname" doc:"Host name of the bucket in virtual-hosted style, or null"`
	Description *string           `json:"description"`
	BucketType  string            `json:"bucket_type" enum:"user"`
	Internal    bool              `json:"internal"`
	Env         map[string]string `json:"env" doc:"Environment variables for S3 clients; empty for viewers"`
}

// DBEntry is a database as a client needs it.
type DBEntry struct {
	Name        string            `json:"name"`
	Username    *string           `json:"username"`
	Password    *string           `json:"password"`
	URL         *string           `json:"url"`
	Engine      string            `json:"engine"`
	Description *string           `json:"description"`
	Internal    bool              `json:"internal"`
	Env         map[string]string `json:"env"`
}

// KVEntry is a key-value store as a client needs it.
type KVEntry DBEntry

// List is what a region has of an organization's resources.
type List struct {
	S3 []S3Entry `json:"s3"`
	DB []DBEntry `json:"db"`
	KV []KVEntry `json:"kv"`
}

// Place is where a resource is.
type Place struct {
	CloudRegion string `json:"cloud_region" example:"local"`
	OrgID       string `json:"org_id"`
	OrgName     string `json:"org_name"`
}

// PlacedS3 is a bucket in the list over all regions.
type PlacedS3 struct {
	S3Entry
	Place
	ObjectCount int64       `json:"object_count"`
	TotalSize   int64       `json:"total_size"`
	LastEventAt *stamp.Time `json:"last_event_at,omitempty" format:"date-time"`
}

// PlacedDB is a database in the list over all regions.
type PlacedDB struct {
	DBEntry
	Place
}

// PlacedKV is a key-value store in the list over all regions.
type PlacedKV struct {
	KVEntry
	Place
}

// Placed is the list over all regions.
type Placed struct {
	S3 []PlacedS3 `json:"s3"`
	DB []PlacedDB `json:"db"`
	KV []PlacedKV `json:"kv"`
}

// NewResource is a request to create a resource.
type NewResource struct {
	Type        Type    `json:"type" enum:"db,s3,kv"`
	Name        *string `json:"name,omitempty" maxLength:"63" doc:"Default: generated" example:"invoices"`
	Description *string `json:"description,omitempty" maxLength:"1024"`
}

// NewResources is a request to create resources, all or none.
type NewResources struct {
	Resources []NewResource `json:"resources" minItems:"1" maxItems:"100"`
}

// Named is a request to delete a resource with all that it holds.
type Named struct {
	Type    Type   `json:"type" enum:"db,s3,kv"`
	Name    string `json:"name" maxLength:"63" example:"invoices"`
	IfEmpty bool   `json:"if_empty,omitempty" doc:"Fail with 409 if the bucket has objects"`
}

// Deletion is a request to delete resources, all or none.
type Deletion struct {
	Resources []Named `json:"resources" minItems:"1" maxItems:"100"`
}

// Created is the response to a creation.
type Created struct {
	Created []CreatedResource `json:"created"`
}

// CreatedResource is a resource that was created.
type CreatedResource struct {
	Type Type   `json:"type"`
	Name string `json:"name"`
	S3Entry
}

// checkNew returns Invalid with all faults of a request to create resources.
func (h *Handler) checkNew(region string, n NewResources) error {
	var faults errs.Faults
	seen := map[Named]bool{}
	for i, r := range n.Resources {
		at := fmt.Sprintf("body.resources[%d]", i)
		checkEngine(&faults, at, r.Type, region)
		if r.Name == nil {
			continue
		}
		faults.Check(h.Buckets.ValidName(*r.Name), at+".name", "expected %s", h.Buckets.ExpectedName)
		named := Named{Type: r.Type, Name: *r.Name}
		faults.Check(!seen[named], at+".name", "expected another name than in the entries before")
		seen[named] = true
	}
	return faults.Err()
}

func checkEngine(faults *errs.Faults, at string, t Type, region string) {
	faults.Check(t == S3, at+".type", "no engine for %s in region %s", t, region)
}

// check returns Invalid if a resource is named twice or its type has no engine.
func (d Deletion) check(region string) error {
	var faults errs.Faults
	seen := map[Named]bool{}
	for i, r := range d.Resources {
		at := fmt.Sprintf("body.resources[%d]", i)
		checkEngine(&faults, at, r.Type, region)
		r.IfEmpty = false
		faults.Check(!seen[r], at+".name", "expected another name than in the entries before")
		seen[r] = true
	}
	return faults.Err()
}
