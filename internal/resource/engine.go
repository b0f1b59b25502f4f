package resource

import (
	"context"

	"steward/internal/stamp"
)

// Provisioned is a database or key-value store, with the credentials that its engine must accept. Its
// user name is its ID. It is shared by requests and must not be changed.
type Provisioned struct {
	ID          string // db_… or kv_…
	Type        Type   // DB or KV
	OrgID       string
	Region      string
	Name        string
	Description *string
	// Engine is the name of the engine that created it.
	Engine string
	// Node is the data directory that has its files, or "" if its engine is another server.
	Node      string
	State     State
	Password  string
	CreatedBy string
	CreatedAt stamp.Time
	UpdatedAt stamp.Time

	version int64
}

// State is the state of a database or key-value store. docs/states.md says who changes it.
type State string

// The states. Creating and Deleting ones are not shown. Every state but Active has a deadline,
// after which any replica continues: what is Creating or Deleting is deleted, Rotating is finished.
const (
	Creating State = "creating"
	Active   State = "active"
	Rotating State = "rotating"
	Deleting State = "deleting"
)

// OnlyNode is the node of an installation on SQLite, which has no other.
const OnlyNode = "local"

// Embedded is the name of the engine of key-value stores that this process serves itself. Stores that were
// created under its former name, redka, are its too.
const Embedded = "embedded"

const formerEmbedded = "redka"

// currentName returns the name of an engine that a row may name as it was called once.
func currentName(engine string) string {
	if engine == formerEmbedded {
		return Embedded
	}
	return engine
}

// Engine provides databases or key-value stores. Its methods return Unavailable if it cannot be
// reached. They may be repeated, by any replica, after a crash in the middle of one.
type Engine interface {
	// Name returns the name that entries show, such as postgres.
	Name() string
	// Local reports whether the engine keeps files in this process's data directory.
	Local() bool
	// Check returns an error if the engine cannot be used: Unavailable if it cannot be reached, another
	// one if it lacks something, such as a permission.
	Check(ctx context.Context) error
	// Create makes p usable with its password.
	Create(ctx context.Context, p *Provisioned) error
	// Rotate makes p's password the only one, and closes connections that were made with another.
	Rotate(ctx context.Context, p *Provisioned) error
	// Delete closes the connections to p and removes all that it holds. It returns nil if there is
	// nothing left of it.
	Delete(ctx context.Context, p *Provisioned) error
	// Connection returns what a client needs.
	Connection(p *Provisioned) Connection
}

// Connection is how a client connects.
type Connection struct {
	URL string
	// Env holds environment variables for common clients.
	Env map[string]string
}

// Databases is an engine of databases.
type Databases interface {
	Engine
	// Tables returns tables and views, by name.
	Tables(ctx context.Context, p *Provisioned) ([]Table, error)
	// Query runs one statement and returns at most limit rows. It returns Invalid with the database's
	// message if the statement fails.
	Query(ctx context.Context, p *Provisioned, query string, args []any, limit int) (Rows, error)
}

// Stores is an engine of key-value stores.
type Stores interface {
	Engine
	// Keys returns a page of keys.
	Keys(ctx context.Context, p *Provisioned, q KeyQuery) (Keys, error)
	// Eval runs a script on a key and returns its reply: nil, an int64, a string, or an []any of these. It
	// returns a ReplyError if that is an error.
	Eval(ctx context.Context, p *Provisioned, script Script) (any, error)
}

// Table is a table or view of a database.
type Table struct {
	Schema  string   `json:"schema" doc:"Schema of the table; main with libSQL" example:"main"`
	Name    string   `json:"name" example:"invoices"`
	Type    string   `json:"type" enum:"table,view"`
	Columns []Column `json:"columns"`
}

// Column is a column of a table.
type Column struct {
	Name       string `json:"name" example:"id"`
	Type       string `json:"type" doc:"Type as the database declares it" example:"integer"`
	Nullable   bool   `json:"nullable"`
	PrimaryKey bool   `json:"primary_key"`
}

// Rows is the result of a statement. Values are null, boolean, number, text, or what the database
// writes as text; bytes are {"base64": …}.
type Rows struct {
	_ struct{} `goName:"QueryResult"`

	Columns   []string `json:"columns" example:"id,total"`
	Rows      [][]any  `json:"rows" example:"[[1042,12.5]]"`
	Truncated bool     `json:"truncated" doc:"Whether there were more rows than shown"`
	// RowsAffected is nil if the statement returns columns.
	RowsAffected *int64 `json:"rows_affected,omitempty" doc:"Number of rows that the statement inserted, updated or deleted; only if it returns no columns"`
}
