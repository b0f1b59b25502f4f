package page

import (
	"strconv"
	"strings"

	"steward/internal/errs"
)

// ETag is the strong entity tag of a row's version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// Versioned values have the version of their row as a strong ETag.
type Versioned interface{ ETag() string }

// IfMatch is the part of an update's input that makes it conditional.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"Do it only if the resource still has this ETag"`
}

// Check is PreconditionFailed when a condition was sent and the row has another version.
func (m IfMatch) Check(row Versioned) error {
	if m.IfMatch == "" || matches(m.IfMatch, row.ETag(), strongly) {
		return nil
	}
	return errs.New(errs.PreconditionFailed, "the resource was changed since it was read")
}

// How tags are compared (RFC 9110, 8.8.3.2): a proxy that compresses an answer makes its tag a weak one, which does for reading only.
const (
	strongly = false
	weakly   = true
)

// NoneMatch reports whether an If-None-Match condition names the tag, so that the caller has the resource already.
func NoneMatch(condition, tag string) bool { return condition != "" && matches(condition, tag, weakly) }

// matches reports whether a condition, which is `*` or a list of tags, names the tag. Ours hold no commas.
func matches(condition, tag string, weak bool) bool {
	if strings.TrimSpace(condition) == "*" {
		return true
	}
	for one := range strings.SplitSeq(condition, ",") {
		one = strings.TrimSpace(one)
		if weak {
			one = strings.TrimPrefix(one, "W/")
		}
		if one == tag {
			return true
		}
	}
	return false
}
