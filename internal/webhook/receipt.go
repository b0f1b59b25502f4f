package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"steward/internal/stamp"
	"steward/internal/web"
)

// listedPayload is the largest body that a list shows.
const listedPayload = 64 << 10

// Receipt is one request that a webhook took in.
type Receipt struct {
	ID          string            `json:"id" example:"whrc_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Date        stamp.Time        `json:"date" format:"date-time"`
	WebhookID   string            `json:"webhook_id"`
	Headers     map[string]string `json:"headers" doc:"Names in lower case; repeated ones joined with a comma"`
	Payload     json.RawMessage   `json:"payload" doc:"The value of a JSON body, else its text, else base64; null when left out of a list"`
	Encoding    string            `json:"payload_encoding,omitempty" enum:"base64" doc:"base64 when the body is not text"`
	Omitted     bool              `json:"payload_omitted,omitempty" doc:"True in lists when the payload is over 64 KiB"`
	Method      string            `json:"method"`
	Query       string            `json:"query"`
	RemoteAddr  string            `json:"remote_addr"`
	Size        int64             `json:"size" doc:"Bytes of the body"`
	ContentType string            `json:"content_type"`

	orgID string
	body  []byte
	// headerText is Headers as it is stored.
	headerText string
}

// show fills in the payload from the body.
func (r Receipt) show() Receipt {
	if int64(len(r.body)) != r.Size { // it was not read
		r.Omitted, r.Payload = true, json.RawMessage("null")
		return r
	}
	switch {
	case !utf8.Valid(r.body):
		r.Encoding = "base64"
		r.Payload, _ = json.Marshal(r.body) // bytes always marshal
	case json.Valid(r.body):
		r.Payload = r.body
	default:
		r.Payload = quoted(string(r.body))
	}
	return r
}

// quoted gives text as a JSON string, without the escapes that only HTML needs.
func quoted(text string) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // text always does
	return bytes.TrimSpace(buf.Bytes())
}

// SDK gives a payload that is a string as base64 of the raw bytes.
func (r Receipt) SDK() any {
	if bytes.HasPrefix(bytes.TrimLeft(r.Payload, " \t\r\n"), []byte(`"`)) {
		r.Payload = json.RawMessage(`"` + base64.StdEncoding.EncodeToString(r.body) + `"`)
	}
	return r
}

// Receipts is a page of receipts.
type Receipts struct{ web.Page[Receipt] }

// SDK gives each receipt its form on the SDK face.
func (p Receipts) SDK() any {
	items := make([]any, len(p.Items))
	for i, r := range p.Items {
		items[i] = r.SDK()
	}
	return items
}

// flatten gives headers as a receipt shows them: one text for each name, in lower case, always UTF-8.
func flatten(h http.Header) map[string]string {
	flat := make(map[string]string, len(h))
	for name, values := range h {
		value := values[0]
		if len(values) > 1 {
			value = strings.Join(values, ", ")
		}
		flat[strings.ToLower(name)] = clean(value)
	}
	return flat
}

// clean makes text that both databases take.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
