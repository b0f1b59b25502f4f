package eval

import "testing"

// TestRunETagChangesWithTheRun: a completion and a new name of the eval change it, repeats do not.
func TestRunETagChangesWithTheRun(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		seen := map[string]bool{}
		get := func() string {
			t.Helper()
			tag := f.want(200, "ada", "GET", "/cli/eval-run/r1", nil).Header().Get("ETag")
			f.want(304, "ada", "GET", "/cli/eval-run/r1", nil, "If-None-Match", tag)
			f.want(200, "ada", "GET", "/cli/eval-run/r1", nil, "If-None-Match", `"other"`)
			return tag
		}
		changed := func(after string) {
			t.Helper()
			if tag := get(); tag == "" || seen[tag] {
				t.Errorf("after %s the ETag is %q, seen are %v", after, tag, seen)
			} else {
				seen[tag] = true
			}
		}
		unchanged := func(after, tag string) {
			t.Helper()
			if got := get(); got != tag {
				t.Errorf("after %s the ETag is %s, want %s", after, got, tag)
			}
		}
		f.want(201, "ada", "POST", "/evalrun", start("r1", "s1", "e1", "red"))
		changed("the start")
		unchanged("a repeated start", f.want(201, "ada", "POST", "/evalrun", start("r1", "s1", "e1", "red")).Header().Get("ETag"))
		f.want(200, "ada", "PUT", "/cli/eval/e1", define("politeness", "support", "red"))
		changed("a name")
		done := f.want(200, "ada", "PUT", "/evalrun", `{"id":"r1","result":{"score":1}}`).Header().Get("ETag")
		changed("the completion")
		unchanged("the completion", done)
		f.want(200, "ada", "PUT", "/evalrun", `{"id":"r1","result":{"score":1}}`)
		unchanged("a repeated completion", done)
		f.want(200, "ada", "PUT", "/cli/eval/e1", define("tact", "support", "red"))
		changed("another name")
	})
}
