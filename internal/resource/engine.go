package resource

import (
	"context"
	"slices"

	"steward/internal/stamp"
)

// Provisioned is a database or key-value store, with the credentials that its engine must accept. Clients
// use the ID as the user name. Requests share it, so it must not be changed.
type Provisioned struct {
	ID          string // db_… or kv_…
	Type        Type   // DB or KV
	OrgID       string
	Region      string
	Name        string
	Description *string
	// Engine names the engine that created it.
	Engine string
	// Node is the data directory that has its files. It is empty if the engine is another server.
	Node      string
	State     State
	Password  string
	CreatedBy string
	CreatedAt stamp.Time
	UpdatedAt stamp.Time

	version int64
}

// State is a database's or key-value store's state. docs/states.md says who changes it.
type State string

// The states. Clients do not see Creating and Deleting resources. Every state but Active has a deadline;
// after it, any replica deletes a Creating or Deleting resource and finishes a rotation.
const (
	Creating State = "creating"
	Active   State = "active"
	Rotating State = "rotating"
	Deleting State = "deleting"
)

// OnlyNode is the only node in an installation on SQLite.
const OnlyNode = "local"

// Embedded names the engine for key-value stores inside this process.
const Embedded = "embedded"

// Engine provides databases or key-value stores. Its methods return Unavailable if the engine cannot be
// reached. Each can be repeated, by any replica, after a crash in the middle of a call.
type Engine interface {
	// Name returns the engine's name as entries show it, such as postgres.
	Name() string
	// Local reports whether the engine keeps files in this process's data directory.
	Local() bool
	// Check returns an error if the engine cannot be used: Unavailable if it cannot be reached, and
	// another error if something is missing, such as a permission.
	Check(ctx context.Context) error
	// Create makes p usable with its password.
	Create(ctx context.Context, p *Provisioned) error
	// Rotate makes p's password the only valid one, and closes connections that used another.
	Rotate(ctx context.Context, p *Provisioned) error
	// Delete closes the connections to p and removes everything it holds. It returns nil if nothing is left.
	Delete(ctx context.Context, p *Provisioned) error
	// Connection returns the URL and environment for clients.
	Connection(p *Provisioned) Connection
}

// Connection tells a client how to connect.
type Connection struct {
	URL string
	// Env holds environment variables for common clients.
	Env map[string]string
}

// Databases is an engine for databases.
type Databases interface {
	Engine
	// Tables returns tables and views, sorted by name.
	Tables(ctx context.Context, p *Provisioned) ([]Table, error)
	// Query runs one statement and returns at most limit rows. If the statement fails, it returns Invalid
	// with the database's message.
	Query(ctx context.Context, p *Provisioned, query string, args []any, limit int) (Rows, error)
}

// Stores is an engine for key-value stores.
type Stores interface {
	Engine
	// Keys returns a page of keys.
	Keys(ctx context.Context, p *Provisioned, q KeyQuery) (Keys, error)
	// Eval runs a script on a key and returns its reply: nil, an int64, a string, or an []any with these.
	// If the reply is an error, Eval returns a ReplyError.
	Eval(ctx context.Context, p *Provisioned, script Script) (any, error)
}

// Finder looks up the resources that clients of embedded engines name. It is a Store.
type Finder interface {
	// ByID returns a resource that clients may use, or NotFound.
	ByID(ctx context.Context, id string) (*Provisioned, error)
	// ByPassword returns the key-value store with a password, given the password's SHA-256, or NotFound.
	ByPassword(ctx context.Context, hash []byte) (*Provisioned, error)
}

// Table is a table or view in a database.
type Table struct {
	Schema  string   `json:"schema" doc:"Schema of the table; main with libSQL" example:"main"`
	Name    string   `json:"name" example:"invoices"`
	Type    string   `json:"type" enum:"table,view"`
	Columns []Column `json:"columns"`
}

// Column is a column of a table or a result.
type Column struct {
	Name       string `json:"name" example:"id"`
	Type       string `json:"type" doc:"Type as the database declares it" example:"integer"`
	Nullable   bool   `json:"nullable"`
	PrimaryKey bool   `json:"primary_key"`
}

// Rows is a statement's result. A value is null, a boolean, a number or a string, {"base64": …} for
// bytes, or the database's text for any other type.
type Rows struct {
	_ struct{} `goName:"QueryResult"`

	Columns   []string `json:"columns" example:"id,total"`
	Rows      [][]any  `json:"rows" example:"[[1042,12.5]]"`
	Truncated bool     `json:"truncated" doc:"Whether there were more rows than shown"`
	// RowsAffected is nil if the statement returns columns.
	RowsAffected *int64 `json:"rows_affected,omitempty" doc:"Number of rows that the statement inserted, updated or deleted; only if it returns no columns"`
}

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
