package libsql

import (
	"strconv"

	"zombiezen.com/go/sqlite"

	"steward/internal/encode"
)

// response is the body of a pipeline's response while it is made.
type response struct {
	body  []byte
	limit int64
	// memory is charged for the body in steps.
	memory  *quota
	charged int64
}

// charge is the number of bytes by which a response grows its share of the memory.
const charge = 64 << 10

func (r *response) mark() int                { return len(r.body) }
func (r *response) reset(mark int)           { r.body = r.body[:mark] }
func (r *response) raw(text string)          { r.body = append(r.body, text...) }
func (r *response) text(text *string)        { r.body = encode.Optional(r.body, text) }
func (r *response) columns(columns []column) { r.body = appendColumns(r.body, columns) }
func (r *response) release()                 { r.memory.release(r.charged) }

// fail appends a failure, or null.
func (r *response) fail(f *failure) {
	if f == nil {
		r.raw("null")
		return
	}
	r.body = f.append(r.body)
}

// row appends a row. It returns an error if the response has become too large.
func (r *response) row(stmt *sqlite.Stmt, columns int) error {
	r.body = appendRow(r.body, stmt, columns)
	size := int64(len(r.body))
	if size > r.limit {
		return failf("RESPONSE_TOO_LARGE", "the response is larger than %d bytes: read fewer rows at a time", r.limit)
	}
	for size > r.charged {
		if !r.memory.take(charge) {
			return errOutOfMemory
		}
		r.charged += charge
	}
	return nil
}

// object appends an object with a type and, unless its name is "", another field.
func (r *response) object(kind, field string, appendValue func() error) error {
	r.raw(`{"type":"` + kind + `"`)
	if field != "" {
		r.raw(`,"` + field + `":`)
		if err := appendValue(); err != nil {
			return err
		}
	}
	r.raw(`}`)
	return nil
}

// counts appends what a statement has changed.
func (r *response) counts(c *conn, did access) { r.body = appendCounts(r.body, c, did) }

func appendCounts(to []byte, c *conn, did access) []byte {
	changes := 0
	if did.changes && !did.schema {
		changes = c.Changes()
	}
	to = append(to, `"affected_row_count":`...)
	to = strconv.AppendInt(to, int64(changes), 10)
	to = append(to, `,"last_insert_rowid":`...)
	if !did.inserts || did.schema {
		return append(to, "null"...)
	}
	to = append(to, '"')
	to = strconv.AppendInt(to, c.LastInsertRowID(), 10)
	return append(to, '"')
}
