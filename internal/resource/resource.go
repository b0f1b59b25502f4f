package resource

import (
	"fmt"
	"regexp"
	"strings"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/stamp"
)

// Type is a resource's type.
type Type string

// The types.
const (
	S3 Type = "s3"
	DB Type = "db"
	KV Type = "kv"
)

// noun names the type in messages.
func (t Type) noun() string {
	return map[Type]string{S3: "bucket", DB: "database", KV: "key-value store"}[t]
}

// action returns an action's name in the audit log, such as database.create.
func (t Type) action(verb string) string {
	return map[Type]string{S3: "bucket", DB: "database", KV: "kv"}[t] + "." + verb
}

func (t Type) prefix() string {
	if t == KV {
		return id.KVStore
	}
	return id.Database
}

// newName returns a unique name for a resource whose request has none.
func (t Type) newName() string { return string(t) + "-" + strings.ToLower(id.Secret(20)) }

var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,62}$`)

// expectedName describes in error messages which names validName accepts.
const expectedName = "1 to 63 characters of a-z, 0-9, `_` and `-` that begin with a letter or `_`, and not with `pg_`"

// validName reports whether name suits a database or key-value store. PostgreSQL reserves pg_.
func validName(name string) bool {
	return namePattern.MatchString(name) && !strings.HasPrefix(name, "pg_")
}

// S3Entry has the bucket fields that clients need. The credentials are null for callers who may not
// manage resources.
type S3Entry struct {
	_ struct{} `goName:"Bucket"`

	BucketName  string            `json:"bucket_name" example:"invoices"`
	AccessKey   *string           `json:"access_key" example:"df0UxqYAgNxAmBn1ZuKP"`
	SecretKey   *string           `json:"secret_key" example:"dMwvjoSbc3EHYQzgtODD5i1Qv7mhFBzTlvGDNzaJ"`
	Region      string            `json:"region" doc:"Region to sign requests with" example:"us-east-1"`
	Endpoint    string            `json:"endpoint" doc:"URL of the bucket" example:"http://127.0.0.1:9000/invoices"`
	CNAME       *string           `json:"cname" doc:"Host name of the bucket in virtual-hosted style, or null" example:"invoices.s3.example.com"`
	Description *string           `json:"description" example:"Orders of the shop"`
	BucketType  string            `json:"bucket_type" enum:"user"`
	Internal    bool              `json:"internal"`
	Env         map[string]string `json:"env" doc:"Environment variables for S3 clients; empty for viewers, and without the scope resource:write"`
}

// DBEntry has the database fields that clients need. Password and URL are null for callers who may not
// manage resources.
type DBEntry struct {
	_ struct{} `goName:"Database"`

	Name        string            `json:"name" example:"orders"`
	Username    string            `json:"username" example:"db_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Password    *string           `json:"password" doc:"Null for viewers, and without the scope resource:write" example:"4fVq0hXz7Lr2mTb9KcW1sYpD"`
	URL         *string           `json:"url" doc:"Null for viewers, without the scope resource:write, and while the region does not have the engine" example:"https://steward.example.com/db/db_01jcq3v5w8z9d6y4k2m7n0p1rt/"`
	Engine      string            `json:"engine" doc:"Engine of the database" example:"libsql"`
	Node        string            `json:"node,omitempty" doc:"Data directory that has its files; absent with SQLite, and if its engine is another server" example:"node_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Description *string           `json:"description" example:"Orders of the shop"`
	Internal    bool              `json:"internal"`
	Env         map[string]string `json:"env" doc:"Environment variables for database clients; empty for viewers, and without the scope resource:write"`
}

// KVEntry has the key-value store fields that clients need. Password and URL are null for callers who may
// not manage resources.
type KVEntry struct {
	_ struct{} `goName:"KeyValueStore"`

	Name        string            `json:"name" example:"cache"`
	Username    string            `json:"username" example:"kv_01jcq3v5w8z9d6y4k2m7n0p1rv"`
	Password    *string           `json:"password" doc:"Null for viewers, and without the scope resource:write" example:"4fVq0hXz7Lr2mTb9KcW1sYpD"`
	URL         *string           `json:"url" doc:"Null for viewers, without the scope resource:write, and while the region does not have the engine" example:"redis://kv_01jcq3v5w8z9d6y4k2m7n0p1rv:4fVq0hXz7Lr2mTb9KcW1sYpD@steward.example.com:6379/0"`
	Engine      string            `json:"engine" doc:"Engine of the store" example:"embedded"`
	Node        string            `json:"node,omitempty" doc:"Data directory that has its files; absent with SQLite, and if its engine is another server" example:"node_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Description *string           `json:"description" example:"Orders of the shop"`
	Internal    bool              `json:"internal"`
	Env         map[string]string `json:"env" doc:"Environment variables for Redis clients; empty for viewers, and without the scope resource:write"`
}

