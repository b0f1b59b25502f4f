package filter

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/errs"
)

func compile(t testing.TB, text string) *Filter {
	t.Helper()
	f, err := Compile([]byte(text), "filter")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMatch(t *testing.T) {
	event := Event{
		Method: "POST", Query: "shop=de&tag=a&tag=b&bad=%zz", Headers: `{"x-event":"order.paid","content-type":"application/json"}`,
		Body: []byte(`{"type":"order.paid","amount":120.0,"big":9007199254740993,"test":false,"note":null,"tags":["new","vip"],"none":[],
			"customer":{"name":"Ann","address":{"country":"DE"}},"items":[{"sku":"a","n":1},{"sku":"b","n":20}],"grid":[[1,2],[3]],"esc\u0061ped":1}`),
	}
	for text, want := range map[string]bool{
		`{}`:                                                 true,
		`{"body":{}}`:                                        true,
		`{"body":{"type":"order.paid"}}`:                     true,
		`{"body":{"type":"order.refunded"}}`:                 false,
		`{"body":{"amount":120}}`:                            true,
		`{"body":{"amount":1.2e2}}`:                          true,
		`{"body":{"amount":"120"}}`:                          false, // no coercion
		`{"body":{"big":9007199254740993}}`:                  true,
		`{"body":{"big":9007199254740992}}`:                  false,
		`{"body":{"test":false}}`:                            true,
		`{"body":{"test":null}}`:                             false,
		`{"body":{"note":null}}`:                             true,
		`{"body":{"missing":null}}`:                          false,
		`{"body":{"escaped":1}}`:                             true,
		`{"body":{"customer":{"address":{"country":"DE"}}}}`: true,
		`{"body":{"customer":"Ann"}}`:                        false,
		// arrays
		`{"body":{"tags":"vip"}}`:                                              true,
		`{"body":{"tags":"old"}}`:                                              false,
		`{"body":{"items":{"sku":"b","n":{"$gt":10}}}}`:                        true,
		`{"body":{"items":{"sku":"a","n":{"$gt":10}}}}`:                        false, // of one element
		`{"body":{"$and":[{"items":{"sku":"a"}},{"items":{"n":{"$gt":10}}}]}}`: true,
		`{"body":{"grid":3}}`:                                                  true,
		`{"body":{"tags":{"$contains":"vip"}}}`:                                true,
		`{"body":{"tags":{"$contains":"vi"}}}`:                                 false,
		`{"body":{"tags":{"$ne":"vip"}}}`:                                      false,
		`{"body":{"tags":{"$ne":"old"}}}`:                                      true,
		`{"body":{"tags":{"$nin":["vip","x"]}}}`:                               false,
		`{"body":{"none":{"$exist":true}}}`:                                    true,
		`{"body":{"none":"x"}}`:                                                false,
		`{"body":{"none":{"$ne":"x"}}}`:                                        true,
		`{"body":{"none":{"sku":{"$ne":"x"}}}}`:                                true,
		`{"body":{"amount":{"$gt":100,"$lt":200}}}`:                            true,
		`{"body":{"amount":{"$gt":120}}}`:                                      false,
		`{"body":{"amount":{"$gte":120,"$lte":120}}}`:                          true,
		`{"body":{"amount":{"$gt":"1"}}}`:                                      false,
		`{"body":{"type":{"$gt":"order"}}}`:                                    true,
		`{"body":{"type":{"$in":["x","order.paid"]}}}`:                         true,
		`{"body":{"amount":{"$in":["120"]}}}`:                                  false,
		`{"body":{"type":{"$nin":["x"]}}}`:                                     true,
		`{"body":{"missing":{"$nin":["x"]}}}`:                                  true,
		`{"body":{"missing":{"$ne":1}}}`:                                       true,
		`{"body":{"missing":{"$not":{"a":1}}}}`:                                true,
		`{"body":{"missing":{"$exist":false}}}`:                                true,
		`{"body":{"missing":{"a":{"$exist":false}}}}`:                          true,
		`{"body":{"note":{"$exist":false}}}`:                                   false,
		`{"body":{"type":{"a":{"$exist":false}}}}`:                             true,
		`{"body":{"type":{"$startsWith":"order."}}}`:                           true,
		`{"body":{"type":{"$startsWith":["x","order"]}}}`:                      true,
		`{"body":{"type":{"$endsWith":".paid"}}}`:                              true,
		`{"body":{"type":{"$endsWith":"order"}}}`:                              false,
		`{"body":{"type":{"$contains":"der.p"}}}`:                              true,
		`{"body":{"amount":{"$contains":"1"}}}`:                                false,
		`{"body":{"type":{"$or":["a",{"$startsWith":"order"}]}}}`:              true,
		`{"body":{"type":{"$not":"a"}}}`:                                       true,
		`{"$or":[{"body":{"type":"a"}},{"method":"POST"}]}`:                    true,
		`{"$not":{"method":"POST"}}`:                                           false,
		`{"$and":[{"method":"POST"},{"path":"/"}]}`:                            true,
		// the other parts
		`{"headers":{"x-event":{"$startsWith":"order."}}}`: true,
		`{"headers":{"x-other":{"$exist":true}}}`:          false,
		`{"query":{"shop":"de"}}`:                          true,
		`{"query":{"tag":"b"}}`:                            true,
		`{"query":{"tag":{"$contains":"a"}}}`:              true,
		`{"query":{"bad":{"$exist":false}}}`:               true,
		`{"method":"POST","body":{"type":"order.paid"},"headers":{"content-type":"application/json"}}`: true,
		`{"method":"GET","body":{"type":"order.paid"}}`:                                                false,
	} {
		if got := compile(t, text).Match(&event); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestBodyThatIsNotJSONIsMissing(t *testing.T) {
	for _, body := range []string{"", "a=1", `{"a":1} x`, `{"a":1}{"a":1}`, `{"a":1`, `{"a":1,}`, "{\"a\":\"\xff\"}", "[1,2", `{"a":1}}`, `{a:1}`} {
		for text, want := range map[string]bool{
			`{"body":{"a":1}}`: false, `{"body":{"$exist":false}}`: true, `{"body":{"a":{"$ne":1}}}`: true, `{"$not":{"body":{"a":1}}}`: true,
		} {
			event := Event{Method: "POST", Headers: "{}", Body: []byte(body)}
			for range 2 { // another filter on the same event
				if got := compile(t, text).Match(&event); got != want {
					t.Errorf("%s on %q: %v", text, body, got)
				}
			}
		}
	}
	if !compile(t, `{"body":"text"}`).Match(&Event{Headers: "{}", Body: []byte(` "text" `)}) {
		t.Error("a body may be any JSON value")
	}
	if !compile(t, `{"body":{"a":2}}`).Match(&Event{Headers: "{}", Body: []byte(`{"a":1,"a":2}`)}) {
		t.Error("of two members with a name, the last counts")
	}
}

func TestFaultsHaveTheirPlace(t *testing.T) {
	deep := strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth)
	for text, at := range map[string]string{
		``:                                       "filter",
		`[]`:                                     "filter",
		`"x"`:                                    "filter",
		`{} {}`:                                  "filter",
		`{"Body":{}}`:                            "filter.Body",
		`{"$eq":1}`:                              "filter.$eq",
		`{"body":{"a":{"$regex":"x"}}}`:          "filter.body.a.$regex",
		`{"body":{"a":[1]}}`:                     "filter.body.a",
		`{"body":{"a":{"$eq":{}}}}`:              "filter.body.a.$eq",
		`{"body":{"a":{"$in":"x"}}}`:             "filter.body.a.$in",
		`{"body":{"a":{"$in":[]}}}`:              "filter.body.a.$in",
		`{"body":{"a":{"$in":[[1]]}}}`:           "filter.body.a.$in",
		`{"body":{"a":{"$gt":true}}}`:            "filter.body.a.$gt",
		`{"body":{"a":{"$exist":1}}}`:            "filter.body.a.$exist",
		`{"body":{"a":{"$startsWith":1}}}`:       "filter.body.a.$startsWith",
		`{"body":{"a":{"$startsWith":[]}}}`:      "filter.body.a.$startsWith",
		`{"body":{"$or":[{"a":1},{"$in":"x"}]}}`: "filter.body.$or[1].$in",
		`{"$or":[]}`:                             "filter.$or",
		`{"$or":{}}`:                             "filter.$or",
		`{"$or":["x"]}`:                          "filter.$or[0]",
		`{"$not":{"x":1}}`:                       "filter.$not.x",
		`{"headers":{"X-Event":"a"}}`:            "filter.headers.X-Event",
		`{"headers":{"$or":[{"X":"a"}]}}`:        "filter.headers.$or[0].X",
		`{"body":` + deep + `}`:                  "filter.body" + strings.Repeat(".a", MaxDepth),
		`{"body":{"a":"` + strings.Repeat("x", MaxBytes) + `"}}`:     "filter",
		`{"body":{"$or":[` + strings.Repeat("1,", maxTerms) + `1]}}`: "filter",
	} {
		_, err := Compile([]byte(text), "filter")
		if e := errs.Of(errOr(err)); e.Kind != errs.Invalid || len(e.Faults) != 1 || e.Faults[0].Location != at {
			t.Errorf("%.80s: got %v, want a fault at %s", text, err, at)
		}
	}
	compile(t, `{"body":`+strings.Repeat(`{"a":`, MaxDepth-1)+"1"+strings.Repeat("}", MaxDepth-1)+`}`)
}

func errOr(err error) error {
	if err == nil {
		return fmt.Errorf("no error")
	}
	return err
}

// The naive evaluator follows the documentation's words on decoded values.

func naive(filter, v any, exists bool) bool {
	object, ok := filter.(map[string]any)
	if !ok {
		return somewhere(v, exists, func(v any, exists bool) bool { return exists && same(v, filter) })
	}
	positive := map[string]any{}
	for name, want := range object {
		holds := true
		switch name {
		case "$and":
			holds = !slices.ContainsFunc(want.([]any), func(part any) bool { return !naive(part, v, exists) })
		case "$or":
			holds = slices.ContainsFunc(want.([]any), func(part any) bool { return naive(part, v, exists) })
		case "$not":
			holds = !naive(want, v, exists)
		case "$ne":
			holds = !naive(map[string]any{"$eq": want}, v, exists)
		case "$nin":
			holds = !naive(map[string]any{"$in": want}, v, exists)
		case "$exist":
			holds = exists == want.(bool)
		case "$contains":
			text, isText := v.(string)
			part, isPart := want.(string)
			list, _ := v.([]any)
			holds = isText && isPart && strings.Contains(text, part) || slices.ContainsFunc(list, func(item any) bool { return same(item, want) })
		default:
			positive[name] = want
		}
		if !holds {
			return false
		}
	}
	if len(positive) == 0 {
		return true
	}
	return somewhere(v, exists, func(v any, exists bool) bool {
		for name, want := range positive {
			if !naiveHere(name, want, v, exists) {
				return false
			}
		}
		return true
	})
}

// somewhere looks at a value, or at the elements of an array.
func somewhere(v any, exists bool, holds func(any, bool) bool) bool {
	list, ok := v.([]any)
	if !ok {
		return holds(v, exists)
	}
	if len(list) == 0 {
		return holds(nil, false)
	}
	return slices.ContainsFunc(list, func(item any) bool { return somewhere(item, true, holds) })
}

func naiveHere(name string, want, v any, exists bool) bool {
	if !strings.HasPrefix(name, "$") {
		object, _ := v.(map[string]any)
		below, has := object[name]
		return naive(want, below, has)
	}
	if !exists {
		return false
	}
	text, isText := v.(string)
	order := 0
	comparable := false
	switch want := want.(type) {
	case float64:
		var n float64
		if n, comparable = v.(float64); comparable {
			order = int(max(-1, min(1, (n-want)*1000)))
		}
	case string:
		comparable = isText
		order = strings.Compare(text, want)
	}
	switch name {
	case "$eq":
		return same(v, want)
	case "$in":
		return slices.ContainsFunc(want.([]any), func(item any) bool { return same(v, item) })
	case "$gt":
		return comparable && order > 0
	case "$gte":
		return comparable && order >= 0
	case "$lt":
		return comparable && order < 0
	case "$lte":
		return comparable && order <= 0
	case "$startsWith":
		return isText && strings.HasPrefix(text, want.(string))
	case "$endsWith":
		return isText && strings.HasSuffix(text, want.(string))
	}
	panic(name)
}

func same(a, b any) bool {
	switch a.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

var names = rapid.SampledFrom([]string{"a", "b", "c"})

func drawScalar(t *rapid.T) any {
	return rapid.SampledFrom([]any{nil, true, false, 0.0, 1.0, 2.5, -1.0, "", "a", "ab", "b", "1"}).Draw(t, "scalar")
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	switch kind {
	case 1:
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			object[names.Draw(t, "name")] = drawValue(t, depth-1)
		}
		return object
	case 2:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return list
	}
	return drawScalar(t)
}

func drawFilter(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "is scalar") == 0 {
		return drawScalar(t)
	}
	return drawObject(t, depth)
}

func drawObject(t *rapid.T, depth int) map[string]any {
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		switch rapid.IntRange(0, 6).Draw(t, "condition") {
		case 0, 1, 2:
			object[names.Draw(t, "name")] = drawFilter(t, depth-1)
		case 3:
			list := make([]any, rapid.IntRange(1, 3).Draw(t, "parts"))
			for i := range list {
				list[i] = drawFilter(t, depth-1)
			}
			object[rapid.SampledFrom([]string{"$and", "$or"}).Draw(t, "logic")] = list
		case 4:
			object["$not"] = drawFilter(t, depth-1)
		case 5:
			object[rapid.SampledFrom([]string{"$eq", "$ne", "$contains"}).Draw(t, "operator")] = drawScalar(t)
			object["$exist"] = rapid.Bool().Draw(t, "exist")
		case 6:
			object[rapid.SampledFrom([]string{"$in", "$nin"}).Draw(t, "operator")] = []any{drawScalar(t), drawScalar(t)}
			object[rapid.SampledFrom([]string{"$gt", "$gte", "$lt", "$lte"}).Draw(t, "operator")] = rapid.SampledFrom([]any{0.0, 1.0, 2.5, "a", "b"}).Draw(t, "limit")
			if rapid.Bool().Draw(t, "more") {
				object[rapid.SampledFrom([]string{"$startsWith", "$endsWith"}).Draw(t, "operator")] = rapid.SampledFrom([]any{"", "a", "b"}).Draw(t, "affix")
			}
		}
	}
	return object
}

