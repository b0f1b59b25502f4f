package thread

import (
	"testing"

	"pgregory.net/rapid"

	"steward/internal/stamp"
	"steward/internal/web"
)

// texts have all that JSON writes in a special way.
var texts = rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\\x00-\x1f\x7f\x{2028}\x{fffd}\x{1f600}ä]*`),
	rapid.StringMatching(`[a-z{}:,"\\\n ]+`), rapid.Just(`\u003c`), rapid.Just("\xff"))

// TestThreadsAreAppendedAsJSON compares what a thread writes of itself with what encoding/json writes of its fields.
func TestThreadsAreAppendedAsJSON(t *testing.T) {
	type fields Thread // without the methods
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.Map(rapid.Int64Range(0, 4e15), func(n int64) stamp.Time { return stamp.Time(n) })
		row := Thread{
			ID: texts.Draw(t, "id"), OrgID: texts.Draw(t, "org"), ProjectID: texts.Draw(t, "project"), Deleted: rapid.Bool().Draw(t, "deleted"),
			CreatedAt: times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"), DeletedAt: rapid.Ptr(times, true).Draw(t, "deleted_at"),
			DeletedBy: rapid.Ptr(texts, true).Draw(t, "deleted_by"), UserData: rapid.Ptr(texts, true).Draw(t, "user_data"),
		}
		if rapid.Bool().Draw(t, "metadata") {
			text, err := encodeJSON(map[string]any{texts.Draw(t, "key"): texts.Draw(t, "value")})
			if err != nil {
				t.Fatal(err)
			}
			row.Metadata = text
		}
		got, err := row.AppendJSON([]byte("before "))
		if err != nil {
			t.Fatal(err)
		}
		want, err := web.AppendJSON([]byte("before "), fields(row))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}