// List holds an organization's resources in a region.
type List struct {
	_ struct{} `goName:"RegionResources"`

	S3    []S3Entry `json:"s3"`
	DB    []DBEntry `json:"db"`
	KV    []KVEntry `json:"kv"`
	Redis *Redis    `json:"redis,omitempty" doc:"The first key-value store; absent if there is none, and for viewers"`
}

// Redis tells a client how to connect to a key-value store.
type Redis struct {
	_ struct{} `goName:"ResourceRedis"`

	URL string `json:"url" example:"redis://kv_01jcq3v5w8z9d6y4k2m7n0p1rv:4fVq0hXz7Lr2mTb9KcW1sYpD@steward.example.com:6379/0"`
}

// Place locates a resource.
type Place struct {
	CloudRegion string `json:"cloud_region" example:"local"`
	OrgID       string `json:"org_id" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	OrgName     string `json:"org_name" example:"Harbour Ltd"`
}

// PlacedS3 is a bucket in the list across regions.
type PlacedS3 struct {
	_ struct{} `goName:"PlacedBucket"`

	S3Entry
	Place
	ObjectCount int64       `json:"object_count" example:"1200"`
	TotalSize   int64       `json:"total_size" example:"57855600"`
	LastEventAt *stamp.Time `json:"last_event_at,omitempty" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
}

// PlacedDB is a database in the list across regions.
type PlacedDB struct {
	_ struct{} `goName:"PlacedDatabase"`

	DBEntry
	Place
}

// PlacedKV is a key-value store in the list across regions.
type PlacedKV struct {
	_ struct{} `goName:"PlacedKeyValueStore"`

	KVEntry
	Place
}

// Placed is the list across regions.
type Placed struct {
	_ struct{} `goName:"Resources"`

	S3 []PlacedS3 `json:"s3"`
	DB []PlacedDB `json:"db"`
	KV []PlacedKV `json:"kv"`
}

// NewResource describes a resource to create.
type NewResource struct {
	Type        Type    `json:"type" enum:"db,s3,kv"`
	Name        *string `json:"name,omitempty" maxLength:"63" doc:"Default: generated" example:"invoices"`
	Description *string `json:"description,omitempty" maxLength:"1024" example:"Orders of the shop"`
}

// NewResources is a request to create resources, all or none.
type NewResources struct {
	Resources []NewResource `json:"resources" minItems:"1" maxItems:"100"`
}

// Named names a resource to delete with everything in it.
type Named struct {
	_ struct{} `goName:"NamedResource"`

	Type    Type   `json:"type" enum:"db,s3,kv"`
	Name    string `json:"name" maxLength:"63" example:"invoices"`
	IfEmpty bool   `json:"if_empty,omitempty" doc:"Fail with 409 if the bucket has objects"`
}

// Deletion is a request to delete resources, all or none.
type Deletion struct {
	_ struct{} `goName:"ResourceDeletion"`

	Resources []Named `json:"resources" minItems:"1" maxItems:"100"`
}

// Check implements web.Checked.
func (n NewResources) Check(faults *errs.Faults) {
	names := namesSeen{}
	for i, r := range n.Resources {
		if r.Name == nil {
			continue
		}
		at := fmt.Sprintf("body.resources[%d].name", i)
		switch r.Type {
		case S3:
			faults.Check(name.ValidBucket(*r.Name), at, "expected %s", name.ExpectedBucket)
		case DB, KV:
			faults.Check(validName(*r.Name), at, "expected %s", expectedName)
		default:
			faults.Check(name.ValidBucket(*r.Name) || validName(*r.Name), at, "expected %s", expectedName)
		}
		names.check(faults, at, r.Type, *r.Name)
	}
}

// checkIn returns Invalid with all faults in a request for a region.
func (n NewResources) checkIn(region *Region) error {
	var faults errs.Faults
	n.Check(&faults)
	n.checkEngines(region, &faults)
	return faults.Err()
}

// checkEngines adds a fault for each resource whose type has no engine in the region.
func (n NewResources) checkEngines(region *Region, faults *errs.Faults) {
	for i, r := range n.Resources {
		faults.Check(region.has(r.Type), fmt.Sprintf("body.resources[%d].type", i),
			"expected another type: no engine for %s in region %s", r.Type, region.Region)
	}
}

// Check implements web.Checked.
func (d Deletion) Check(faults *errs.Faults) {
	names := namesSeen{}
	for i, r := range d.Resources {
		names.check(faults, fmt.Sprintf("body.resources[%d].name", i), r.Type, r.Name)
	}
}

func (d Deletion) check() error {
	var faults errs.Faults
	d.Check(&faults)
	return faults.Err()
}

// namesSeen holds the resources that a request has named so far.
type namesSeen map[Named]bool

// check adds a fault if the request has named a resource before. It skips entries without a type or name,
// which could not be decoded.
func (s namesSeen) check(faults *errs.Faults, location string, t Type, name string) {
	named := Named{Type: t, Name: name}
	faults.Check(!s[named] || t == "" || name == "", location, "expected another name than in the entries before")
	s[named] = true
}
