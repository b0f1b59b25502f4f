package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/encode"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Receipt is one request that a webhook accepted.
type Receipt struct {
	ID          string            `json:"id" example:"whrc_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Date        stamp.Time        `json:"date" format:"date-time"`
	WebhookID   string            `json:"webhook_id" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	Headers     map[string]string `json:"headers" doc:"Lower-case names; repeated values are joined with a comma. Viewers see *** for credentials" example:"{\"content-type\":\"application/json\",\"user-agent\":\"shop/2.1\"}"`
	Payload     json.RawMessage   `json:"payload" doc:"The value of a JSON body, else its text, else base64; null if it is omitted from a list" example:"{\"order\":1042,\"state\":\"paid\"}"`
	Encoding    string            `json:"payload_encoding,omitempty" enum:"base64" doc:"base64 if the body is not text"`
	Omitted     bool              `json:"payload_omitted,omitempty" doc:"True in lists if the payload is over 64 KiB, or the page over 8 MiB"`
	Method      string            `json:"method" example:"POST"`
	Query       string            `json:"query" example:"source=shop"`
	RemoteAddr  string            `json:"remote_addr" example:"203.0.113.7"`
	Size        int64             `json:"size" doc:"Bytes of the body" example:"31"`
	ContentType string            `json:"content_type" example:"application/json"`
	Deliveries  *DeliveryStates   `json:"deliveries,omitempty" doc:"In lists, how its deliveries stand"`
	Filtered    int64             `json:"filtered,omitempty" doc:"Destinations whose filter did not match, if any. Lists tell them in deliveries" example:"1"`

	orgID string
	body  []byte
	// headerText is Headers as a JSON object, which responses and deliveries use unparsed. Until the
	// receipt is stored, it is sealed.
	headerText string
	masked     bool // the credentials show as ***
}

// ETag is constant because receipts never change. A masked receipt has another one because it reads
// differently.
func (r Receipt) ETag() string {
	if r.masked {
		return page.ETag(2)
	}
	return page.ETag(1)
}

// withPayload moves the body into the payload. It omits a body that we did not read. If the body is a
// JSON string, we keep its raw bytes too, because the SDK face returns those.
func (r Receipt) withPayload() Receipt {
	if int64(len(r.body)) != r.Size {
		return r.withoutPayload()
	}
	body := r.body
	r.body = nil
	if !utf8.Valid(body) {
		r.Encoding = "base64"
		r.Payload = inBase64(body)
		return r
	}
	value := jsontext.Value(body)
	if value.Kind() == '"' {
		value = value.Clone()
		r.body = body
	}
	if err := value.Compact(); err != nil { // not JSON
		r.Payload = encode.String(nil, string(body))
		r.body = nil
		return r
	}
	r.Payload = json.RawMessage(value)
	return r
}

func (r Receipt) withoutPayload() Receipt {
	r.Omitted = true
	r.Payload = json.RawMessage("null")
	r.body = nil
	return r
}

func inBase64(body []byte) json.RawMessage {
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(body) + `"`)
}

// AppendJSON implements encode.Appender.
func (r Receipt) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), r.ID)
	to = append(r.Date.Append(append(to, `,"date":"`...)), `","webhook_id":`...)
	to = encode.String(to, r.WebhookID)
	to = append(append(to, `,"headers":`...), r.headerText...)
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
	if s := r.Deliveries; s != nil {
		to = strconv.AppendInt(append(to, `,"deliveries":{"succeeded":`...), s.Succeeded, 10)
		to = strconv.AppendInt(append(to, `,"failing":`...), s.Failing, 10)
		to = strconv.AppendInt(append(to, `,"pending":`...), s.Pending, 10)
		to = append(strconv.AppendInt(append(to, `,"filtered":`...), s.Filtered, 10), '}')
	}
	if r.Filtered > 0 {
		to = strconv.AppendInt(append(to, `,"filtered":`...), r.Filtered, 10)
	}
	return append(to, '}'), nil
}

// MarshalJSON is AppendJSON for encoding/json.
func (r Receipt) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// SDK returns the receipt for the SDK face, which expects a string payload as base64 of the raw bytes.
func (r Receipt) SDK() any { return r.forSDK() }

func (r Receipt) forSDK() Receipt {
	if !bytes.HasPrefix(r.Payload, []byte(`"`)) || r.Encoding != "" {
		return r
	}
	if r.body != nil { // a JSON string
		r.Payload = inBase64(r.body)
		return r
	}
	var text string
	if err := json.Unmarshal(r.Payload, &text); err == nil { // we encoded it in withPayload
		r.Payload = inBase64([]byte(text))
	}
	return r
}

// Receipts is a page of receipts.
type Receipts struct {
	page.Page[Receipt]
	// searchedTo is the time of the last receipt that an incomplete search looked at.
	searchedTo *stamp.Time
}

// SDK returns the page for the SDK face.
func (p Receipts) SDK() any {
	shown := p.Page
	shown.Items = make([]Receipt, len(p.Items))
	for i, r := range p.Items {
		shown.Items[i] = r.forSDK()
	}
	return shown
}
