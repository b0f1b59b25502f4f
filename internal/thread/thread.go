// Package thread owns conversation threads and the sessions that run in them: what agents' runtimes write, and what the API lists.
//
// A thread is written by PUT /thread/{id} or over the runtime's socket (socket.go, link.go, action.go: save, merge, restore, delete). Every
// way in ends in the same steps (store_change.go): lock the row, apply the edit in memory, write row, facets and counts in one transaction.
// What sockets send at the same moment shares a transaction, and one statement for each kind of row. A facet is the hash of something that
// a thread can be found by (its project, a key of its metadata with its value); a list walks the rows of a facet in the order of the page
// and loads no more threads than it gives (store_list.go). Deleted threads lose their user_data at once and are purged after the retention
// (store_purge.go).
//
// user_data is sealed at rest, metadata is not. Sessions (session.go) name threads by id, before or after those exist.
package thread

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

const (
	// MaxText is the most that a user_data, or a metadata, may have, in bytes.
	MaxText = 1 << 20
	// MaxListed is the largest user_data that a list shows.
	MaxListed = 64 << 10
	// MaxBody is what a request with both of them may come to: JSON inside of a JSON string is escaped.
	MaxBody = 8 << 20
	// maxKeys bounds the top-level keys of a metadata: each is a row of the index.
	maxKeys = 1000

	// threadData and sessionData are what user_data is sealed for.
	threadData  = "thread.user_data"
	sessionData = "session.user_data"
)

// Thread is a conversation with its state.
type Thread struct {
	ID        string      `json:"id"`
	CreatedAt stamp.Time  `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time  `json:"updated_at" format:"date-time"`
	Deleted   bool        `json:"deleted"`
	DeletedAt *stamp.Time `json:"deleted_at" format:"date-time"`
	DeletedBy *string     `json:"deleted_by" doc:"The user who deleted it"`
	OrgID     string      `json:"org_id"`
	ProjectID string      `json:"project_id"`
	UserData  *string     `json:"user_data" doc:"JSON text: the session state. Lists leave out one over 64 KiB"`
	Metadata  Metadata    `json:"metadata" doc:"Key-value data, not encrypted, by which threads can be listed"`

	version int64
}

// ETag is the row's version.
func (t Thread) ETag() string { return page.ETag(t.version) }

// AppendJSON writes what encoding/json would. The metadata stays as it is stored.
func (t Thread) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), t.ID)
	to = t.CreatedAt.Append(append(to, `,"created_at":"`...))
	to = t.UpdatedAt.Append(append(to, `","updated_at":"`...))
	to = strconv.AppendBool(append(to, `","deleted":`...), t.Deleted)
	to = append(to, `,"deleted_at":`...)
	if t.DeletedAt == nil {
		to = append(to, "null"...)
	} else {
		to = append(t.DeletedAt.Append(append(to, '"')), '"')
	}
	to = encode.Optional(append(to, `,"deleted_by":`...), t.DeletedBy)
	to = encode.String(append(to, `,"org_id":`...), t.OrgID)
	to = encode.String(append(to, `,"project_id":`...), t.ProjectID)
	to = encode.Optional(append(to, `,"user_data":`...), t.UserData)
	to = append(to, `,"metadata":`...)
	if t.Metadata == nil {
		return append(to, "null}"...), nil
	}
	return append(append(to, t.Metadata...), '}'), nil
}

// MarshalJSON is AppendJSON for those who do not know it.
func (t Thread) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// Metadata is a JSON object, as text; nil is null.
type Metadata []byte

// MarshalJSON writes the object, or null.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	return m, nil
}

// UnmarshalJSON keeps the text.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	*m = nil
	if string(b) != "null" {
		*m = append(Metadata{}, b...)
	}
	return nil
}

// Schema documents it as an object with any keys.
func (Metadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Nullable: true, AdditionalProperties: true}
}

// Put is the body of PUT /thread/{id}: what the thread is to be.
type Put struct {
	ProjectID string   `json:"project_id,omitempty" doc:"Needed to create a thread; a key that is confined to a project may leave it out"`
	UserData  *string  `json:"user_data,omitempty" doc:"JSON text of at most 1 MiB; null or absent for none"`
	Metadata  Metadata `json:"metadata,omitempty" doc:"An object of at most 1 MiB and 1000 keys; null or absent for none"`
}

// checkUserData refuses what is not JSON text, or too much of it.
func checkUserData(faults *errs.Faults, location, text string) {
	switch {
	case len(text) > MaxText:
		faults.Add(location, "expected at most %d bytes", MaxText)
	case !utf8.ValidString(text) || !json.Valid([]byte(text)):
		faults.Add(location, "expected JSON text")
	}
}

// checkMetadata gives metadata in the form in which it is stored, with the facets of its keys. Null is stored as nil.
func checkMetadata(faults *errs.Faults, location string, m Metadata) (Metadata, []facet) {
	if m == nil {
		return nil, nil
	}
	object, err := decodeObject(m)
	if err != nil {
		faults.Add(location, "expected an object or null")
		return nil, nil
	}
	if len(object) > maxKeys {
		faults.Add(location, "expected at most %d keys", maxKeys)
		return nil, nil
	}
	text, err := encodeJSON(object)
	if err != nil || len(text) > MaxText {
		faults.Add(location, "expected at most %d bytes", MaxText)
		return nil, nil
	}
	return text, facetsOf(object)
}
