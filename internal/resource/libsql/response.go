package libsql

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"steward/internal/budget"
	"steward/internal/encode"
)

// response builds a pipeline's response, or buffers a cursor. It charges its memory: for rows before it
// appends them, and for the little text around them afterwards.
type response struct {
	body   []byte
	limit  int64 // for rows, in bytes
	memory *budget.Charge
}

func (r *response) mark() int                { return len(r.body) }
func (r *response) raw(text string)          { r.body = append(r.body, text...) }
func (r *response) text(text *string)        { r.body = encode.Optional(r.body, text) }
func (r *response) columns(columns []column) { r.body = appendColumns(r.body, columns) }

// reset cuts the response back to a mark. Everything before the mark has been charged.
func (r *response) reset(mark int) {
	r.body = r.body[:mark]
	if charged := r.memory.Used(); int64(cap(r.body)) > charged {
		r.body = append(make([]byte, 0, max(charged, int64(mark))), r.body...)
	}
}

// settle charges the body's memory. It returns an error if none is left.
func (r *response) settle() error {
	if more := int64(cap(r.body)) - r.memory.Used(); more > 0 && !r.memory.Take(more) {
		return errOutOfMemory
	}
	return nil
}

// reserve makes room for n more bytes.
func (r *response) reserve(n int) error {
	size := int64(len(r.body) + n)
	if size > r.limit {
		return failf("RESPONSE_TOO_LARGE", "the response is larger than %d bytes: read fewer rows at a time", r.limit)
	}
	if size <= int64(cap(r.body)) {
		return nil
	}
	if err := r.settle(); err != nil {
		return err
	}
	size = max(size, min(2*size, r.limit))
	if !r.memory.Take(size - r.memory.Used()) {
		return errOutOfMemory
	}
	r.body = append(make([]byte, 0, size), r.body...)
	return nil
}

// fail appends a failure.
func (r *response) fail(f *failure) { r.body = f.append(r.body) }

// row appends the current row as an array. It returns an error if the response becomes too large.
func (r *response) row(stmt *sqlite.Stmt, columns int) error {
	r.raw("[")
	for i := range columns {
		if i > 0 {
			r.raw(",")
		}
		if err := r.reserve(columnSize(stmt, i)); err != nil {
			return err
		}
		r.body = appendColumn(r.body, stmt, i)
	}
	r.raw("]")
	if err := r.reserve(0); err != nil {
		return err
	}
	return r.settle()
}

// valueSize estimates a value's size in a response, without its text or bytes.
const valueSize = 40

// columnSize estimates the size of a column's value in bytes.
func columnSize(stmt *sqlite.Stmt, i int) int {
	switch stmt.ColumnType(i) {
	case sqlite.TypeText, sqlite.TypeBlob:
		return valueSize + stmt.ColumnLen(i)
	}
	return valueSize
}

// object appends an object with a type and, if field is not "", another field.
func (r *response) object(kind word, field string, appendValue func() error) error {
	r.raw(`{"type":"` + string(kind) + `"`)
	if field != "" {
		r.raw(`,"` + field + `":`)
		if err := appendValue(); err != nil {
			return err
		}
	}
	r.raw(`}`)
	return nil
}

// endResult appends the rest of a StmtResult after its rows.
func (r *response) endResult(c *conn, did access) {
	r.raw(`],`)
	r.counts(c, did)
	r.raw(`}`)
}

// counts appends the number of changed rows and the last row id.
func (r *response) counts(c *conn, did access) {
	r.body = fmt.Appendf(r.body, `"affected_row_count":%d,"last_insert_rowid":`, c.affected(did))
	if !did.inserts || did.schema {
		r.raw("null")
	} else {
		r.body = fmt.Appendf(r.body, `"%d"`, c.LastInsertRowID())
	}
}
