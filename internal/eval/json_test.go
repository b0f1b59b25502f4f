package eval

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/stamp"
	"steward/internal/web/webtest"
)

// encodedEval and encodedRun have the same fields without the methods, for encoding/json.
type (
	encodedEval Eval
	encodedRun  Run
)

var (
	texts = webtest.Texts
	some  = rapid.Ptr(texts, true)
	times = rapid.Map(rapid.Int64Range(0, 1e17), func(n int64) stamp.Time { return stamp.Time(n) })
	// spaces are between the tokens of a result.
	spaces = rapid.StringMatching(`[ \t\r\n]{0,3}`)
)

func TestEvalAppendJSONEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Eval{
			ID: texts.Draw(t, "id"), Name: texts.Draw(t, "name"), Description: some.Draw(t, "description"),
			Identifier: some.Draw(t, "identifier"), AgentIdentifier: texts.Draw(t, "agent"), OrgID: texts.Draw(t, "org"),
			ProjectID: texts.Draw(t, "project"), DeploymentID: some.Draw(t, "deployment"), Version: some.Draw(t, "version"),
			Filename: some.Draw(t, "filename"), Devmode: rapid.Bool().Draw(t, "devmode"), CreatedAt: times.Draw(t, "created"),
			UpdatedAt: times.Draw(t, "updated"),
		}
		webtest.SameJSON(t, e, encodedEval(e))
	})
}

func TestRunAppendJSONEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Run{
			ID: texts.Draw(t, "id"), SessionID: texts.Draw(t, "session"), EvalID: texts.Draw(t, "eval"),
			EvalIdentifier: some.Draw(t, "identifier"), EvalName: some.Draw(t, "name"), AgentIdentifier: some.Draw(t, "agent"),
			OrgID: texts.Draw(t, "org"), ProjectID: texts.Draw(t, "project"), DeploymentID: some.Draw(t, "deployment"),
			Passed: rapid.Ptr(rapid.Bool(), true).Draw(t, "passed"), Score: rapid.Ptr(rapid.Float64(), true).Draw(t, "score"),
			SpanID: some.Draw(t, "span"), Devmode: rapid.Bool().Draw(t, "devmode"), Pending: rapid.Bool().Draw(t, "pending"),
			Success: rapid.Bool().Draw(t, "success"), Error: some.Draw(t, "error"), Truncated: rapid.Bool().Draw(t, "truncated"),
			ResultOmitted: rapid.Bool().Draw(t, "result_omitted"),
			CreatedAt:     times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"),
		}
		if rapid.Bool().Draw(t, "completed") {
			result, err := compactResult(json.RawMessage(drawJSON(t, 3)))
			if err != nil {
				t.Fatal(err)
			}
			if result != nil {
				r.Result = json.RawMessage(*result)
			}
		}
		webtest.SameJSON(t, r, encodedRun(r))
	})
}

// drawJSON draws JSON with white space around its tokens.
func drawJSON(t *rapid.T, depth int) string {
	space := func() string { return spaces.Draw(t, "space") }
	text := func() string {
		b, err := json.Marshal(texts.Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	kinds := []string{"text", "number", "word", "array", "object"}
	if depth == 0 {
		kinds = kinds[:3]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return space() + text() + space()
	case "number":
		return space() + rapid.SampledFrom([]string{"0", "-1.50", "1e400", "12345678901234567890"}).Draw(t, "number") + space()
	case "word":
		return space() + rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word") + space()
	case "array":
		return space() + "[" + drawJSON(t, depth-1) + "," + drawJSON(t, depth-1) + "]" + space()
	}
	return space() + "{" + space() + text() + space() + ":" + drawJSON(t, depth-1) + "}" + space()
}
