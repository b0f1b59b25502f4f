// Package inventory knows what an installation consists of besides its rows: embedded databases,
// key-value stores and blobs. Rows refer to all of them. A backup contains rows, databases, stores and
// blobs in this order, a restore reads them in the same order, and a move copies a row's bytes before
// the row.
package inventory

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/blob"
	"steward/internal/db/tablecopy"
	"steward/internal/errs"
	"steward/internal/object"
)

// Inventory lists what the rows of an installation need in a data directory.
type Inventory struct {
	// Node is the data directory's id.
	Node string
	// Rows counts the rows in each table.
	Rows map[string]int64
	// Databases and Stores have the ids of the embedded databases and key-value stores. Elsewhere counts
	// those whose files are in other nodes' data directories.
	Databases, Stores []string
	Elsewhere         int64
}

// New returns an empty inventory of a data directory.
func New(node string) Inventory { return Inventory{Node: node, Rows: map[string]int64{}} }

// Add adds a row. It returns the id of the blob that the row needs, or "".
func (i *Inventory) Add(t tablecopy.Table, line []byte) (blobID string, err error) {
	i.Rows[t.Name]++
	if t.Name != "blobs" && t.Name != "resources" {
		return "", nil
	}
	row, err := t.Decode(line)
	if err != nil {
		return "", err
	}
	if t.Name == "blobs" {
		return Blob(t, row), nil
	}
	node, state := t.Value(row, "node"), t.Value(row, "state")
	switch {
	case node == nil || node == "" || state != "active" && state != "rotating": // on another server, or changing
	case node != i.Node:
		i.Elsewhere++
	case t.Value(row, "type") == "db":
		i.Databases = append(i.Databases, fmt.Sprint(t.Value(row, "id")))
	default:
		i.Stores = append(i.Stores, fmt.Sprint(t.Value(row, "id")))
	}
	return "", nil
}

// Total returns the number of rows in all tables.
func (i *Inventory) Total() (rows int64) {
	for _, n := range i.Rows {
		rows += n
	}
	return rows
}

// Blob returns the id of the blob that a row of the table blobs stands for, or "" if it is garbage.
func Blob(t tablecopy.Table, row []any) string {
	if t.Value(row, "garbage_at") != nil {
		return ""
	}
	return fmt.Sprint(t.Value(row, "id"))
}

// HasSizes reports whether a table's rows have the sizes of blobs.
func HasSizes(table string) bool { return table == "objects" || table == "object_parts" }

// CheckSizes returns Conflict if a blob in the store differs in size from the row of the object or the
// part that refers to it. Missing blobs are left to whoever reads them: they may have been deleted
// meanwhile.
func CheckSizes(ctx context.Context, store blob.Store, t tablecopy.Table, row []any) error {
	var refs []object.Reference
	var owner string
	if t.Name == "objects" {
		text, _ := t.Value(row, "blobs").(string)
		decoded, err := object.DecodeReferences(text)
		if err != nil {
			return err
		}
		refs = decoded
		owner = fmt.Sprintf("the object %q in the bucket %v", t.Value(row, "key"), t.Value(row, "bucket_id"))
	} else {
		blobID, _ := t.Value(row, "blob_id").(string)
		size, _ := t.Value(row, "size").(int64)
		refs = []object.Reference{{ID: blobID, Size: size}}
		owner = fmt.Sprintf("the upload %v", t.Value(row, "upload_id"))
	}
	for _, r := range refs {
		size, err := store.Size(ctx, r.ID)
		if errors.Is(err, blob.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look up the size of blob %s: %w", r.ID, err)
		}
		if size != r.Size {
			return errs.New(errs.Conflict, "blob %s of %s has %d bytes instead of %d: put a good copy of it back, or delete what it belongs to",
				r.ID, owner, size, r.Size)
		}
	}
	return nil
}
