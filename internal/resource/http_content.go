package resource

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
)

// maxRows caps the rows in a query's result.
const maxRows = 1000

// nameInput names a resource.
type nameInput struct {
	regionInput
	Name string `path:"name" doc:"Name of the resource" example:"invoices"`
}

// open returns the requested resource and its engine. It returns NotFound, or Unavailable if the region
// no longer has that engine.
func (h *Handler) open(ctx context.Context, in nameInput, t Type) (Engine, *Provisioned, error) {
	caller := auth.From(ctx)
	region, err := h.region(caller, in.regionInput)
	if err != nil {
		return nil, nil, err
	}
	p, err := h.Manager.Store.Get(ctx, caller.OrgID, region.Region, t, in.Name)
	if err != nil {
		return nil, nil, err
	}
	e, err := h.Manager.engineOf(p)
	return e, p, err
}

func (h *Handler) openDatabase(ctx context.Context, in nameInput) (Databases, *Provisioned, error) {
	e, p, err := h.open(ctx, in, DB)
	if err != nil {
		return nil, nil, err
	}
	return e.(Databases), p, nil
}

func (h *Handler) openStore(ctx context.Context, in nameInput) (Stores, *Provisioned, error) {
	e, p, err := h.open(ctx, in, KV)
	if err != nil {
		return nil, nil, err
	}
	return e.(Stores), p, nil
}

// Tables is a list of tables.
type Tables []Table

// Tables serves GET /resource/{orgId}/{region}/{name}/tables.
func (h *Handler) Tables(ctx context.Context, in *nameInput) (Tables, error) {
	engine, p, err := h.openDatabase(ctx, *in)
	if err != nil {
		return nil, err
	}
	tables, err := within(ctx, p, func(ctx context.Context) ([]Table, error) { return h.Manager.tables(ctx, engine, p) })
	if tables == nil {
		tables = []Table{}
	}
	return tables, err
}

// NewQuery is one SQL statement with its parameters.
type NewQuery struct {
	Query string `json:"query" minLength:"1" doc:"One SQL statement" example:"SELECT * FROM invoices WHERE id = ?"`
	Args  []Arg  `json:"args,omitempty" maxItems:"1000" doc:"Values of the parameters, in their order: null, booleans, numbers, text, or bytes as {\"base64\": …}"`
}

// Check implements web.Checked.
func (n NewQuery) Check(faults *errs.Faults) {
	for i, a := range n.Args {
		faults.Check(a.err == nil, "body.args["+strconv.Itoa(i)+"]", "%s", errArg)
	}
}

// values returns the parameters' values, or Invalid with all faults.
func (n NewQuery) values() ([]any, error) {
	var faults errs.Faults
	n.Check(&faults)
	all := make([]any, len(n.Args))
	for i, a := range n.Args {
		all[i] = a.value
	}
	return all, faults.Err()
}

// Query serves POST /resource/{orgId}/{region}/{name}/query.
func (h *Handler) Query(ctx context.Context, in *struct {
	nameInput
	Body NewQuery
},
) (Rows, error) {
	engine, p, err := h.openDatabase(ctx, in.nameInput)
	if err != nil {
		return Rows{}, err
	}
	args, err := in.Body.values()
	if err != nil {
		return Rows{}, err
	}
	if err := idempotency.Claim(ctx); err != nil {
		return Rows{}, err
	}
	rows, err := within(ctx, p, func(ctx context.Context) (Rows, error) {
		if h.Manager.elsewhere(p) {
			return h.Manager.queryThere(ctx, p, in.Body)
		}
		return engine.Query(ctx, p, in.Body.Query, args, maxRows)
	})
	if err != nil {
		return Rows{}, err
	}
	return rows.bounded(), nil
}

// KeysInput selects keys in a store.
type KeysInput struct {
	nameInput
	Prefix string `query:"prefix" maxLength:"1024" doc:"Beginning of the keys" example:"2026/"`
	Cursor string `query:"cursor" maxLength:"4096" doc:"Cursor of the page, from next of the page before" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of keys to return"`
	Type   string `query:"type" enum:"string,hash,list,set,zset,stream" doc:"Only keys with values of this type"`
	Values bool   `query:"values" doc:"Also return the beginnings of strings, and sizes; requires the permission to manage resources, as queries do"`
}

// Keys serves GET /resource/{orgId}/{region}/{name}/keys.
func (h *Handler) Keys(ctx context.Context, in *KeysInput) (Keys, error) {
	if in.Values {
		if err := auth.From(ctx).Require(auth.WriteResources); err != nil {
			return Keys{}, err
		}
	}
	engine, p, err := h.openStore(ctx, in.nameInput)
	if err != nil {
		return Keys{}, err
	}
	keys, err := within(ctx, p, func(ctx context.Context) (Keys, error) {
		return h.Manager.keys(ctx, engine, p, KeyQuery{
			Prefix: in.Prefix, Cursor: in.Cursor, Limit: in.Limit, Type: in.Type, Values: in.Values,
		})
	})
	for i := range keys.Keys {
		keys.Keys[i].setBase64()
	}
	if keys.Keys == nil {
		keys.Keys = []Key{}
	}
	return keys, err
}

