package web

import (
	"strconv"

	"steward/internal/errs"
)

// ETag is the strong entity tag of a row's version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// IfMatch is the part of an update's input that makes it conditional.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"Do it only if the resource still has this ETag"`
}

// Check is PreconditionFailed when a condition was sent and the row has another version.
func (m IfMatch) Check(row Versioned) error {
	if m.IfMatch == "" || m.IfMatch == "*" || m.IfMatch == row.ETag() {
		return nil
	}
	return errs.New(errs.PreconditionFailed, "the resource was changed since it was read")
}
