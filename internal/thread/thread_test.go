package thread

import (
	"testing"

	"pgregory.net/rapid"

	"steward/internal/encode"
	"steward/internal/stamp"
	"steward/internal/web/webtest"
)

var texts = webtest.Texts

func TestAppendJSONEqualsEncodingJSON(t *testing.T) {
	type fields Thread // without the methods
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.Map(rapid.Int64Range(0, 4e15), func(n int64) stamp.Time { return stamp.Time(n) })
		row := Thread{
			ID: texts.Draw(t, "id"), OrgID: texts.Draw(t, "org"), ProjectID: texts.Draw(t, "project"),
			CreatedAt: times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"),
			Deleted: rapid.Bool().Draw(t, "deleted"), DeletedAt: rapid.Ptr(times, true).Draw(t, "deleted_at"),
			DeletedBy: rapid.Ptr(texts, true).Draw(t, "deleted_by"), UserData: rapid.Ptr(texts, true).Draw(t, "user_data"),
			UserDataOmitted: rapid.Bool().Draw(t, "user_data_omitted"), MetadataOmitted: rapid.Bool().Draw(t, "metadata_omitted"),
		}
		if rapid.Bool().Draw(t, "metadata") {
			text, err := encode.Value(nil, map[string]any{texts.Draw(t, "key"): texts.Draw(t, "value")})
			if err != nil {
				t.Fatal(err)
			}
			row.Metadata = text
		}
		webtest.SameJSON(t, row, fields(row))
	})
}
