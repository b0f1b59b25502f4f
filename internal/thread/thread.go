// Package thread owns conversation threads and the sessions that run in them: agents' runtimes write
// them, and the API lists them.
//
// Threads are written by PUT /thread/{id} or over the runtime's socket (socket.go, conn.go,
// action.go, store_runtime.go). Both end in the same steps (store_write.go, store_row.go): lock the
// row, apply the edit in memory, then write the row with its index entries and counts in one
// transaction. Concurrent edits from sockets share a transaction.
//
// Lists read an inverted index (store_index.go, store_list.go). A term is a hash for something by which
// we filter threads: a project, or a metadata key with its value. The index has each term's threads in
// list order.
//
// user_data is sealed at rest, metadata is not. Deleted threads lose their user_data at once and
// are purged after the retention (store_purge.go). Sessions (session.go) name threads by id,
// whether those exist or not.
package thread

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/thread/term"
)

const (
	// MaxText is the largest user_data or metadata, in bytes.
	MaxText = 1 << 20
	// MaxListed is the largest user_data that a list includes.
	MaxListed = 64 << 10
	// MaxBody is the largest request with both: JSON text inside a JSON string is escaped.
	MaxBody = 8 << 20
	// maxKeys caps the top-level keys in metadata, since each has entries in the index.
	maxKeys = 1000

	// We seal user_data for the purposes threadData and sessionData.
	threadData  = "thread.user_data"
	sessionData = "session.user_data"
)

// Thread is a conversation with its state.
type Thread struct {
	ID        string      `json:"id" example:"thrd_01jcq3x6z8b0d2f4h6k8n0q2s4"`
	CreatedAt stamp.Time  `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time  `json:"updated_at" format:"date-time"`
	Deleted   bool        `json:"deleted"`
	DeletedAt *stamp.Time `json:"deleted_at" format:"date-time"`
	DeletedBy *string     `json:"deleted_by" doc:"User who deleted the thread" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	OrgID     string      `json:"org_id" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID string      `json:"project_id" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	UserData  *string     `json:"user_data" doc:"Session state as JSON text. Null in lists if user_data_omitted is set" example:"{\"state\":{\"step\":3},\"metadata\":{}}"`
	Metadata  Metadata    `json:"metadata" doc:"Unencrypted key-value data by which threads can be filtered"`
	// The next two are set in lists only.
	UserDataOmitted bool `json:"user_data_omitted,omitempty" doc:"user_data is omitted from the list: too large, or the page is full"`
	MetadataOmitted bool `json:"metadata_omitted,omitempty" doc:"metadata is omitted from the list: the page is full"`

	version int64
}

// ETag returns the row's version.
func (t Thread) ETag() string { return page.ETag(t.version) }

// AppendJSON implements encode.Appender.
func (t Thread) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), t.ID)
	to = appendTime(append(to, `,"created_at":`...), &t.CreatedAt)
	to = appendTime(append(to, `,"updated_at":`...), &t.UpdatedAt)
	to = strconv.AppendBool(append(to, `,"deleted":`...), t.Deleted)
	to = appendTime(append(to, `,"deleted_at":`...), t.DeletedAt)
	to = encode.Optional(append(to, `,"deleted_by":`...), t.DeletedBy)
	to = encode.String(append(to, `,"org_id":`...), t.OrgID)
	to = encode.String(append(to, `,"project_id":`...), t.ProjectID)
	to = encode.Optional(append(to, `,"user_data":`...), t.UserData)
	to = appendMetadata(append(to, `,"metadata":`...), t.Metadata)
	if t.UserDataOmitted {
		to = append(to, `,"user_data_omitted":true`...)
	}
	if t.MetadataOmitted {
		to = append(to, `,"metadata_omitted":true`...)
	}
	return append(to, '}'), nil
}

func appendTime(to []byte, at *stamp.Time) []byte {
	if at == nil {
		return append(to, "null"...)
	}
	to = append(to, '"')
	to = at.Append(to)
	return append(to, '"')
}

// appendMetadata appends the stored text, which is valid JSON.
func appendMetadata(to []byte, m Metadata) []byte {
	if m == nil {
		return append(to, "null"...)
	}
	return append(to, m...)
}

// MarshalJSON implements json.Marshaler.
func (t Thread) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// Metadata is a JSON object's text; nil is null.
type Metadata []byte

// MarshalJSON implements json.Marshaler.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	return m, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	*m = nil
	if string(b) != "null" {
		*m = append(Metadata{}, b...)
	}
	return nil
}

// Schema documents metadata as an object with any keys.
func (Metadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Nullable: true, AdditionalProperties: true,
		Examples: []any{map[string]any{"channel": "web", "customer": "acme"}},
	}
}

const projectRule = "expected the project of the new thread"

// Put is the request body for PUT /thread/{id}.
type Put struct {
	_ struct{} `goName:"NewThread"`

	ProjectID string   `json:"project_id,omitempty" doc:"Required for a new thread unless the API key has a project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	UserData  *string  `json:"user_data,omitempty" doc:"JSON text of at most 1 MiB. Null or absent means none" example:"{\"state\":{\"step\":3},\"metadata\":{}}"`
	Metadata  Metadata `json:"metadata,omitempty" maxProperties:"1000" doc:"Object of at most 1 MiB and 1000 keys. Null or absent means none"`
}

// Check implements web.Checked.
func (p Put) Check(faults *errs.Faults) { p.check(faults) }

// check returns the metadata as we store it.
func (p Put) check(faults *errs.Faults) indexedMetadata {
	faults.Check(p.ProjectID == "" || id.Foreign(p.ProjectID), "body.project_id", idRule)
	if p.UserData != nil {
		checkUserData(faults, "body.user_data", *p.UserData)
	}
	return checkMetadata(faults, "body.metadata", p.Metadata)
}

// checkUserData adds an error if text is not JSON or too large.
func checkUserData(faults *errs.Faults, location, text string) {
	switch {
	case len(text) > MaxText:
		faults.Add(location, "expected at most %d bytes", MaxText)
	case !utf8.ValidString(text) || !json.Valid([]byte(text)):
		faults.Add(location, "expected JSON text")
	}
}

// checkMetadata returns metadata as we store it, with its keys' terms. Null becomes nil.
func checkMetadata(faults *errs.Faults, location string, m Metadata) indexedMetadata {
	if m == nil {
		return indexedMetadata{}
	}
	object, err := decodeObject(m)
	if err != nil {
		faults.Add(location, "expected an object or null")
		return indexedMetadata{}
	}
	if len(object) > maxKeys {
		faults.Add(location, "expected at most %d keys", maxKeys)
		return indexedMetadata{}
	}
	text, err := encode.Value(nil, object)
	if err != nil || len(text) > MaxText {
		faults.Add(location, "expected at most %d bytes", MaxText)
		return indexedMetadata{}
	}
	return indexedMetadata{text: text, keys: term.OfKeys(object)}
}

var errNotObject = errors.New("not a JSON object")

// decodeObject decodes an object. Numbers keep their text; if a key repeats, its last value wins.
func decodeObject(text []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNotObject
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errNotObject
	}
	return object, nil
}