// RotateInput names the resource that gets new credentials.
type RotateInput struct {
	nameInput
	Type string `query:"type" enum:"db,s3,kv" doc:"Type of the resource; required if there are several of this name"`
}

// Rotate serves POST /resource/{orgId}/{region}/{name}/rotate.
func (h *Handler) Rotate(ctx context.Context, in *RotateInput) (entry Entry, err error) {
	caller := auth.From(ctx)
	region, err := h.region(caller, in.regionInput)
	if err != nil {
		return Entry{}, err
	}
	found, err := h.find(ctx, caller, in)
	if err != nil {
		return Entry{}, err
	}
	if found.Bucket != nil {
		return idempotency.Once(ctx, func(ctx context.Context) (Entry, error) {
			b, err := h.Manager.RotateBucket(ctx, caller, region, in.Name)
			if err != nil {
				return Entry{}, err
			}
			return h.entry(caller, Resource{Bucket: b}), nil
		})
	}
	if err := idempotency.Claim(ctx); err != nil {
		return Entry{}, err
	}
	_, err = h.Manager.Rotate(ctx, found.Provisioned, func(tx *db.Tx, r Resource) error {
		entry = h.entry(caller, r)
		return idempotency.Keep(tx, entry)
	})
	return entry, err
}

// find returns the resource to rotate. It returns Invalid if the name fits several.
func (h *Handler) find(ctx context.Context, caller *auth.Caller, in *RotateInput) (Resource, error) {
	var found []Resource
	for _, t := range []Type{S3, DB, KV} {
		if in.Type != "" && in.Type != string(t) {
			continue
		}
		r, err := h.get(ctx, caller, in.nameInput, t)
		if err == nil {
			found = append(found, r)
		} else if errs.KindOf(err) != errs.NotFound {
			return Resource{}, err
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Resource{}, errs.InvalidField("query.type", "expected the type, since there are several resources of this name")
	case in.Type != "":
		return Resource{}, errs.Missing(Type(in.Type).noun(), in.Name)
	}
	return Resource{}, errs.Missing("resource", in.Name)
}

// get returns a resource of a type by its name, or NotFound.
func (h *Handler) get(ctx context.Context, caller *auth.Caller, in nameInput, t Type) (Resource, error) {
	if t != S3 {
		p, err := h.Manager.Store.Get(ctx, caller.OrgID, in.Region, t, in.Name)
		return Resource{Provisioned: p}, err
	}
	buckets, err := h.Manager.Buckets.List(ctx, caller.OrgID, in.Region)
	if err != nil {
		return Resource{}, err
	}
	for _, b := range buckets {
		if b.Name == in.Name {
			return Resource{Bucket: b}, nil
		}
	}
	return Resource{}, errs.Missing("bucket", in.Name)
}

// Arg is a parameter's value: nil, bool, int64, float64, string or []byte.
type Arg struct {
	value any
	err   error
}

var errArg = errors.New("expected null, a boolean, a number, text, or an object with bytes in base64")

// UnmarshalJSON reads a value. It keeps a fault for Check, which reports all of them at once.
func (a *Arg) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return err
	}
	a.value, a.err = argValue(value)
	return nil
}

// MarshalJSON writes a value as UnmarshalJSON reads it.
func (a Arg) MarshalJSON() ([]byte, error) {
	if raw, ok := a.value.([]byte); ok {
		return json.Marshal(map[string][]byte{"base64": raw})
	}
	return json.Marshal(a.value)
}

func argValue(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n, nil
		}
		return v.Float64()
	case map[string]any:
		text, ok := v["base64"].(string)
		if ok && len(v) == 1 {
			return base64.StdEncoding.DecodeString(text)
		}
	}
	return nil, errArg
}

// Schema documents that a value can have several types.
func (Arg) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Examples: []any{1042}} }

// bounded converts the rows for JSON, and cuts them to fit into a response.
func (r Rows) bounded() Rows {
	if r.Columns == nil {
		r.Columns = []string{}
	}
	out := Rows{Columns: r.Columns, Rows: [][]any{}, Truncated: r.Truncated, RowsAffected: r.RowsAffected}
	size := 0
	for i, row := range r.Rows {
		for j, v := range row {
			var n int
			row[j], n = cell(v)
			size += n
		}
		if size > page.MaxBytes || i == maxRows {
			out.Truncated = true
			break
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// cell converts a value for JSON, and estimates its size in bytes.
func cell(value any) (any, int) {
	switch v := value.(type) {
	case string:
		return v, len(v) + 3
	case []byte:
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(v)}, len(v)*4/3 + 15
	case map[string]string:
		return v, len(v["base64"]) + 15
	case map[string]any:
		text, _ := v["base64"].(string)
		return v, len(text) + 15
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64), 6
		}
	}
	return value, 24
}
