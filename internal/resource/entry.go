package resource

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
	"steward/internal/object"
)

// Created is the response to a creation.
type Created struct {
	_ struct{} `goName:"CreatedResources"`

	Created []Entry `json:"created"`
}

// Entry is a resource with its credentials: an S3Created, DBCreated or KVCreated.
type Entry struct{ value any }

// S3Created is a bucket's Entry.
type S3Created struct {
	Type Type   `json:"type" enum:"s3"`
	Name string `json:"name" example:"invoices"`
	S3Entry
}

// DBCreated is a database's Entry.
type DBCreated struct {
	Type Type `json:"type" enum:"db"`
	DBEntry
}

// KVCreated is a key-value store's Entry.
type KVCreated struct {
	Type Type `json:"type" enum:"kv"`
	KVEntry
}

// MarshalJSON implements json.Marshaler.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.value) }

// Schema documents the three types that an entry can have.
func (Entry) Schema(r huma.Registry) *huma.Schema {
	var options []*huma.Schema
	for _, t := range []reflect.Type{reflect.TypeFor[S3Created](), reflect.TypeFor[DBCreated](), reflect.TypeFor[KVCreated]()} {
		options = append(options, r.Schema(t, true, ""))
	}
	return &huma.Schema{AnyOf: options}
}

// entry returns the parts of a resource that a caller may see.
func (h *Handler) entry(caller *auth.Caller, r Resource) Entry {
	if r.Bucket != nil {
		return Entry{S3Created{Type: S3, Name: r.Bucket.Name, S3Entry: h.s3Entry(caller, r.Bucket)}}
	}
	if r.Provisioned.Type == KV {
		return Entry{KVCreated{Type: KV, KVEntry: KVEntry(h.dbEntry(caller, r.Provisioned))}}
	}
	return Entry{DBCreated{Type: DB, DBEntry: h.dbEntry(caller, r.Provisioned)}}
}

// seesCredentials reports whether a caller may see credentials. Whoever has them can change everything in
// the resource.
func seesCredentials(caller *auth.Caller) bool {
	return caller.May(auth.WriteResources) && !caller.Stale
}

func (h *Handler) s3Entry(caller *auth.Caller, b *object.Bucket) S3Entry {
	address := h.Manager.S3
	e := S3Entry{
		BucketName: b.Name, Region: address.SigningRegion, Endpoint: address.Origin + "/" + b.Name,
		Description: b.Description, BucketType: "user", Internal: b.Internal, Env: map[string]string{},
	}
	if address.Domain != "" && !strings.Contains(b.Name, ".") { // TLS wildcards do not match names with dots
		e.CNAME = new(b.Name + "." + address.Domain)
	}
	if !seesCredentials(caller) {
		return e
	}
	e.AccessKey = &b.AccessKey
	e.SecretKey = &b.SecretKey
	e.Env = map[string]string{
		"S3_ENDPOINT":          address.Origin,
		"S3_BUCKET":            b.Name,
		"S3_ACCESS_KEY_ID":     b.AccessKey,
		"S3_SECRET_ACCESS_KEY": b.SecretKey,
		"S3_REGION":            address.SigningRegion,
	}
	return e
}

func (h *Handler) dbEntry(caller *auth.Caller, p *Provisioned) DBEntry {
	e := DBEntry{Name: p.Name, Username: p.ID, Engine: p.Engine, Description: p.Description, Env: map[string]string{}}
	if p.Node != OnlyNode {
		e.Node = p.Node
	}
	if !seesCredentials(caller) {
		return e
	}
	e.Password = &p.Password
	engine, err := h.Manager.engineOf(p)
	if err != nil {
		return e // the region now has another engine
	}
	c := engine.Connection(p)
	e.URL = &c.URL
	e.Env = c.Env
	return e
}
