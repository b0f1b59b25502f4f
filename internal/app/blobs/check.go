package blobs

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/blob"
	"steward/internal/db/tablecopy"
	"steward/internal/errs"
	"steward/internal/object"
)

// CheckRow returns Conflict if a row's bytes differ in size between the row and a store. Rows for
// objects and upload parts refer to bytes. Missing bytes are left to whoever reads them: they may
// have been deleted meanwhile.
func CheckRow(ctx context.Context, store blob.Store, t tablecopy.Table, row []any) error {
	refs, err := references(t, row)
	if err != nil {
		return err
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
				r.ID, owner(t, row), size, r.Size)
		}
	}
	return nil
}

// references returns the bytes that a row refers to.
func references(t tablecopy.Table, row []any) ([]object.Reference, error) {
	switch t.Name {
	case "objects":
		text, _ := value(t, row, "blobs").(string)
		return object.DecodeReferences(text)
	case "object_parts":
		blobID, _ := value(t, row, "blob_id").(string)
		size, _ := value(t, row, "size").(int64)
		return []object.Reference{{ID: blobID, Size: size}}, nil
	}
	return nil, nil
}

// owner names the owner of a row's bytes.
func owner(t tablecopy.Table, row []any) string {
	if t.Name == "objects" {
		return fmt.Sprintf("the object %q in the bucket %v", value(t, row, "key"), value(t, row, "bucket_id"))
	}
	return fmt.Sprintf("the upload %v", value(t, row, "upload_id"))
}

// value returns a row's value in a column, or nil.
func value(t tablecopy.Table, row []any, column string) any {
	for i, c := range t.Columns {
		if c.Name == column {
			return row[i]
		}
	}
	return nil
}