// TestMatchAgreesWithANaiveEvaluator draws filters and bodies.
func TestMatchAgreesWithANaiveEvaluator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		filter := map[string]any{"body": drawFilter(t, 4)}
		if rapid.Bool().Draw(t, "negated") {
			filter = map[string]any{"$or": []any{map[string]any{"$not": filter}, map[string]any{"body": drawFilter(t, 2)}}}
		}
		body := drawValue(t, 4)
		text, _ := json.Marshal(filter)
		raw, _ := json.Marshal(body)
		f, err := Compile(text, "filter")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		event := Event{Method: "POST", Headers: "{}", Body: raw}
		if got, want := f.Match(&event), naive(filter, map[string]any{"body": body}, true); got != want {
			t.Fatalf("%s on %s: got %v, want %v", text, raw, got, want)
		}
	})
}

// hostileBodies are JSON texts of about a mebibyte that cost as much as they can.
func hostileBodies() map[string]string {
	const n = 1 << 20
	fill := func(open, item, end string) string {
		return open + strings.TrimSuffix(strings.Repeat(item, (n-len(open)-len(end))/len(item)), ",") + end
	}
	return map[string]string{
		"numbers":       fill(`{"a":[`, `1,`, `]}`),
		"texts":         fill(`{"a":[`, `"",`, `]}`),
		"arrays":        fill(`{"a":[`, `[],`, `]}`),
		"filled arrays": fill(`{"a":[`, `[1],`, `]}`),
		"objects":       fill(`{"a":[`, `{"a":1},`, `]}`),
		"members":       fill(`{`, `"a":1,`, `}`),
		"escapes":       fill(`{"a":"`, `\u0061`, `"}`),
		"depth":         `{"a":` + strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990) + `}`,
		"too deep":      `{"a":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + `}`,
		"digits":        fill(`{"a":`, `9`, `}`),
	}
}

func hostileFilters() map[string]string {
	var in []string
	for i := range 1500 {
		in = append(in, fmt.Sprint(i+2))
	}
	return map[string]string{
		"or":    `{"body":{"a":{"$or":[` + strings.TrimSuffix(strings.Repeat(`"x",`, maxTerms-2), ",") + `]}}}`,
		"in":    `{"body":{"a":{"$in":[` + strings.Join(in, ",") + `]}}}`,
		"depth": `{"body":` + strings.Repeat(`{"a":`, MaxDepth-1) + `1` + strings.Repeat(`}`, MaxDepth),
		"not":   `{"body":{"a":` + strings.Repeat(`{"$not":`, MaxDepth-2) + `2` + strings.Repeat(`}`, MaxDepth-1) + `}`,
	}
}

// TestHostileInputTakesBoundedMemory counts what is allocated in total, most of which is garbage at once. The
// benchmark shows the times.
func TestHostileInputTakesBoundedMemory(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hostileFilters())) {
		f := compile(t, hostileFilters()[name])
		for kind, body := range hostileBodies() {
			event := Event{Method: "POST", Headers: "{}", Body: []byte(body)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if f.Match(&event) && name != "not" && kind != "objects" {
				t.Errorf("%s matches %s", name, kind)
			}
			runtime.ReadMemStats(&after)
			if total := after.TotalAlloc - before.TotalAlloc; total > 256<<20 {
				t.Errorf("%s on %s: allocated %d MiB in total", name, kind, total>>20)
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	small := Event{Method: "POST", Headers: `{"x-event":"order.paid"}`, Body: []byte(`{"type":"order.paid","data":{"object":{"amount":120,"items":[{"sku":"a"}]}}}`)}
	f := compile(b, `{"body":{"type":{"$startsWith":"order."},"data":{"object":{"amount":{"$gt":100}}}}}`)
	b.Run("small", func(b *testing.B) {
		for b.Loop() {
			f.Match(&small)
		}
	})
	for name, text := range hostileFilters() {
		f := compile(b, text)
		for kind, body := range hostileBodies() {
			b.Run(name+"/"+strings.ReplaceAll(kind, " ", "-"), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					f.Match(&Event{Method: "POST", Headers: "{}", Body: []byte(body)})
				}
			})
		}
	}
}
