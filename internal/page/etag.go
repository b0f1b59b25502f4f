package page

import (
	"strconv"
	"strings"

	"steward/internal/errs"
)

// ETag returns the strong entity tag for a row's version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// Versioned is implemented by values whose responses carry an ETag.
type Versioned interface{ ETag() string }

// Moving is implemented by Versioned values that may partly change while their version stays, such
// as the time of their last use. Their ETag is for If-Match only: If-None-Match does not get a 304.
type Moving interface {
	Versioned
	// MovesWithoutVersion does nothing.
	MovesWithoutVersion()
}

// IfMatch makes an update conditional; embed it in the update's input.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"Fail with 412 unless the resource has one of these ETags" example:"\"3\""`
}

// Check returns PreconditionFailed if the request has an If-Match header that does not name the
// row's ETag.
func (m IfMatch) Check(row Versioned) error {
	if m.IfMatch == "" || names(m.IfMatch, row.ETag()) {
		return nil
	}
	return errs.New(errs.PreconditionFailed, "the resource has changed since it was read")
}

// NoneMatch reports whether an If-None-Match header names the ETag: the client has the current
// version already. The weak form matches too, since a proxy that compresses a response weakens its
// ETag.
func NoneMatch(header, tag string) bool {
	return header != "" && (names(header, tag) || names(header, "W/"+tag))
}

// names reports whether a header, either `*` or a list of ETags, names a tag. Our own tags contain
// no commas.
func names(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for t := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(t) == tag {
			return true
		}
	}
	return false
}
