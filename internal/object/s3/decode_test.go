package s3

import (
	"runtime"
	"strings"
	"testing"

	"steward/internal/object"
)

// TestHostileMessagesFitTheirCharge decodes messages that take much more memory than they have bytes.
func TestHostileMessagesFitTheirCharge(t *testing.T) {
	repeat := func(root, text string) string {
		return "<" + root + ">" + strings.Repeat(text, maxMessage/len(text)-2) + "</" + root + ">"
	}
	for what, test := range map[string]struct {
		text, root string
		to         any
		limit      entries
	}{
		"parts":   {repeat("CompleteMultipartUpload", "<Part/>"), "CompleteMultipartUpload", &completion{}, entries{"Part", object.MaxParts}},
		"objects": {repeat("Delete", "<Object/>"), "Delete", &deletion{}, entries{"Object", maxDelete}},
		"tags":    {"<Tagging>" + repeat("TagSet", "<Tag/>") + "</Tagging>", "Tagging", &tagging{}, tagEntries},
		"levels":  {repeat("Delete", "<ab>"), "Delete", &deletion{}, entries{"Object", maxDelete}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decodeXML([]byte(test.text), test.to, test.root, test.limit)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > decodedSize*maxMessage {
			t.Errorf("%s: %d MB for a message of 4 MiB, %v", what, used>>20, err)
		}
	}
}
