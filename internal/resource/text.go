package resource

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Text is a string in a key-value store, which may be any bytes. In JSON it is a string, or {"base64": …}
// if it is not UTF-8.
type Text struct {
	text string
	err  error
}

var errText = errors.New("expected text, or an object with bytes in base64")

// TextOf returns a Text with this text.
func TextOf(text string) *Text { return &Text{text: text} }

// String returns the bytes, or "" for nil.
func (t *Text) String() string {
	if t == nil {
		return ""
	}
	return t.text
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(t.text) {
		return json.Marshal(t.text)
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t.text))})
}

// UnmarshalJSON reads a text. It keeps a fault for NewValue.Check, which reports all of them at once.
func (t *Text) UnmarshalJSON(b []byte) error {
	var value any
	if err := json.Unmarshal(b, &value); err != nil {
		return err
	}
	switch v := value.(type) {
	case string:
		t.text = v
	case map[string]any:
		text, ok := v["base64"].(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if !ok || len(v) != 1 || err != nil {
			t.err = errText
		}
		t.text = string(raw)
	default:
		t.err = errText
	}
	return nil
}

// Schema documents that a text can be an object.
func (Text) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Examples: []any{"hello"}} }
