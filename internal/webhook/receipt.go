package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"steward/internal/encode"
	"steward/internal/page"
	"steward/internal/stamp"
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
	// headerText is Headers as it is stored: all that a list reads of them, and all that is needed to send them.
	headerText string
}

// show fills in the payload from the body.
func (r Receipt) show() Receipt {
	if int64(len(r.body)) != r.Size { // it was not read
		r.Omitted, r.Payload = true, json.RawMessage("null")
		return r
	}
	if !utf8.Valid(r.body) {
		r.Encoding, r.Payload = "base64", inBase64(r.body)
		return r
	}
	var value bytes.Buffer
	if err := json.Compact(&value, r.body); err != nil {
		r.Payload = encode.String(nil, string(r.body))
		return r
	}
	r.Payload = value.Bytes()
	return r
}

func inBase64(body []byte) json.RawMessage {
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(body) + `"`)
}

// AppendJSON writes what encoding/json would. The headers stay as they are stored, and the payload is not looked at again: that would be
// half of what a page costs.
func (r Receipt) AppendJSON(to []byte) (_ []byte, err error) {
	to = encode.String(append(to, `{"id":`...), r.ID)
	to = append(r.Date.Append(append(to, `,"date":"`...)), `","webhook_id":`...)
	to = append(encode.String(to, r.WebhookID), `,"headers":`...)
	if to, err = appendStored[map[string]string](to, r.headerText); err != nil {
		return to, err
	}
	to = append(append(to, `,"payload":`...), r.Payload...)
	if r.Encoding != "" {
		to = encode.String(append(to, `,"payload_encoding":`...), r.Encoding)
	}
	if r.Omitted {
		to = append(to, `,"payload_omitted":true`...)
	}
	to = encode.String(append(to, `,"method":`...), r.Method)
	to = encode.String(append(to, `,"query":`...), r.Query)
	to = encode.String(append(to, `,"remote_addr":`...), r.RemoteAddr)
	to = strconv.AppendInt(append(to, `,"size":`...), r.Size, 10)
	to = encode.String(append(to, `,"content_type":`...), r.ContentType)
	return append(to, '}'), nil
}

// MarshalJSON is AppendJSON for those who do not know it.
func (r Receipt) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// appendStored adds JSON that json.Marshal made of a T. What is sent differs in one thing: it has no escapes for HTML.
func appendStored[T any](to []byte, text string) ([]byte, error) {
	if !strings.Contains(text, `\u00`) {
		return append(to, text...), nil
	}
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return to, err
	}
	return encode.Value(to, value)
}

// SDK gives a payload that is a string as base64 of the raw bytes.
func (r Receipt) SDK() any { return r.forSDK() }

func (r Receipt) forSDK() Receipt {
	if bytes.HasPrefix(r.Payload, []byte(`"`)) {
		r.Payload = inBase64(r.body)
	}
	return r
}

// Receipts is a page of receipts.
type Receipts struct{ page.Page[Receipt] }

// SDK gives each receipt its form on the SDK face.
func (p Receipts) SDK() any {
	shown := p.Page
	shown.Items = make([]Receipt, len(p.Items))
	for i, r := range p.Items {
		shown.Items[i] = r.forSDK()
	}
	return shown
}

// clean makes text that both databases take.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
