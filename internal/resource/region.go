package resource

import "slices"

// Region is a place for resources.
type Region struct {
	Region      string `json:"region" example:"local"`
	Description string `json:"description" example:"This machine"`
	// S3 reports whether buckets can be created.
	S3 bool `json:"-"`
	// DB and KV are the engines for databases and key-value stores; nil if the region has none.
	DB Databases `json:"-"`
	KV Stores    `json:"-"`
}

// engine returns the engine for a type, or nil.
func (r *Region) engine(t Type) Engine {
	switch {
	case t == DB && r.DB != nil:
		return r.DB
	case t == KV && r.KV != nil:
		return r.KV
	}
	return nil
}

// has reports whether you can create resources of a type here.
func (r *Region) has(t Type) bool { return t == S3 && r.S3 || r.engine(t) != nil }

// find returns the region with a name, or nil.
func find(regions []Region, name string) *Region {
	i := slices.IndexFunc(regions, func(r Region) bool { return r.Region == name })
	if i < 0 {
		return nil
	}
	return &regions[i]
}
